//! `canyon logout`.

use crate::config_file::{self, ConfigFile};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::process_variable::variable;
use crate::settings::{SettingFlags, warn_of_other_token};
use crate::sign_in::{end_at_issuer, lock_renewals};
use canyon_api::client::Client;

/// Ends the sign-in of a context: Canyon and the issuer accept its tokens no more, and this machine forgets them. A token
/// that no sign-in issued is only forgotten. The context stays, for the next `canyon login`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(
    _: &Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    let path = config_file::required_path()?;
    let file = ConfigFile::read(&path)?;
    let Some(name) = flags.context_name(&variable, &file)? else {
        return Err(CliError::usage_with_hint(
            "no context is the current one",
            "name one with --context; `canyon config get-contexts` lists them",
        ));
    };
    let context = file.context(&name)?.clone();
    if !context.has_secret() {
        output.notice(&format!("`{name}` has no sign-in"));
        return Ok(Exit::Ok);
    }
    // A renewal that is under way would store its tokens after this.
    let _lock = lock_renewals().await?;
    let context = ConfigFile::read(&path)?.context(&name)?.clone();
    // First, so that nothing stays here if the network fails. If it fails itself, the tokens are revoked all the same.
    let forgotten = ConfigFile::change(&path, |file| {
        if let Some(stored) = file.contexts.get_mut(&name) {
            (stored.token, stored.token_expires_at) = (None, None);
            if let Some(sign_in) = &mut stored.sign_in {
                sign_in.refresh_token = None;
            }
        }
        Ok(())
    });
    match &context.sign_in {
        None => output.notice(
            "Canyon continues to accept the token; an administrator deletes it with `canyon delete token`",
        ),
        Some(sign_in) => {
            let (url, org) = (context.url.unwrap_or_default(), context.org.unwrap_or_default());
            if let Some(token) = &context.token
                && let Err(error) = Client::new(&url, &org, "".into())?.revoke_token(token).await
            {
                output.notice(&format!(
                    "warning: Canyon accepts the token until it expires, within an hour: {error}"
                ));
            }
            if let Err(error) = end_at_issuer(sign_in).await {
                output.notice(&format!("warning: {error}"));
            }
        }
    }
    forgotten?;
    output.notice(&format!("logged out of `{name}`"));
    warn_of_other_token(flags, output);
    Ok(Exit::Ok)
}
