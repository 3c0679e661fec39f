//! `canyon wait`.

use crate::deployment_target::DeploymentTarget;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::progress_bar::Display;
use crate::retry::retry_call;
use crate::{follow, summary};
use canyon_api::client::Client;

/// The deployment to wait for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: DeploymentTarget,
    /// Stop waiting after this many seconds; the deployment continues
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let id = arguments.target.id(client, output).await?;
    // Following survives an outage of minutes, which a wrong address or id must not look like.
    let mut deployment =
        retry_call(output, "retrying", async || client.deployment(&id).await).await?;
    if deployment.completed_at.is_none() {
        let display = Display::new(output);
        let ended = follow::until_end(client, &id, &display, arguments.timeout).await;
        drop(display);
        deployment = summary::or_unended(client, ended, output).await?;
    }
    summary::print(client, deployment, None, output).await?;
    Ok(Exit::Ok)
}
