//! `canyon status`.

use crate::answer::json;
use crate::deployment_history::DeploymentHistory;
use crate::deployment_overview::{Overview, failures_since, recent_since};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output, terminal_size};
use crate::resource::Resource;
use crate::retry::{retry_call, retry_through_outage};
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentQuery};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Which deployments to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those of this project
    project: Option<String>,
    /// Only those of this environment
    environment: Option<String>,
    /// Continue until Ctrl-C: redraw on a terminal; elsewhere, and with `-o json`, print each change as a line
    #[arg(short, long)]
    watch: bool,
    /// With --watch: seconds between two reads
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    if arguments.watch && output.format == Format::Yaml {
        return Err(CliError::usage("--watch prints no YAML: use `-o json`, or no `-o`"));
    }
    let filter = DeploymentQuery {
        project_id: arguments.project,
        env_id: arguments.environment,
        ..DeploymentQuery::default()
    };
    let first = async || read(client, &filter, arguments.watch).await;
    let first = retry_call(output, "retrying", first).await?;
    if first.is_empty() {
        let (project, environment) = (&filter.project_id, &filter.env_id);
        Resource::require_filtered(client, project.as_deref(), environment.as_deref()).await?;
    }
    if arguments.watch {
        return watch(client, &filter, first, Duration::from_secs(arguments.interval), output)
            .await;
    }
    match output.format {
        Format::Table => output.text(&first.text(client.clock().now(), output.width))?,
        Format::Yaml | Format::Json => output.value(&json(&first)?)?,
    }
    Ok(Exit::Ok)
}

/// Shows changes until the process ends.
async fn watch(
    client: &Client,
    filter: &DeploymentQuery,
    mut overview: Overview,
    interval: Duration,
    output: Output,
) -> Result<Exit, CliError> {
    show(&overview, None, client.clock().now(), output)?;
    loop {
        tokio::time::sleep(interval).await;
        // The server may restart meanwhile.
        let next = async || read_again(client, filter, &overview).await;
        let next = retry_through_outage(next).await?;
        show(&next, Some(&overview), client.clock().now(), output)?;
        overview = next;
    }
}

fn show(
    overview: &Overview,
    before: Option<&Overview>,
    now: Timestamp,
    output: Output,
) -> Result<(), CliError> {
    if output.format == Format::Json {
        return overview
            .changes(before)
            .iter()
            .try_for_each(|change| output.json_line(&change.json(now)));
    }
    // The window may have another size than before.
    if let Some((width, rows)) = terminal_size() {
        return output.text(&frame(&overview.text(now, Some(width)), rows));
    }
    let changes = overview.changes(before);
    changes.iter().try_for_each(|change| output.text(&format!("{}\n", change.line(now))))
}

/// `text` in place of what is on the screen: cut to the rows of the terminal, so that it does not scroll.
fn frame(text: &str, rows: usize) -> String {
    const HOME: &str = "\u{1b}[H";
    const CLEAR_LINE: &str = "\u{1b}[K";
    const CLEAR_BELOW: &str = "\u{1b}[J";
    let lines = text.lines().count();
    // The cursor stays on the last row.
    let room = rows.saturating_sub(1).max(1);
    let shown = if lines > room { room - 1 } else { lines };
    let more = (lines > shown).then(|| format!("and {} more lines", lines - shown));
    let rows = text.lines().take(shown).chain(more.as_deref());
    let rows: String = rows.flat_map(|row| [row, CLEAR_LINE, "\n"]).collect();
    format!("{HOME}{rows}{CLEAR_BELOW}")
}

/// More deployments than these are shown without phase and reason.
const MAX_DETAILED: usize = 50;
/// Number of deployments that are read at the same time.
const READ_AT_ONCE: usize = 8;

/// Reads the deployments that have not ended or failed lately; to watch them, also the newest, which may have ended since.
async fn read(
    client: &Client,
    filter: &DeploymentQuery,
    watches: bool,
) -> Result<Overview, ClientError> {
    let now = client.clock().now();
    let mut found = Found::default();
    found.read(client, DeploymentQuery { ended: Some(false), ..filter.clone() }).await?;
    if watches {
        let since = Some(recent_since(now));
        found.read(client, DeploymentQuery { since, ..filter.clone() }).await?;
    }
    let (status, since) = (Some("failed".to_owned()), failures_since(now));
    found.read(client, DeploymentQuery { status, since, ..filter.clone() }).await?;
    found.overview(client, now).await
}

/// Reads what may have changed since `before`.
async fn read_again(
    client: &Client,
    filter: &DeploymentQuery,
    before: &Overview,
) -> Result<Overview, ClientError> {
    let now = client.clock().now();
    let mut found = Found::default();
    found.read(client, DeploymentQuery { ended: Some(false), ..filter.clone() }).await?;
    let since = Some(before.knows_before());
    found.read(client, DeploymentQuery { since, ..filter.clone() }).await?;
    for failed in before.failed() {
        found.deployments.insert(failed.id, failed.clone());
    }
    let ended: Vec<_> = before.unended().filter(|id| !found.deployments.contains_key(id)).collect();
    for id in ended {
        match client.deployment(&id.to_string()).await {
            Ok(deployment) => {
                found.deployments.insert(id, deployment);
            }
            // It was deleted with its environment.
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error),
        }
    }
    found.overview(client, now).await
}

/// Deployments of several lists, each once.
#[derive(Default)]
struct Found {
    deployments: BTreeMap<Uuid, Deployment>,
    /// Whether a list was not read to its end.
    is_cut: bool,
}

impl Found {
    /// Adds a list. Of a deployment that is in two, the later read counts.
    async fn read(&mut self, client: &Client, filter: DeploymentQuery) -> Result<(), ClientError> {
        let mut history = DeploymentHistory::new(client, filter, 100);
        while let Some(deployment) = history.next().await? {
            self.deployments.insert(deployment.id, deployment);
        }
        self.is_cut |= history.is_cut();
        Ok(())
    }

    async fn overview(mut self, client: &Client, now: Timestamp) -> Result<Overview, ClientError> {
        add_details(client, &mut self.deployments).await?;
        Ok(Overview::of(self.deployments, !self.is_cut, now))
    }
}

/// Lists leave out phases and reasons to wait, so the deployments that have not ended are read one by one.
async fn add_details(
    client: &Client,
    deployments: &mut BTreeMap<Uuid, Deployment>,
) -> Result<(), ClientError> {
    let newest_first = deployments.values_mut().rev();
    let unended = newest_first.filter(|deployment| deployment.completed_at.is_none());
    let mut unended: Vec<&mut Deployment> = unended.take(MAX_DETAILED).collect();
    for part in unended.chunks_mut(READ_AT_ONCE) {
        let mut reads = JoinSet::new();
        for deployment in &*part {
            let (client, id) = (client.clone(), deployment.id.to_string());
            reads.spawn(async move { client.deployment(&id).await });
        }
        for whole in reads.join_all().await {
            match whole {
                Ok(whole) => {
                    if let Some(place) = part.iter_mut().find(|summary| summary.id == whole.id) {
                        **place = whole;
                    }
                }
                // It was deleted with its environment.
                Err(error) if error.status() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_never_scrolls_the_terminal() {
        assert_eq!(frame("a\nb\n", 10), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
        let long = "x\n".repeat(9);
        let cut = frame(&long, 4);
        assert_eq!(cut.matches('\n').count(), 3);
        assert!(cut.contains("and 7 more lines"), "{cut}");
        assert_eq!(frame(&long, 10).matches('\n').count(), 9);
    }
}
