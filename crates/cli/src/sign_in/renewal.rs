//! The renewal of a sign-in: before a command, and while a command runs for longer than its token is good.

use super::exchanged;
use super::issuer::Issuer;
use crate::config_file::{self, ConfigFile};
use crate::context::{Context, SignIn};
use crate::context_name::ContextName;
use crate::error::CliError;
use crate::output::Output;
use crate::settings::Settings;
use canyon_api::client::Client;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long before its end a token is renewed.
const MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// How often a renewal is tried again after a failure.
const RETRY: Duration = Duration::from_secs(15);

/// The settings with a token that is good for some time: the given ones, or renewed ones. Another process may have
/// renewed the same sign-in meanwhile; then its token is used.
pub(crate) async fn renewed(settings: Settings) -> Result<Settings, CliError> {
    let Some(name) = settings.signed_in.clone() else { return Ok(settings) };
    let context = current(&settings, &name).await?;
    let (Some(token), Some(_)) = (context.token, &context.sign_in) else { return Ok(settings) };
    Ok(Settings { token, ..settings })
}

/// The context with a token that is good for some time.
async fn current(settings: &Settings, name: &ContextName) -> Result<Context, CliError> {
    let now = Timestamp::now();
    let read = || config_file::load()?.context(name).cloned();
    let context = read()?;
    if !ends_soon(&context, now) {
        return Ok(context);
    }
    let path = config_file::required_path()?;
    // One process renews: many issuers accept a renewing token once.
    let lock = tokio::task::spawn_blocking(move || ConfigFile::lock_renewals(&path)).await;
    let _lock = lock.map_err(|error| CliError::Runtime(std::io::Error::other(error)))??;
    let context = read()?;
    if !ends_soon(&context, now) {
        return Ok(context);
    }
    let over = |reason: &str| CliError::SignIn {
        message: format!("your sign-in as `{name}` {reason}"),
        hint: Some(format!("sign in again: canyon login --context {name}")),
    };
    let Some(sign_in) = context.sign_in.clone() else { return Ok(context) };
    let Some(refresh_token) = sign_in.refresh_token.clone() else {
        let is_over = context.token_expires_at.is_some_and(|end| end <= now);
        return if is_over { Err(over("has expired")) } else { Ok(context) };
    };
    let client = Client::new(settings.url.as_str(), &settings.org, "".into())?;
    let tokens = Issuer::discover(&sign_in, Vec::new()).await?.renew(&refresh_token).await?;
    let path = config_file::required_path()?;
    let store = |change: &dyn Fn(&mut Context)| {
        ConfigFile::change(&path, |file| {
            let stored =
                file.contexts.get_mut(name).ok_or_else(|| over("was deleted meanwhile"))?;
            change(stored);
            Ok(stored.clone())
        })
    };
    // At once, whatever Canyon answers: most issuers have ended the old one.
    let sign_in = SignIn { refresh_token: tokens.refresh_token.clone(), ..sign_in };
    store(&|stored| stored.sign_in = Some(sign_in.clone()))?;
    let renewed = exchanged(&client, sign_in.clone(), tokens).await?;
    store(&|stored| {
        stored.token.clone_from(&renewed.token);
        stored.token_expires_at = renewed.token_expires_at;
    })
}

fn ends_soon(context: &Context, now: Timestamp) -> bool {
    context.token_expires_at.is_some_and(|end| end <= now + MARGIN)
}

/// Renews a client's token while the command runs. Dropping it ends the renewals.
pub(crate) struct Renewal(JoinHandle<()>);

impl Renewal {
    /// Keeps the token of `client` good, if a person has signed in.
    pub(crate) fn start(settings: &Settings, client: &Client, output: Output) -> Option<Self> {
        let name = settings.signed_in.clone()?;
        let (settings, client) = (settings.clone(), client.clone());
        Some(Self(tokio::spawn(async move {
            loop {
                match current(&settings, &name).await {
                    Ok(Context {
                        token: Some(token),
                        token_expires_at: Some(end),
                        sign_in: Some(SignIn { refresh_token: Some(_), .. }),
                        ..
                    }) => {
                        client.renew_token(token);
                        let left = (end - MARGIN).duration_since(Timestamp::now());
                        let left = left.max(SignedDuration::ZERO).unsigned_abs();
                        tokio::time::sleep(left + Duration::from_secs(1)).await;
                    }
                    Ok(_) => return,
                    Err(error) => {
                        output.notice(&format!("warning: cannot renew the sign-in: {error}"));
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        })))
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}
