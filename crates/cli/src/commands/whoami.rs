//! `canyon whoami`.

use crate::answer::json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_api::client::Client;

/// Shows the person, the service account or the token that the commands use, its roles, and when it expires.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(_: &Arguments, client: &Client, output: Output) -> Result<Exit, CliError> {
    output.resource(&json(&client.caller().await?)?)?;
    Ok(Exit::Ok)
}
