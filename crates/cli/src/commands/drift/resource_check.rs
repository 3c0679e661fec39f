//! `canyon drift check --resource`: runs the `check` of the container job that has created a resource.

use crate::commands::deploy;
use crate::environment_resources;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::{follow, summary};
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};

/// The check of a resource.
pub(super) struct ResourceCheck {
    pub(super) environment: Resource,
    /// The name of the resource, as it was given.
    pub(super) resource: String,
    pub(super) wait: bool,
    pub(super) timeout: Option<u64>,
}

impl ResourceCheck {
    /// Begins the check and, with `wait`, waits for its result.
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<Exit, CliError> {
        let Self { environment, resource, wait, timeout } = self;
        let found = environment_resources::find(client, &environment, &resource).await?;
        let of = environment.full_name();
        let project = environment.project.as_deref().unwrap_or_default();
        // The same request would plan the module of its definition, which is no check.
        if found.kind == "tofu" {
            let hint = format!(
                "plan it: canyon plan {project} {} --resource {}",
                environment.id, found.name
            );
            return Err(CliError::Obstacle {
                message: format!(
                    "the resource `{}` of {of} was made by an OpenTofu module, and only one that a container job has made can be checked",
                    found.name
                ),
                details: Vec::new(),
                hint: Some(hint),
            });
        }
        let body = DeploymentCreateBody {
            resource: Some(found.name.clone()),
            ..DeploymentCreateBody::new(RequestedMode::PlanOnly, project, &environment.id)
        };
        let check = deploy::create(client, &body, &deploy::new_key(), output).await?;
        if !wait {
            output.notice(&format!("check {} of `{}` of {of} has begun", check.id, found.name));
            summary::value(&check, output)?;
            return Ok(Exit::Ok);
        }
        let display = Display::new(output);
        let ended = follow::until_end(client, &check.id.to_string(), &display, timeout).await;
        drop(display);
        let ended = summary::or_unended(client, ended, output).await?;
        result(ended, &format!("`{}` of {of}", found.name), output)
    }
}

/// Shows what the check of the resource `name` has found: it counts one that differs as one to change.
fn result(ended: Deployment, name: &str, output: Output) -> Result<Exit, CliError> {
    if ended.status != "succeeded" {
        return Err(summary::failure(ended));
    }
    let is_drifted = ended.metrics.num_tf_resources_changed.is_some_and(|changed| changed > 0);
    match output.format {
        Format::Table => {
            let found = if is_drifted { "is not as" } else { "is as" };
            output.text(&format!("{name} {found} its last deployment has left it\n"))?;
        }
        Format::Yaml | Format::Json => summary::value(&ended, output)?,
    }
    Ok(if is_drifted { Exit::Drifted } else { Exit::Ok })
}
