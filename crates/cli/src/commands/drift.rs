//! `canyon drift`: what differs from what was deployed last.

mod resource_check;

use self::resource_check::ResourceCheck;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::table::printable;
use crate::{follow, summary};
use canyon_api::client::Client;
use canyon_api::drift::{DriftDetails, DriftedContainer, DriftedResource};
use canyon_domain::drift::{DriftKind, DriftStatus};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The environments to show.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  canyon drift
  canyon drift shop --status drifted
  canyon drift shop dev
  canyon drift check shop dev --wait
  canyon drift check shop dev --resource s3#photos --wait"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Option<Action>,
    /// Only environments of this project
    project: Option<String>,
    /// Show this environment in detail
    #[arg(requires = "project")]
    environment: Option<String>,
    /// Only environments with this status: `unknown`, `in_sync`, `drifted` or `failed`
    #[arg(long, conflicts_with = "environment")]
    status: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check an environment now: a job plans what was deployed last, and changes nothing
    Check {
        /// The project
        project: String,
        /// The environment
        environment: String,
        /// Run the `check` of the container job that has created this resource instead
        #[arg(long, value_name = "RESOURCE")]
        resource: Option<String>,
        /// Wait for the result. The exit code is 0 if nothing differs, 2 if something does, and 1 if the check failed
        #[arg(long)]
        wait: bool,
        /// Stop waiting after this many seconds; the check goes on
        #[arg(long, value_name = "SECONDS", requires = "wait")]
        timeout: Option<u64>,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { what, project, environment, status } = arguments;
    match (what, project, environment) {
        (Some(Action::Check { project, environment, resource, wait, timeout }), _, _) => {
            let of = Resource::environment(project.clone(), environment.clone());
            if let Some(resource) = resource {
                let check = ResourceCheck { environment: of, resource, wait, timeout };
                return check.run(client, output).await;
            }
            let begin = async || client.check_drift(&project, &environment).await;
            let check = retry_call(output, "retrying", begin).await?;
            let id = check.id.to_string();
            if !wait {
                output.notice(&format!("check {id} of {} has begun", of.full_name()));
                summary::value(&check, output)?;
                return Ok(Exit::Ok);
            }
            result_of(&id, (&project, &environment), timeout, client, output).await
        }
        (None, Some(project), Some(environment)) => {
            let details = client.drift(&project, &environment).await?;
            show(&details, output)?;
            Ok(Exit::Ok)
        }
        (None, project, _) => {
            let mut filter = Vec::new();
            filter.extend(project.map(|project| ("project_id", project)));
            filter.extend(status.map(|status| ("status", status)));
            let rows = client.list(&["drift"], &filter).await?;
            let columns = [
                "project_id",
                "env_id",
                "status",
                "num_drifted",
                "num_ignored",
                "since",
                "checked_at",
            ];
            output.list(rows, &columns)?;
            Ok(Exit::Ok)
        }
    }
}

/// Waits for a check, and shows what it has found.
async fn result_of(
    id: &str,
    (project, environment): (&str, &str),
    timeout: Option<u64>,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let display = Display::new(output);
    let ended = follow::until_end(client, id, &display, timeout).await;
    drop(display);
    let ended = summary::or_unended(client, ended, output).await?;
    if ended.status != "succeeded" {
        return Err(summary::failure(ended));
    }
    let details = client.drift(project, environment).await?;
    show(&details, output)?;
    let is_drifted = details.drift.status == DriftStatus::Drifted;
    Ok(if is_drifted { Exit::Drifted } else { Exit::Ok })
}

fn show(details: &DriftDetails, output: Output) -> Result<(), CliError> {
    if output.format == Format::Table {
        return output.text(&text(details));
    }
    let value = serde_json::to_value(details).unwrap_or(Value::Null);
    output.value(&value)
}

fn text(details: &DriftDetails) -> String {
    let DriftDetails { drift, changes, truncated, .. } = details;
    let name = format!("{}/{}", drift.project_id, drift.env_id);
    let mut text = match (drift.status, drift.since) {
        (DriftStatus::Unknown, None) => {
            let (project, env) = (&drift.project_id, &drift.env_id);
            format!(
                "no check of {name} has ended yet; begin one: canyon drift check {project} {env}\n"
            )
        }
        (DriftStatus::Unknown, Some(since)) => {
            format!(
                "{name} is unknown since {since}: a deployment has failed, or has left nothing to compare\n"
            )
        }
        (DriftStatus::InSync, Some(since)) => {
            format!("{name} is as it was deployed, since {since}\n")
        }
        (DriftStatus::Failed, _) => format!("the last check of {name} has failed\n"),
        (status, since) => format!(
            "{name} is {} since {}: {} of {} resources differ\n",
            status.as_str(),
            since.map_or_else(|| "-".to_owned(), |since| since.to_string()),
            drift.num_drifted,
            drift.num_resources
        ),
    };
    if let Some(until) = drift.reconcile_suspended_until.filter(|until| *until > Timestamp::now()) {
        _ = writeln!(
            text,
            "drift leads to no deployment until {until}: it came back after two of them"
        );
    }
    if let Some(check) = drift.checking {
        _ = writeln!(text, "check {check} waits or runs");
    }
    if let Some(at) = drift.checked_at {
        _ = writeln!(text, "last checked at {at}");
    }
    if let Some(check) = details.history.first().filter(|_| drift.status == DriftStatus::Failed) {
        _ = writeln!(text, "{}", printable(&check.message));
    }
    for change in changes.iter().filter(|change| !change.ignored) {
        text.push_str(&line(change));
    }
    let ignored: Vec<_> = changes.iter().filter(|change| change.ignored).collect();
    if !ignored.is_empty() {
        _ = writeln!(text, "{} ignored by the environment's `drift_ignore`", ignored.len());
        text.extend(ignored.into_iter().map(line));
    }
    if *truncated {
        text.push_str("... and more\n");
    }
    for DriftedContainer { resource, checked_at, .. } in &details.drifted_resources {
        _ = writeln!(
            text,
            "resource {resource} is not as its last deployment has left it, as checked at {checked_at}"
        );
    }
    text
}

fn line(change: &DriftedResource) -> String {
    let why = match change.kind {
        DriftKind::Outside => "changed outside",
        DriftKind::Configuration => "what the module reads has changed",
    };
    let action = json!(change.action);
    let action = action.as_str().unwrap_or("change");
    let attributes = if change.attributes.is_empty() {
        String::new()
    } else {
        format!(": {}", change.attributes.join(", "))
    };
    let line = format!("  {action:>8} {}  ({why}){attributes}", change.address);
    format!("{}\n", printable(&line))
}
