//! `canyon apply`.

use super::container_flags::ContainerFlags;
use super::deploy::{self, Request, RunFlags};
use super::module_flags::ModuleFlags;
use crate::confirm;
use crate::deployment_id;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentQuery, RequestedMode};
use canyon_domain::kept_plan::PlanSummary;

/// The plan to apply.
#[derive(Debug, clap::Args)]
#[expect(clippy::duplicated_attributes, reason = "each hides another flag")]
#[command(
    mut_arg("plan_only", hidden),
    mut_arg("target", hidden),
    mut_arg("replace", hidden),
    mut_arg("parallelism", hidden)
)]
pub(crate) struct Arguments {
    /// The id of the deployment that has planned, or its first or last characters
    deployment: String,
    #[command(flatten)]
    flags: RunFlags,
}

/// Leaves a flag out of the help: the plan determines it, so Canyon refuses it.
fn hidden(flag: clap::Arg) -> clap::Arg {
    flag.hide(true)
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { deployment, flags } = arguments;
    let id = deployment_id::resolve(client, &deployment, &DeploymentQuery::default()).await?;
    let planned = client.deployment(&id.to_string()).await?;
    confirm_destruction(&planned, &flags, output).await?;
    let request = Request {
        project: planned.project_id,
        environment: planned.env_id,
        mode: RequestedMode::Apply,
        module: ModuleFlags::default(),
        container: ContainerFlags::default(),
        rollback_to: None,
        plan_of: Some(id),
        flags,
    };
    deploy::execute(request, client, output).await
}

/// Asks for confirmation before the apply of a plan that destroys something.
async fn confirm_destruction(
    planned: &Deployment,
    flags: &RunFlags,
    output: Output,
) -> Result<(), CliError> {
    let Some(plan) = &planned.plan else { return Ok(()) };
    let summary = PlanSummary::from(plan.summary);
    if summary.destroyed() == 0 {
        return Ok(());
    }
    let environment =
        Resource::environment(planned.project_id.clone(), planned.env_id.clone()).full_name();
    let action = format!("apply the plan {} to {environment}: {summary}", planned.id);
    confirm::require_yes(flags.yes, &action)?;
    if flags.yes {
        return Ok(());
    }
    output.notice(&format!("its changes: canyon show plan {}", planned.id));
    confirm::ask(&action, confirm::ctrl_c(), output).await
}
