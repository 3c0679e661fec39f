//! `canyon token`, and `canyon create token`.

use super::role_scopes;
use crate::answer::json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use canyon_api::client::Client;
use canyon_api::scoped_role::ScopedRole;
use canyon_api::token::{NewToken, TokenCreateBody};
use canyon_identity::bearer;
use canyon_identity::system::System;
use secrecy::ExposeSecret as _;
use serde_json::Value;

/// Which kind of token to create.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Create a token and its hash on this machine, without a server: for the operator of an installation
    New,
    /// Create an API token; its secret is shown once
    Create(NewArguments),
}

/// The token to create.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArguments {
    /// Its role in the whole organization; with `none` it has only its scoped roles
    #[arg(
        long,
        value_parser = ["none", "viewer", "deployer", "admin", "agent"],
        default_value_if("scoped_role", clap::builder::ArgPredicate::IsPresent, "none"),
        required_unless_present = "scoped_role"
    )]
    role: Option<String>,
    /// A role in a part of the organization, such as `deployer:project_id=shop,env_type_id=development` or
    /// `admin:project_id=shop,env_id=blue`; may be repeated
    #[arg(long, value_name = "ROLE:PART", value_parser = scoped_role)]
    scoped_role: Vec<ScopedRole>,
    /// What it is for
    #[arg(long, default_value = "")]
    description: String,
    /// Its lifetime: `720h`, `30d`, `90m`, seconds, or `never`; the default is 90 days, and `never` for the role `agent`
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Lifetime>,
    /// With the role `agent`: the only runner that its agent may serve
    #[arg(long, value_name = "ID")]
    runner: Option<String>,
    /// With the role `agent`: a label of its agent, by which runners choose agents; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

/// The time until a token expires.
#[derive(Clone, Copy, Debug)]
enum Lifetime {
    /// The token is valid until it is revoked.
    Unlimited,
    /// The number of seconds.
    Seconds(u32),
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" { Ok(Lifetime::Unlimited) } else { seconds(text).map(Lifetime::Seconds) }
}

impl Arguments {
    /// Whether it needs no server.
    pub(crate) fn is_offline(&self) -> bool {
        matches!(self.what, What::New)
    }
}

/// Creates a token and its hash on this machine.
pub(crate) fn new(output: Output) -> Result<Exit, CliError> {
    let token = bearer::api_token(&System);
    let token = token.expose_secret();
    output.notice(
        "warning: the token is shown this once; keep it where only its user can read it. The hash \
         is not secret",
    );
    output.resource(&serde_json::json!({ "token": token, "hash": bearer::hash(token).0 }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    match arguments.what {
        What::New => new(output),
        What::Create(arguments) => create(arguments, client, output).await,
    }
}

/// Creates a token on the server.
pub(crate) async fn create(
    arguments: NewArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let is_agent = arguments.role.as_deref() == Some("agent");
    if !is_agent && (arguments.runner.is_some() || !arguments.label.is_empty()) {
        return Err(CliError::usage("--runner and --label are for tokens with `--role agent`"));
    }
    let body = body(arguments)?;
    let scoped = body["scoped_roles"].as_array().cloned().unwrap_or_default();
    let made = client.create(&["tokens"], &body).await?;
    output
        .notice("warning: the secret is shown this once; keep it where only its user can read it");
    match (output.format, serde_json::from_value::<NewToken>(made.clone())) {
        (Format::Table, Ok(token)) => output.text(&format!("{}\n", token.secret))?,
        _ => output.resource(&made)?,
    }
    role_scopes::notice_redundant(body["role"].as_str().unwrap_or_default(), &scoped, output);
    role_scopes::warn_of_missing(&scoped, client, output).await;
    Ok(Exit::Ok)
}

fn body(arguments: NewArguments) -> Result<Value, CliError> {
    let role = arguments.role.unwrap_or_default();
    let role = serde_json::from_value(Value::from(role)).map_err(std::io::Error::other)?;
    let (never_expires, expires_in_seconds) = match arguments.expires_in {
        None => (false, None),
        Some(Lifetime::Unlimited) => (true, None),
        Some(Lifetime::Seconds(seconds)) => (false, Some(seconds)),
    };
    json(&TokenCreateBody {
        description: arguments.description,
        role,
        scoped_roles: arguments.scoped_role,
        runner_id: arguments.runner,
        labels: arguments.label.into_iter().collect(),
        expires_in_seconds,
        never_expires,
    })
}

/// Parses a role and the part of the organization where it applies.
fn scoped_role(text: &str) -> Result<ScopedRole, String> {
    const FORM: &str = "write it as ROLE:NAME=ID[,NAME=ID], where ROLE is `viewer`, `deployer` or `admin` and NAME is \
                        `project_id`, `env_type_id` or `env_id`";
    let (role, parts) = text.split_once(':').ok_or(FORM)?;
    let mut members = serde_json::Map::from_iter([("role".to_owned(), Value::from(role))]);
    for part in parts.split(',') {
        let (name, id) = part.split_once('=').filter(|(_, id)| !id.is_empty()).ok_or(FORM)?;
        if members.insert(name.to_owned(), Value::from(id)).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    serde_json::from_value(Value::Object(members)).map_err(|_| FORM.to_owned())
}

/// Parses a duration such as `720h` to seconds.
/// The seconds of a time such as `90m`.
pub(super) fn seconds(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(|unit: char| unit.is_ascii_alphabetic()) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    let number: Option<u32> = number.parse().ok();
    number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .ok_or_else(|| "write a number and one of `s`, `m`, `h`, `d`, as in `720h`".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scoped_role_names_its_part_of_the_organization() {
        let read = |text: &str| serde_json::to_value(scoped_role(text).unwrap()).unwrap();
        assert_eq!(
            read("deployer:project_id=shop,env_type_id=development"),
            serde_json::json!({
                "role": "deployer", "project_id": "shop", "env_type_id": "development",
            })
        );
        for wrong in [
            "deployer",
            "deployer:",
            "deployer:shop",
            "boss:project_id=shop",
            "viewer:project=shop",
        ] {
            assert!(scoped_role(wrong).unwrap_err().starts_with("write it as ROLE:"), "{wrong}");
        }
        assert!(scoped_role("viewer:project_id=a,project_id=b").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let read = |text| seconds(text).ok();
        assert_eq!(read("720h"), Some(2_592_000));
        assert_eq!(read("30d"), Some(2_592_000));
        assert_eq!((read("60"), read("60s"), read("90m")), (Some(60), Some(60), Some(5_400)));
        for wrong in ["", "h", "1y", "1.5h", "-1h", "99999999d", "1hh", "1 h"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
