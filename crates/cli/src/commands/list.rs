//! `canyon list`.

use crate::answer::json;
use crate::commands::{approve, audit, git_credentials, schedules, variable_uses, variables};
use crate::deployment_overview;
use crate::environment_resources;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::plain_resource::{self, PlainKind};
use crate::resource::{self, Kind, Resource};
use crate::since::Since;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use serde_json::Value;

/// The resources to list.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Runners
    #[command(visible_alias = "runner")]
    Runners,
    /// Runner rules
    #[command(visible_alias = "runner-rule")]
    RunnerRules {
        /// Only rules for this runner
        #[arg(long, value_name = "ID")]
        runner: Option<String>,
        /// Only rules that name this project
        #[arg(long, value_name = "ID")]
        project: Option<String>,
        /// Only rules that name this environment type
        #[arg(long, value_name = "ID")]
        environment_type: Option<String>,
    },
    /// Projects
    #[command(visible_alias = "project")]
    Projects,
    /// Environments
    #[command(visible_aliases = ["environment", "envs", "env"])]
    Environments {
        /// Only those of this project
        project: Option<String>,
    },
    #[command(flatten)]
    Plain(plain_resource::List),
    /// Schedules of an environment, with their next time and their last result
    #[command(visible_alias = "schedule")]
    Schedules(schedules::Place),
    /// Limits on how many jobs run at once, and the deployments that count against them
    #[command(visible_alias = "limit")]
    Limits,
    /// Agents, which launch jobs in networks that Canyon itself cannot reach
    #[command(visible_alias = "agent")]
    Agents {
        /// Only those that wait to be adopted
        #[arg(long)]
        pending: bool,
    },
    /// What container jobs have created in an environment, the oldest first
    #[command(visible_alias = "resource")]
    Resources {
        /// The project
        project: String,
        /// The environment
        environment: String,
    },
    /// Deployments whose plans wait for approval
    #[command(visible_alias = "approval")]
    Approvals(approve::List),
    /// Deployments, newest first
    #[command(visible_alias = "deployment")]
    Deployments {
        /// Only those of this project
        #[arg(long, value_name = "ID")]
        project: Option<String>,
        /// Only those of this environment of the project
        #[arg(long, visible_alias = "env", value_name = "ID", requires = "project")]
        environment: Option<String>,
        /// Only those with this status
        #[arg(long, value_parser = ["queued", "launching", "running", "cancelling", "succeeded", "failed", "cancelled"])]
        status: Option<String>,
        /// Only those that have not ended
        #[arg(long)]
        unended: bool,
        /// Only plans, deploys, destroy runs or rollbacks; a plan is only that
        #[arg(long, value_parser = ["plan", "deploy", "destroy", "rollback", "state"])]
        mode: Option<String>,
        /// Only those for this resource of the environment, such as s3#photos
        #[arg(long, value_name = "RESOURCE", requires = "environment")]
        resource: Option<String>,
        /// Only those that were accepted since then: a time such as 2026-01-31T12:00:00Z, or an age such as 90m, 12h or 7d
        #[arg(long, value_name = "TIME|AGE")]
        since: Option<Since>,
        /// The largest number to list
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Git credentials that are kept for jobs, without their secrets
    #[command(visible_alias = "git-credential")]
    GitCredentials(git_credentials::List),
    /// Variables that are kept for jobs; secrets without their values
    #[command(visible_aliases = ["variable", "vars", "var"])]
    Variables(variables::List),
    /// The environments whose jobs get a variable that is kept, and from which scope
    #[command(visible_alias = "variable-use")]
    VariableUses(variable_uses::Arguments),
    /// API tokens, without their secrets
    #[command(visible_alias = "token")]
    Tokens,
    /// Audit records: who changed what, newest first
    #[command(visible_alias = "audit-records")]
    Audit(audit::Arguments),
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut named = Vec::new();
    let (kind, project, filter) = match arguments.what {
        What::Runners => (Kind::Runner, None, vec![]),
        What::RunnerRules { runner, project, environment_type } => {
            let filter = [
                ("byRunnerId", runner),
                ("byProjectId", project),
                ("byEnvTypeId", environment_type),
            ];
            let kinds = [Kind::Runner, Kind::Project, Kind::Plain(PlainKind::EnvironmentType)];
            let given = kinds
                .into_iter()
                .zip(&filter)
                .filter_map(|(kind, (_, id))| Some(Resource::new(kind, id.clone()?)));
            named.extend(given);
            let given = filter.into_iter().filter_map(|(name, value)| Some((name, value?)));
            (Kind::RunnerRule, None, given.collect())
        }
        What::Projects => (Kind::Project, None, vec![]),
        What::Environments { project } => (Kind::Environment, project, vec![]),
        What::Plain(plain) => (Kind::Plain(plain.kind()), None, vec![]),
        What::GitCredentials(given) => return git_credentials::list(&given, client, output).await,
        What::Variables(given) => return variables::list(given, client, output).await,
        What::VariableUses(given) => return variable_uses::run(given, client, output).await,
        What::Schedules(place) => return schedules::list(place, client, output).await,
        What::Limits => (Kind::ConcurrencyLimit, None, vec![]),
        What::Agents { pending } => {
            let filter = pending.then(|| ("state", "pending".to_owned()));
            (Kind::Agent, None, filter.into_iter().collect())
        }
        What::Tokens => (Kind::Token, None, vec![]),
        What::Approvals(given) => return approve::list(given, client, output).await,
        What::Deployments {
            project,
            environment,
            status,
            unended,
            mode,
            resource,
            since,
            limit,
        } => {
            let now = client.clock().now();
            let since = since.map(|since| since.before(now)).transpose()?;
            let (project_id, env_id) = (project, environment);
            let ended = unended.then_some(false);
            let filter =
                DeploymentQuery { project_id, env_id, status, ended, mode, resource, since };
            let found = deployments(client, &filter, limit).await?;
            if found.is_empty() {
                let (project, environment) = (&filter.project_id, &filter.env_id);
                Resource::require_filtered(client, project.as_deref(), environment.as_deref())
                    .await?;
            }
            let is_table = output.format == Format::Table;
            let row = |deployment: &Deployment| -> Result<Value, CliError> {
                let mut row = json(deployment)?;
                if is_table {
                    row["mode"] = deployment_overview::mode(deployment).into();
                }
                Ok(row)
            };
            let rows = found.iter().map(row).collect::<Result<_, _>>()?;
            output.list(rows, &DEPLOYMENT_COLUMNS)?;
            return Ok(Exit::Ok);
        }
        What::Resources { project, environment } => {
            let environment = Resource::environment(project, environment);
            return resources(&environment, client, output).await;
        }
        What::Audit(filter) => return audit::run(filter, client, output).await,
    };
    let mut items = client.list(&resource::collection(kind, project.as_deref()), &filter).await?;
    if items.is_empty() {
        for resource in named {
            resource.require(client).await?;
        }
    }
    if output.format == Format::Table {
        match kind {
            Kind::Runner => items.iter_mut().for_each(show_types),
            Kind::Agent => items.iter_mut().for_each(show_session),
            Kind::Environment => items.iter_mut().for_each(show_resources),
            Kind::Plain(PlainKind::SecretStore) => items.iter_mut().for_each(|store| {
                store["type"] = store["store_configuration"]["type"].clone();
            }),
            _ => {}
        }
    }
    output.list(items, kind.columns())?;
    Ok(Exit::Ok)
}

async fn resources(
    environment: &Resource,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let found = environment_resources::read(client, environment).await?;
    let mut rows: Vec<Value> = found.iter().map(json).collect::<Result<_, _>>()?;
    if output.format == Format::Table {
        for row in &mut rows {
            row["last_check"] = row["last_check"]["status"].take();
        }
    }
    output.list(rows, &RESOURCE_COLUMNS)?;
    Ok(Exit::Ok)
}

const RESOURCE_COLUMNS: [&str; 6] =
    ["name", "status", "last_check", "deployment_id", "created_at", "updated_at"];

const DEPLOYMENT_COLUMNS: [&str; 8] = [
    "id",
    "project_id",
    "env_id",
    "mode",
    "status",
    "created_at",
    "created_by_name",
    "status_message",
];

/// Copies a runner's two types out of its configurations, for the table.
fn show_types(runner: &mut Value) {
    let members = [("type", "runner_configuration"), ("state", "state_storage_configuration")];
    for (column, configuration) in members {
        runner[column] = runner[configuration]["type"].clone();
    }
}

/// Counts the resources of an environment, in its state and of container jobs; `?` means that there may be more.
fn show_resources(environment: &mut Value) {
    let state = &environment["state"];
    let of_containers = environment["resources"].as_array().map(Vec::len);
    let of_state = state["resources"].as_u64();
    let count = match (of_state, of_containers) {
        (None, None) => None,
        (of_state, more) => Some(of_state.unwrap_or_default() + more.unwrap_or_default() as u64),
    };
    let count = match (count, state["uncertain"].as_bool()) {
        (Some(count), Some(true)) => format!("{count}?").into(),
        (Some(count), _) => count.into(),
        (None, Some(true)) => "?".into(),
        (None, _) => Value::Null,
    };
    environment["resources"] = count;
}

/// Copies what an agent reported out of its session, for the table.
fn show_session(agent: &mut Value) {
    let session = agent["session"].take();
    agent["labels"] = labels(&agent["labels"]).into();
    agent["session"] = session["number"].clone();
    agent["load"] = load(&session).into();
    for column in ["version", "last_seen", "last_error"] {
        agent[column] = one_line(&session[column]).into();
    }
}

/// Labels in the form of an agent's settings.
fn labels(labels: &Value) -> String {
    let pair = |(name, value): (&String, &Value)| format!("{name}={}", one_line(value));
    labels.as_object().into_iter().flatten().map(pair).collect::<Vec<_>>().join(",")
}

/// The number of jobs that the agent runs, and the number that it accepts.
fn load(session: &Value) -> String {
    let counts = [&session["running"], &session["concurrency"]].map(Value::as_u64);
    let [Some(running), Some(most)] = counts else { return String::new() };
    format!("{running}/{most}")
}

/// Removes line breaks, so that an agent's text stays in its row.
fn one_line(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn deployments(
    client: &Client,
    filter: &DeploymentQuery,
    limit: usize,
) -> Result<Vec<Deployment>, CliError> {
    let mut items = Vec::new();
    let mut page = PageQuery::default();
    while items.len() < limit {
        let missing = u32::try_from(limit - items.len()).unwrap_or(u32::MAX);
        page.per_page = Some(missing.min(100));
        let answer = client.deployments(filter, &page).await?;
        items.extend(answer.items);
        page.page = answer.next_page_token;
        if page.page.is_none() {
            break;
        }
    }
    items.truncate(limit);
    Ok(items)
}
