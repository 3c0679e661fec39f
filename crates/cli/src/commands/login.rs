//! `canyon login`.

use crate::config_file::{self, ConfigFile};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::login_context;
use crate::output::Output;
use crate::process_variable::variable;
use crate::settings::{self, SettingFlags, warn_of_other_token};
use crate::sign_in::{RedirectUri, Way, sign_in};
use canyon_api::client::Client;
use canyon_api::identity_provider::SignInChoice;
use secrecy::SecretString;
use std::io::{self, IsTerminal};
use std::path::Path;
use url::Url;

/// Signs a person in at the organization's identity provider; or stores a token, which it reads from stdin and never
/// from an argument. Takes address and organization from `--api-url` and `--org`, or asks for them. Stores the result in
/// the context that `--context` names; without it, in the one of this address and organization, or in a new one. If Canyon
/// or the issuer has a certificate of an authority of your own, name the file with that authority in `SSL_CERT_FILE`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Arguments {
    /// Sign in with a browser of this machine
    #[arg(long, conflicts_with = "device")]
    browser: bool,
    /// Sign in with a code, in a browser of any machine
    #[arg(long)]
    device: bool,
    /// Sign in by this identity provider, where the organization has several
    #[arg(long, value_name = "ID")]
    identity_provider: Option<String>,
    /// Where the issuer sends the browser back, if it accepts only one address [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "URL", conflicts_with = "device")]
    redirect_uri: Option<RedirectUri>,
    /// Sign in although another context uses the same client of the issuer at another server
    #[arg(long)]
    shared_client: bool,
    /// Read a token from stdin, as is done without a terminal
    #[arg(long)]
    #[arg(conflicts_with_all = ["browser", "device", "identity_provider", "redirect_uri"])]
    with_token: bool,
}

impl Arguments {
    /// How a person is to sign in, if the flags ask for that.
    fn way(&self) -> Option<Way> {
        if self.device {
            return Some(Way::Device);
        }
        if self.browser || self.redirect_uri.is_some() {
            return Some(Way::Browser(self.redirect_uri.clone()));
        }
        self.identity_provider.is_some().then_some(Way::Either)
    }
}

pub(crate) async fn run(
    arguments: &Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    let path = config_file::required_path()?;
    let named = flags.named_context(&variable)?;
    let file = ConfigFile::read(&path)?;
    let known = known(&file, flags)?;
    let url = flags.api_url.clone().or_else(|| variable("CANYON_API_URL")).or(known.url.clone());
    let url = settings::address(&given("address", "Address of Canyon: ", url, output)?)?;
    let is_known_server =
        known.url.as_ref().is_none_or(|known| login_context::is_same_server(known, &url));
    let org = flags.org.clone().or_else(|| variable("CANYON_ORG"));
    let org = org.or(known.org.filter(|_| is_known_server));
    let org = given("organization", "Organization: ", org, output)?;
    let client = Client::new(url.as_str(), &org, SecretString::default())?;
    let usual = known.sign_in.filter(|_| is_known_server).map(|it| it.identity_provider);
    let chosen = choice(arguments, usual, &client).await?;
    let credential = if let Some((choice, way)) = chosen {
        if !arguments.shared_client {
            check_client(&file, &choice, &url)?;
        }
        sign_in(&client, choice, way, output).await?
    } else {
        if !arguments.with_token && io::stdin().is_terminal() {
            output.notice(&format!(
                "the organization `{org}` has no identity provider, or does not exist; give an API token"
            ));
        }
        let token = token()?;
        // `/orgs/{org}` itself: the shortest request that needs a valid token.
        client.with_token(token.clone()).get(&[]).await.map_err(|error| match error.status() {
            Some(401) => CliError::SignIn {
                message: format!("Canyon at {url} does not accept this token for the organization `{org}`"),
                hint: Some(
                    "it is wrong, has expired or was deleted, or is of another organization: give --org, or create another \
                     one with `canyon create token`"
                        .to_owned(),
                ),
            },
            _ => error.into(),
        })?;
        Context { token: Some(token), ..Context::default() }
    };
    let name = login_context::store(&path, named, &url, &org, credential)?;
    let stored = path.display();
    output.notice(&format!("logged in to `{org}` at {url}"));
    output.notice(&format!("the current context is `{name}` now, in {stored}"));
    warn_of_other_token(flags, output);
    Ok(Exit::Ok)
}

/// The identity provider by which a person signs in, and how; `None` to read a token.
async fn choice(
    arguments: &Arguments,
    usual: Option<String>,
    client: &Client,
) -> Result<Option<(SignInChoice, Way)>, CliError> {
    let asked = arguments.way();
    if asked.is_none() && (arguments.with_token || !io::stdin().is_terminal()) {
        return Ok(None);
    }
    let mut choices = match client.sign_in_choices().await {
        // A server of an earlier version.
        Err(error) if error.status() == Some(404) => Vec::new(),
        choices => choices?,
    };
    let ids: Vec<String> = choices.iter().map(|choice| choice.id.clone()).collect();
    if let Some(wanted) = &arguments.identity_provider {
        choices.retain(|choice| choice.id == *wanted);
    }
    if let Some(usual) = usual.filter(|usual| ids.contains(usual)) {
        choices.retain(|choice| choice.id == usual || arguments.identity_provider.is_some());
    }
    match (choices.pop(), choices.is_empty(), asked) {
        (Some(only), true, way) => Ok(Some((only, way.unwrap_or(Way::Either)))),
        (None, _, None) => Ok(None),
        (None, _, Some(_)) if ids.is_empty() => Err(CliError::SignIn {
            message: format!(
                "the organization `{}` has no identity provider, or does not exist",
                client.org()
            ),
            hint: Some(
                "an administrator adds one with `canyon create identity-provider`; with a token, run: canyon \
                 login --with-token < token-file"
                    .to_owned(),
            ),
        }),
        (None, _, Some(_)) => Err(CliError::usage_with_hint(
            "--identity-provider: the organization has none of this id",
            format!("it has: {}", ids.join(", ")),
        )),
        (Some(_), false, _) => Err(CliError::usage_with_hint(
            "the organization has several identity providers",
            format!("choose one with --identity-provider: {}", ids.join(", ")),
        )),
    }
}

/// Refuses a sign-in with which a server could act as the person at another one: it gets an ID token of the client that
/// the other one accepts.
fn check_client(file: &ConfigFile, choice: &SignInChoice, url: &Url) -> Result<(), CliError> {
    let is_shared = |context: &Context| {
        let known = context.url.as_deref();
        let is_elsewhere = known.is_some_and(|known| !login_context::is_same_server(known, url));
        let sign_in = context.sign_in.as_ref();
        is_elsewhere
            && sign_in.is_some_and(|known| {
                known.issuer == choice.issuer && known.client_id == choice.client_id
            })
    };
    let Some((name, _)) = file.contexts.iter().find(|(_, context)| is_shared(context)) else {
        return Ok(());
    };
    Err(CliError::SignIn {
        message: format!(
            "{url} asks for a sign-in at {} as the client `{}`, as the server of your context `{name}` does: it could \
             act as you there",
            choice.issuer, choice.client_id
        ),
        hint: Some(
            "have the issuer give each server a client of its own; if you trust both servers, add --shared-client"
                .to_owned(),
        ),
    })
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
