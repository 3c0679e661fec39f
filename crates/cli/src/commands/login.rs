//! `canyon login`.

use crate::config_file::{self, ConfigFile};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::login_context;
use crate::output::Output;
use crate::process_variable::variable;
use crate::settings::{self, SettingFlags, Settings};
use secrecy::SecretString;
use std::io::{self, IsTerminal};
use std::path::Path;

/// Takes address and organization from `--api-url` and `--org`, or asks for them. Reads the token from
/// stdin, and never from an argument. Stores all three in the context that `--context` names; without it, in the one
/// of this address and organization, or in a new one.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(
    _: &Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    let path = config_file::required_path()?;
    let named = flags.named_context(&variable)?;
    let known = known(&ConfigFile::read(&path)?, flags)?;
    let url = flags.api_url.clone().or_else(|| variable("CANYON_API_URL")).or(known.url.clone());
    let url = settings::address(&given("address", "Address of Canyon: ", url, output)?)?;
    let is_known_server = known.url.is_none_or(|known| login_context::is_same_server(&known, &url));
    let org = flags.org.clone().or_else(|| variable("CANYON_ORG"));
    let org = org.or(known.org.filter(|_| is_known_server));
    let org = given("organization", "Organization: ", org, output)?;
    let token = token()?;
    let settings = Settings { url: url.clone(), org: org.clone(), token: token.clone() };
    // `/orgs/{org}` itself: the shortest request that needs a valid token.
    settings.client()?.get(&[]).await?;
    let credential = Context { token: Some(token), ..Context::default() };
    let name = login_context::store(&path, named, &url, &org, credential)?;
    let stored = path.display();
    output.notice(&format!("logged in to `{org}` at {url}"));
    output.notice(&format!("the current context is `{name}` now, in {stored}"));
    Ok(Exit::Ok)
}

/// The context whose address and organization are used where no flag and no variable gives them: the one that is named,
/// which may be new, or the current one.
fn known(file: &ConfigFile, flags: &SettingFlags) -> Result<Context, CliError> {
    let name = flags.context_name(&variable, file)?;
    Ok(name.and_then(|name| file.contexts.get(&name).cloned()).unwrap_or_default())
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
