//! `canyon login`.

use crate::config_file::{self, ConfigFile};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::settings::{self, SettingFlags, Settings, variable};
use secrecy::SecretString;
use std::io::{self, IsTerminal};
use std::path::Path;

/// Takes address and organization from `--api-url` and `--org`, or asks for them. Reads the token from
/// stdin, and never from an argument.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(
    _: &Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    let path = config_file::path(&variable).ok_or_else(|| {
        CliError::usage_with_hint(
            "the folder for settings is unknown",
            "set HOME or XDG_CONFIG_HOME",
        )
    })?;
    let file = ConfigFile::read(&path)?;
    let url = flags.api_url.clone().or_else(|| variable("CANYON_API_URL")).or(file.url);
    let org = flags.org.clone().or_else(|| variable("CANYON_ORG")).or(file.org);
    let settings = Settings {
        url: settings::address(&given("address", "Address of Canyon: ", url, output)?)?,
        org: given("organization", "Organization: ", org, output)?,
        token: token()?,
    };
    let stored = ConfigFile {
        url: Some(settings.url.to_string()),
        org: Some(settings.org.clone()),
        token: Some(settings.token.clone()),
    };
    let org = settings.org.clone();
    // `/orgs/{org}` itself: the shortest request that needs a valid token.
    settings.client()?.get(&[]).await?;
    stored.write(&path)?;
    output.notice(&format!("logged in to `{org}`; stored in {}", path.display()));
    Ok(Exit::Ok)
}

fn given(
    what: &'static str,
    question: &str,
    known: Option<String>,
    output: Output,
) -> Result<String, CliError> {
    if let Some(value) = known {
        return Ok(value);
    }
    if !io::stdin().is_terminal() {
        return Err(CliError::MissingSetting { what });
    }
    output.notice(question);
    line()
}

fn token() -> Result<SecretString, CliError> {
    let text = if io::stdin().is_terminal() {
        // The terminal does not show it.
        rpassword::prompt_password("Token: ").map_err(stdin_error)?
    } else {
        line()?
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CliError::usage_with_hint(
            "stdin does not hold a token",
            "pass the token like this: canyon login < token-file",
        ));
    }
    Ok(SecretString::from(token))
}

fn line() -> Result<String, CliError> {
    let mut text = String::new();
    io::stdin().read_line(&mut text).map_err(stdin_error)?;
    Ok(text.trim().to_owned())
}

fn stdin_error(source: io::Error) -> CliError {
    CliError::file("read", Path::new("stdin"), source)
}
