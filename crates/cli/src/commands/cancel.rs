//! `canyon cancel`.

use crate::deployment_history::{DeploymentHistory, filter_of, no_deployment};
use crate::deployment_id::line;
use crate::deployment_target::DeploymentTarget;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::{follow, summary};
use canyon_api::client::Client;
use canyon_api::deployment::Deployment;

/// The deployment to stop.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: DeploymentTarget,
    /// Do not wait until it has stopped
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let id = match arguments.target.environment() {
        Some(environment) => {
            let id = the_only_unended(client, &environment).await?;
            output.notice(&format!("deployment {id}"));
            id
        }
        None => arguments.target.id(client, output).await?,
    };
    let cancel = async || client.cancel(&id).await;
    let mut deployment = retry_call(output, "retrying", cancel).await?;
    if !arguments.no_wait {
        let display = Display::new(output);
        if deployment.status == "cancelling" {
            let waits_for = match deployment.kind.as_str() {
                "container" => "the program is asked to stop, and is killed after its grace period",
                _ => "the run saves its state and frees its lock",
            };
            display.line(&format!("cancelling: {waits_for}"));
        }
        deployment = follow::until_end(client, &id, &display, None).await?;
    }
    // It may have ended before the cancellation took effect: the status shows which of the two came first.
    match output.format {
        Format::Table => output.text(&format!("{}\n", deployment.status))?,
        Format::Yaml | Format::Json => summary::value(&deployment, output)?,
    }
    Ok(Exit::Ok)
}

/// How many ended deployments in a row show that no older one still waits: a deployment that waits may be cancelled
/// while an older one runs, and at most 100 wait.
const ENDED_IN_A_ROW: usize = 101;

/// The deployment of `environment` that runs or waits. If there are several, the command does not guess.
async fn the_only_unended(client: &Client, environment: &Resource) -> Result<String, CliError> {
    let mut history = DeploymentHistory::new(client, filter_of(environment), 100);
    let (mut unended, mut latest): (Vec<Deployment>, Option<Deployment>) = (Vec::new(), None);
    let mut ended_in_a_row = 0;
    while ended_in_a_row < ENDED_IN_A_ROW
        && let Some(deployment) = history.next().await?
    {
        let has_ended = deployment.completed_at.is_some();
        ended_in_a_row = if has_ended { ended_in_a_row + 1 } else { 0 };
        latest.get_or_insert_with(|| deployment.clone());
        if !has_ended {
            unended.push(deployment);
        }
    }
    let name = environment.full_name();
    match (unended.as_slice(), latest) {
        ([only], _) => Ok(only.id.to_string()),
        ([], None) => Err(no_deployment(client, environment).await),
        ([], Some(latest)) => Err(CliError::Obstacle {
            message: format!(
                "nothing runs or waits in {name}: its latest deployment {} has ended ({})",
                latest.id, latest.status
            ),
            details: Vec::new(),
            hint: None,
        }),
        (several, _) => Err(CliError::Obstacle {
            message: format!("{} deployments run or wait in {name}", several.len()),
            details: several.iter().map(line).collect(),
            hint: Some("name the one to stop: canyon cancel DEPLOYMENT".to_owned()),
        }),
    }
}
