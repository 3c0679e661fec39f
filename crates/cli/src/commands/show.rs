//! `canyon show`.

use crate::answer::exact;
use crate::deployment_id;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::Key;
use crate::output::{self, Format, Output};
use crate::plan_text::PlanText;
use crate::retry::retry_through_outage;
use canyon_api::client::Client;
use canyon_api::deployment::DeploymentQuery;
use canyon_api::plan::{Plan, PlanPage};
use std::path::PathBuf;

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Show,
}

#[derive(Debug, clap::Subcommand)]
enum Show {
    /// The changes of a plan: what is destroyed first, and only attributes that change
    #[command(after_help = "\
Examples:
  canyon show plan 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000
  canyon show plan 8c31 --out json --jq '.resources[].address'")]
    Plan(PlanArguments),
    /// What a deployment runs differently from the one before it: its module or job, and the names of inputs
    #[command(after_help = "\
Example:
  canyon show diff 8c31 --from 51ff")]
    Diff(DiffArguments),
}

#[derive(Debug, clap::Args)]
struct DiffArguments {
    /// The id of the deployment, or its first or last characters
    deployment: String,
    /// The deployment of the same environment to compare with [default: the last one before that has changed the same thing]
    #[arg(long, value_name = "DEPLOYMENT")]
    from: Option<String>,
}

#[derive(Debug, clap::Args)]
struct PlanArguments {
    /// The id of the deployment that has planned, or that applies a kept plan; or its first or last characters
    deployment: String,
    /// `age` secret key to decrypt the changes with, if the deployment encrypts its logs
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let PlanArguments { deployment, identity } = match arguments.what {
        Show::Plan(arguments) => arguments,
        Show::Diff(arguments) => return diff(arguments, client, output).await,
    };
    let key = identity.as_deref().map(Key::read).transpose()?;
    let id = deployment_id::resolve(client, &deployment, &DeploymentQuery::default()).await?;
    let plan = whole(client, &id.to_string(), key.as_ref()).await?;
    match output.format {
        Format::Table => {
            let is_colored = output::is_terminal() && std::env::var_os("NO_COLOR").is_none();
            output.text(&PlanText { plan: &plan, is_colored }.to_string())?;
        }
        Format::Yaml | Format::Json => output.exact(&exact(&plan)?)?,
    }
    Ok(Exit::Ok)
}

async fn diff(arguments: DiffArguments, client: &Client, output: Output) -> Result<Exit, CliError> {
    let all = DeploymentQuery::default();
    let id = deployment_id::resolve(client, &arguments.deployment, &all).await?.to_string();
    let mut query = Vec::new();
    if let Some(from) = &arguments.from {
        let from = deployment_id::resolve(client, from, &all).await?;
        query.push(("fromDeploymentId", from.to_string()));
    }
    let found = client.act(&["deployments", &id, "actions", "diff"], &query).await?;
    if output.format != Format::Table {
        output.value(&found)?;
        return Ok(Exit::Ok);
    }
    match found["from_deployment_id"].as_str() {
        Some(from) => output.notice(&format!("compared with deployment {from}")),
        None => output.notice("no deployment before it has changed the same thing"),
    }
    let changes = found["changes"].as_array().cloned().unwrap_or_default();
    output.list(changes, &["resource", "type", "summary"])?;
    Ok(Exit::Ok)
}

/// All pages of a plan as one.
pub(super) async fn whole(client: &Client, id: &str, key: Option<&Key>) -> Result<Plan, CliError> {
    let page = async |number| retry_through_outage(async || client.plan(id, number).await).await;
    let mut plan = opened(page(0).await?, id, key)?;
    while let Some(number) = plan.next.take() {
        let next = opened(page(number).await?, id, key)?;
        if next.plan_digest != plan.plan_digest {
            return Err(CliError::usage("the plan has changed meanwhile; show it again"));
        }
        plan.resources.extend(next.resources);
        plan.outputs.extend(next.outputs);
        plan.next = next.next;
    }
    Ok(plan)
}

/// A page with what was encrypted in it.
fn opened(mut page: Plan, id: &str, key: Option<&Key>) -> Result<Plan, CliError> {
    let Some(encrypted) = page.encrypted.take() else { return Ok(page) };
    let key = key.ok_or_else(|| {
        CliError::usage_with_hint(
            format!("the plan of deployment {id} is encrypted"),
            format!("read it with the secret key of its --logs-recipient: canyon show plan {id} --identity FILE"),
        )
    })?;
    let bytes = key.open_base64(&encrypted)?;
    let PlanPage { resources, outputs } = serde_json::from_slice(&bytes)
        .map_err(|_| CliError::usage("the decrypted plan is not one of this version of Canyon"))?;
    (page.resources, page.outputs) = (resources, outputs);
    Ok(page)
}
