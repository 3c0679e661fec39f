//! `canyon rollback`.

use super::container_flags::ContainerFlags;
use super::deploy::{self, Request, RunFlags};
use super::module_flags::ModuleFlags;
use crate::deployment_history::{DeploymentHistory, MAX_SEARCHED, filter_of, no_deployment};
use crate::deployment_id;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, RequestedMode};
use uuid::Uuid;

/// The environment, and the deployment to repeat.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// The id of the deployment to repeat, or its first or last characters; without it, the last successful
    /// deployment before the current one that was of the whole module
    deployment: Option<String>,
    #[command(flatten)]
    flags: RunFlags,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { project, environment, deployment, flags } = arguments;
    let target = Resource::environment(project.clone(), environment.clone());
    let rollback_to = if let Some(given) = deployment {
        deployment_id::resolve(client, &given, &filter_of(&target)).await?
    } else {
        let former = before_current(client, &target).await?;
        output
            .notice(&format!("rolling back to deployment {} of {}", former.id, former.created_at));
        former.id
    };
    let request = Request {
        project,
        environment,
        mode: RequestedMode::Rollback,
        module: ModuleFlags::default(),
        container: ContainerFlags::default(),
        rollback_to: Some(rollback_to),
        plan_of: None,
        flags,
    };
    deploy::execute(request, client, output).await
}

/// The last successful deployment before the current one. The current one is the newest that changed the
/// environment: it succeeded, or its apply began. A destroy run may be the current one, and is never repeated.
async fn before_current(client: &Client, environment: &Resource) -> Result<Deployment, CliError> {
    let mut history = DeploymentHistory::new(client, filter_of(environment), 20);
    let mut current: Option<Uuid> = None;
    let mut is_empty = true;
    while let Some(deployment) = history.next().await? {
        is_empty = false;
        // A container job is repeated only by its id: it is for one of many resources.
        if deployment.plan_only || deployment.mode == "state" || deployment.resource.is_some() {
            continue;
        }
        if deployment.completed_at.is_none() {
            return Err(unended(&deployment, environment));
        }
        let succeeded = deployment.status == "succeeded";
        match current {
            None if succeeded || began_apply(client, &deployment).await? => {
                current = Some(deployment.id);
            }
            // A partial one has applied its targets only: repeated as a whole it would change what it left alone.
            Some(_) if succeeded && deployment.mode != "destroy" && !deployment.partial => {
                return Ok(deployment);
            }
            None | Some(_) => {}
        }
    }
    if is_empty {
        return Err(no_deployment(client, environment).await);
    }
    Err(nothing_before(environment, current, history.is_cut()))
}

/// Whether a failed or cancelled deployment may have changed the environment.
async fn began_apply(client: &Client, deployment: &Deployment) -> Result<bool, CliError> {
    if deployment.refused_deletions.is_some() {
        return Ok(false);
    }
    // Lists leave out the attempts.
    let whole = client.deployment(&deployment.id.to_string()).await?;
    Ok(whole.attempts.iter().any(|attempt| attempt.phase == "apply"))
}

fn unended(deployment: &Deployment, environment: &Resource) -> CliError {
    let id = deployment.id;
    CliError::Obstacle {
        message: format!(
            "deployment {id} of {} has not ended ({}), so the deployment before it is not known yet",
            environment.full_name(),
            deployment.status
        ),
        details: Vec::new(),
        hint: Some(format!(
            "wait for it with `canyon wait {id}`, stop it with `canyon cancel {id}`, or name the deployment to \
             repeat"
        )),
    }
}

fn nothing_before(environment: &Resource, current: Option<Uuid>, is_cut: bool) -> CliError {
    let name = environment.full_name();
    let searched = if is_cut { format!(" among its newest {MAX_SEARCHED}") } else { String::new() };
    let message = match current {
        Some(current) => {
            format!(
                "{name} has no successful deployment before the current one ({current}){searched}"
            )
        }
        None => format!("no deployment has changed {name}{searched}"),
    };
    let project = environment.project.as_deref().unwrap_or_default();
    CliError::Absent {
        message,
        hint: format!(
            "list its deployments: canyon list deployments --project {project} --environment {}",
            environment.id
        ),
    }
}
