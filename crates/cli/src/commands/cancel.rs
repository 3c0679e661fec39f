//! `canyon cancel`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::follow;
use crate::output::Output;
use crate::progress_bar::Display;
use crate::retry::retry_call;
use canyon_api::client::Client;

/// The deployment to stop.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The deployment's id
    deployment: String,
    /// Do not wait until it has stopped
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let id = &arguments.deployment;
    let cancel = async || client.cancel(id).await;
    let mut deployment = retry_call(output, "retrying", cancel).await?;
    if !arguments.no_wait {
        let display = Display::new(output);
        display.line("cancelling: the run saves its state and frees its lock");
        deployment = follow::until_end(client, id, &display, None).await?;
    }
    // It may have ended before the cancellation took effect: the status shows which of the two came first.
    output.text(&format!("{}\n", deployment.status))?;
    Ok(Exit::Ok)
}
