//! `canyon token`, and `canyon create token`.

use super::json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use canyon_api::client::Client;
use canyon_api::token::{NewToken, TokenCreateBody};
use canyon_identity::bearer;
use canyon_identity::system::System;
use secrecy::ExposeSecret as _;
use serde_json::Value;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token and its hash here, without a server: for the operator of an installation
    New,
    /// Make an API token; its secret is shown once
    Create(NewArguments),
}

/// The token that is wanted.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArguments {
    /// What it may do
    #[arg(long, value_parser = ["viewer", "deployer", "admin", "agent"])]
    role: String,
    /// What it is for
    #[arg(long, default_value = "")]
    description: String,
    /// Its life: `720h`, `30d`, `90m`, or seconds; for ever without it
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires_in: Option<u32>,
    /// With the role `agent`: the only runner that its agent may serve
    #[arg(long, value_name = "ID")]
    runner: Option<String>,
    /// With the role `agent`: a label of its agent, which runners choose by; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

impl Arguments {
    /// Whether it needs no server.
    pub(crate) fn is_offline(&self) -> bool {
        matches!(self.what, What::New)
    }
}

/// Makes a token and its hash here.
pub(crate) fn new(output: Output) -> Result<Exit, CliError> {
    let token = bearer::api_token(&System);
    let token = token.expose_secret();
    output.notice(
        "warning: the token is shown this once; keep it where only its user can read it. The hash \
         is no secret",
    );
    output.thing(&serde_json::json!({ "token": token, "hash": bearer::hash(token).0 }))?;
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

/// Makes a token at the server.
pub(crate) async fn create(
    arguments: NewArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    if arguments.role != "agent" && (arguments.runner.is_some() || !arguments.label.is_empty()) {
        return Err(CliError::usage("--runner and --label are for tokens with `--role agent`"));
    }
    let made = client.create(&["tokens"], &body(arguments)?).await?;
    output
        .notice("warning: the secret is shown this once; keep it where only its user can read it");
    match (output.format, serde_json::from_value::<NewToken>(made.clone())) {
        (Format::Table, Ok(token)) => output.text(&format!("{}\n", token.secret))?,
        _ => output.thing(&made)?,
    }
    Ok(Exit::Ok)
}

fn body(arguments: NewArguments) -> Result<Value, CliError> {
    let role =
        serde_json::from_value(Value::from(arguments.role)).map_err(std::io::Error::other)?;
    let (description, expires_in_seconds) = (arguments.description, arguments.expires_in);
    json(&TokenCreateBody {
        description,
        role,
        runner_id: arguments.runner,
        labels: arguments.label.into_iter().collect(),
        expires_in_seconds,
    })
}

/// A time as people write it, in seconds.
fn seconds(text: &str) -> Result<u32, String> {
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
