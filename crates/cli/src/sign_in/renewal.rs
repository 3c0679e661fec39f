//! The renewal of a sign-in: before a command, and while a command runs for longer than its token is good.
//!
//! Most issuers accept a renewing token once, and end the whole sign-in when it comes again. So one process at a time
//! renews, and it stores the new one before anything else can fail.

use super::issuer::{Issuer, Tokens};
use super::{exchanged, id_token};
use crate::config_file::{self, ConfigFile};
use crate::context::{Context, SignIn};
use crate::context_name::ContextName;
use crate::error::CliError;
use crate::login_context::is_same_server;
use crate::output::Output;
use crate::settings::Settings;
use canyon_api::client::Client;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use std::fs::File;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How long before its end a token is renewed.
const MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// How often a renewal is tried again after a failure.
const RETRY: Duration = Duration::from_secs(15);
/// How long to wait for another process that renews.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings with a token that is good for some time: the given ones, or renewed ones. Another process may have
/// renewed the same sign-in meanwhile; then its token is used.
pub(crate) async fn renewed(settings: Settings, output: Output) -> Result<Settings, CliError> {
    let Some(name) = settings.signed_in.clone() else { return Ok(settings) };
    match current(&settings, &name).await {
        Ok(Context { token: Some(token), .. }) => Ok(Settings { token, ..settings }),
        Ok(_) => Ok(settings),
        Err(error) if is_good(&settings, &name) => {
            output.notice(&format!("warning: cannot renew the sign-in: {error}"));
            Ok(settings)
        }
        Err(error) => Err(error),
    }
}

/// Whether the token is good for some seconds more.
fn is_good(settings: &Settings, name: &ContextName) -> bool {
    let end = own(settings, name).ok().and_then(|context| context.token_expires_at);
    end.is_some_and(|end| end > Timestamp::now())
}

/// Waits until no other process renews a sign-in, and lets none begin until the result is dropped.
pub(crate) async fn lock_renewals() -> Result<File, CliError> {
    let path = config_file::required_path()?;
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = ConfigFile::try_lock_renewals(&path)? {
            return Ok(lock);
        }
        if Instant::now() >= end {
            return Err(CliError::SignIn {
                message: "another `canyon` process has been renewing a sign-in for too long"
                    .to_owned(),
                hint: Some("end that process, which may be suspended, and try again".to_owned()),
            });
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The context with a token that is good for some time.
async fn current(settings: &Settings, name: &ContextName) -> Result<Context, CliError> {
    let context = own(settings, name)?;
    if !ends_soon(&context) {
        return Ok(context);
    }
    let _lock = lock_renewals().await?;
    let context = own(settings, name)?;
    let Some(sign_in) = context.sign_in.clone().filter(|_| ends_soon(&context)) else {
        return Ok(context);
    };
    match sign_in.refresh_token.clone() {
        Some(refresh_token) => renew(settings, name, sign_in, &refresh_token).await,
        None if context.token_expires_at.is_none_or(|end| end > Timestamp::now()) => Ok(context),
        None => Err(over(name, "has expired")),
    }
}

/// The context, while it is of the server and the organization with which the command began: its token is for no other.
fn own(settings: &Settings, name: &ContextName) -> Result<Context, CliError> {
    let context = config_file::load()?.context(name)?.clone();
    let is_same = context.url.as_deref().is_some_and(|url| is_same_server(url, &settings.url))
        && context.org.as_ref() == Some(&settings.org);
    if is_same { Ok(context) } else { Err(over(name, "was replaced meanwhile")) }
}

async fn renew(
    settings: &Settings,
    name: &ContextName,
    sign_in: SignIn,
    refresh_token: &SecretString,
) -> Result<Context, CliError> {
    let client = Client::new(settings.url.as_str(), &settings.org, "".into())?;
    let issuer = Issuer::discover(&sign_in, Vec::new()).await?;
    // What cannot be stored must not be asked for.
    store(name, refresh_token, |_| {})?;
    let tokens = issuer.renew(refresh_token).await?;
    let next = tokens.refresh_token.clone().unwrap_or_else(|| refresh_token.clone());
    if is_of_another_person(&sign_in, &tokens) {
        issuer.revoke(&next).await?;
        store(name, refresh_token, |stored| {
            stored.token = None;
            stored.sign_in = Some(SignIn { refresh_token: None, ..sign_in });
        })?;
        return Err(over(name, "was renewed for another person, and has ended"));
    }
    let renewed = SignIn { refresh_token: Some(next.clone()), ..sign_in };
    if let Err(error) = store(name, refresh_token, |stored| stored.sign_in = Some(renewed.clone()))
    {
        // A logout, or another sign-in: nothing of this one may stay.
        issuer.revoke(&next).await?;
        return Err(error);
    }
    let context = exchanged(&client, renewed, tokens).await?;
    store(name, &next, |stored| {
        stored.token = context.token;
        stored.token_expires_at = context.token_expires_at;
    })
}

/// Whether the issuer's answer to a renewal names another person, which it must not (OpenID Connect Core, section 12.2).
fn is_of_another_person(sign_in: &SignIn, tokens: &Tokens) -> bool {
    let answered = tokens.id_token(&sign_in.issuer).ok();
    let answered = answered.and_then(|id_token| id_token::claim(id_token, "sub"));
    matches!((&sign_in.subject, answered), (Some(before), Some(now)) if *before != now)
}

/// Changes the context, if its sign-in is still the one with this renewing token.
fn store(
    name: &ContextName,
    refresh_token: &SecretString,
    change: impl FnOnce(&mut Context),
) -> Result<Context, CliError> {
    ConfigFile::change(&config_file::required_path()?, |file| {
        let is_same = |context: &&mut Context| {
            let stored = context.sign_in.as_ref().and_then(|it| it.refresh_token.as_ref());
            stored.is_some_and(|it| it.expose_secret() == refresh_token.expose_secret())
        };
        let stored = file.contexts.get_mut(name).filter(is_same);
        let stored = stored.ok_or_else(|| over(name, "was ended or replaced meanwhile"))?;
        change(stored);
        Ok(stored.clone())
    })
}

fn over(name: &ContextName, reason: &str) -> CliError {
    CliError::SignIn {
        message: format!("your sign-in as `{name}` {reason}"),
        hint: Some(format!("sign in again: canyon login --context {name}")),
    }
}

fn ends_soon(context: &Context) -> bool {
    context.token_expires_at.is_some_and(|end| end <= Timestamp::now() + MARGIN)
}

/// After Canyon has refused the token of a sign-in: lets the next command renew it, and returns the error that says so.
/// An identity provider that an administrator changed ends the tokens of its people, and not their sign-ins.
pub(crate) fn refused(settings: &Settings, error: CliError) -> CliError {
    let Some(name) = settings.signed_in.clone() else { return error };
    let is_refused = matches!(&error, CliError::Client(error) if error.status() == Some(401));
    let refresh_token = own(settings, &name).ok().and_then(|it| it.sign_in?.refresh_token);
    let Some(refresh_token) = refresh_token.filter(|_| is_refused) else { return error };
    let ended = store(&name, &refresh_token, |stored| {
        stored.token_expires_at = Some(Timestamp::UNIX_EPOCH);
    });
    if ended.is_err() {
        return error;
    }
    CliError::SignIn {
        message: format!("Canyon does not accept the token of your sign-in as `{name}` any more"),
        hint: Some(format!(
            "run the command again: it renews the sign-in; if that fails: canyon login --context {name}"
        )),
    }
}

/// Renews a client's token while the command runs. Dropping it ends the renewals.
pub(crate) struct Renewal(JoinHandle<()>);

impl Renewal {
    /// Keeps the token of `client` good, if a person has signed in.
    pub(crate) fn start(settings: &Settings, client: &Client, output: Output) -> Option<Self> {
        let name = settings.signed_in.clone()?;
        let (settings, client) = (settings.clone(), client.clone());
        Some(Self(tokio::spawn(async move {
            let mut warned = false;
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
                        sleep(left + Duration::from_secs(1)).await;
                    }
                    Ok(_) => return,
                    Err(error) => {
                        if !warned {
                            output.notice(&format!("warning: cannot renew the sign-in: {error}"));
                        }
                        warned = true;
                        sleep(RETRY).await;
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
