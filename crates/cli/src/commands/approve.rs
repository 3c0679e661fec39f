//! `canyon approve`, `canyon reject` and `canyon discard`: what becomes of a plan that waits for its approval.

use super::agents;
use crate::confirm;
use crate::deployment_id;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{self, Format, Output};
use crate::plan_text::PlanText;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::summary;
use canyon_api::approval::{ApproveBody, RejectBody};
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use serde_json::{Value, json};

/// The plan to approve.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of the deployment that waits, or its first or last characters
    deployment: String,
    /// The digest of the plan that you have reviewed, as `canyon show plan` prints it; without it, the command shows the plan and
    /// asks
    #[arg(long, value_name = "SHA256")]
    plan_digest: Option<String>,
    /// What to say about it; readers of the deployment see it
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

/// The plan, or the agent, to reject.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct RejectArguments {
    #[command(subcommand)]
    what: Option<agents::What>,
    /// The id of the deployment whose plan waits for approval, or its first or last characters
    deployment: Option<String>,
    /// Why; readers of the deployment see it
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

/// The deployment to end.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArguments {
    /// The id of the deployment whose plan waits for approval, or its first or last characters
    deployment: String,
}

/// Which plans to list.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only those of this project
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Only those of this environment of the project
    #[arg(long, visible_alias = "env", value_name = "ID", requires = "project")]
    environment: Option<String>,
    /// Only those that you may still approve
    #[arg(long)]
    mine: bool,
}

async fn id_of(client: &Client, given: &str) -> Result<String, CliError> {
    let id = deployment_id::resolve(client, given, &DeploymentQuery::default()).await?;
    Ok(id.to_string())
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { deployment, plan_digest, comment } = arguments;
    let id = id_of(client, &deployment).await?;
    let plan_digest = match plan_digest {
        Some(given) => given,
        None => shown_and_confirmed(client, &id, output).await?,
    };
    let body = ApproveBody { plan_digest, comment };
    let reviewed =
        retry_call(output, "retrying", async || client.approve(&id, &body).await).await?;
    if let Some(approval) = &reviewed.approval {
        output.notice(&format!("{} of {} approvals are given", approval.given, approval.needed));
        for check in &approval.checks {
            output.notice(&format!("check {}", check.in_words()));
        }
    }
    print(&reviewed, output)
}

/// Shows the plan, and asks whether it is approved. Returns its digest, so that a person approves the plan that they saw.
async fn shown_and_confirmed(
    client: &Client,
    id: &str,
    output: Output,
) -> Result<String, CliError> {
    let action = format!("approve the plan of deployment {id}");
    if !confirm::is_possible() {
        return Err(CliError::usage_with_hint(
            "--plan-digest is required, because this is no terminal, so the command cannot ask",
            format!("review the plan first: canyon show plan {id}"),
        ));
    }
    let plan = super::show::whole(client, id, None).await?;
    let is_colored = output::is_terminal() && std::env::var_os("NO_COLOR").is_none();
    output.text(&PlanText { plan: &plan, is_colored }.to_string())?;
    confirm::ask(&action, confirm::ctrl_c(), output).await?;
    Ok(plan.plan_digest)
}

pub(crate) async fn reject(
    arguments: RejectArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let RejectArguments { what, deployment, comment } = arguments;
    if let Some(agent) = what {
        return agents::reject(agent, client, output).await;
    }
    let id = id_of(client, deployment.as_deref().unwrap_or_default()).await?;
    let body = RejectBody { comment };
    let ended = retry_call(output, "retrying", async || client.reject(&id, &body).await).await?;
    print(&ended, output)
}

pub(crate) async fn discard(
    arguments: DiscardArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let id = id_of(client, &arguments.deployment).await?;
    let ended = retry_call(output, "retrying", async || client.discard(&id).await).await?;
    print(&ended, output)
}

fn print(deployment: &Deployment, output: Output) -> Result<Exit, CliError> {
    match output.format {
        Format::Table => output.text(&format!("{}\n", deployment.status))?,
        Format::Yaml | Format::Json => summary::value(deployment, output)?,
    }
    Ok(Exit::Ok)
}

/// Lists the deployments whose plans wait for approval, the newest first.
pub(crate) async fn list(given: List, client: &Client, output: Output) -> Result<Exit, CliError> {
    let List { project, environment, mine } = given;
    let ended = Some(false);
    let filter = DeploymentQuery {
        project_id: project,
        env_id: environment,
        ended,
        ..DeploymentQuery::default()
    };
    let (mut rows, mut page) = (Vec::new(), PageQuery::default());
    loop {
        let found = client.deployments(&filter, &page).await?;
        let waiting = found.items.iter().filter(|of| !mine || may_approve(of));
        rows.extend(waiting.filter_map(row));
        page.page = found.next_page_token;
        if page.page.is_none() {
            break;
        }
    }
    if rows.is_empty() {
        let (project, environment) = (&filter.project_id, &filter.env_id);
        Resource::require_filtered(client, project.as_deref(), environment.as_deref()).await?;
    }
    let columns =
        ["id", "project", "environment", "plan", "given", "checks", "expires_at", "requested_by"];
    output.list(rows, &columns)?;
    Ok(Exit::Ok)
}

/// Whether the caller may still approve its plan.
fn may_approve(of: &Deployment) -> bool {
    of.approval.as_ref().is_some_and(|approval| approval.may_approve == Some(true))
}

fn row(of: &Deployment) -> Option<Value> {
    let approval = of.approval.as_ref().filter(|approval| approval.status == "awaited")?;
    let plan = of.plan.as_ref();
    let summary =
        plan.map(|plan| canyon_domain::kept_plan::PlanSummary::from(plan.summary).to_string());
    let checks: Vec<_> =
        approval.checks.iter().map(|check| format!("{}: {}", check.id, check.status)).collect();
    Some(json!({
        "id": of.id, "project": of.project_id, "environment": of.env_id, "plan": summary,
        "plan_digest": plan.map(|plan| &plan.digest),
        "given": format!("{} of {}", approval.given, approval.needed),
        "checks": checks.join(", "),
        "expires_at": approval.expires_at,
        "may_approve": approval.may_approve,
        "requested_by": of.created_by_name.clone().unwrap_or_else(|| of.created_by.to_string()),
    }))
}
