//! Prints the result of a deployment that has ended.

use crate::answer::exact;
use crate::error::CliError;
use crate::output::{Format, Output};
use crate::policy_text;
use crate::retry::retry_through_outage;
use crate::table;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, Orphan, Output as ModuleOutput};
use canyon_domain::json::Json;
use canyon_domain::kept_plan::PlanSummary;
use serde::Serialize;
use std::collections::BTreeMap;

/// Prints how `deployment` ended; returns an error if it did not succeed. A given `refusal` replaces the
/// deployment's own error.
pub(crate) async fn print(
    client: &Client,
    deployment: Deployment,
    refusal: Option<CliError>,
    output: Output,
) -> Result<(), CliError> {
    let id = deployment.id.to_string();
    let succeeded = deployment.status == "succeeded";
    let outputs = if succeeded && !deployment.plan_only && deployment.mode != "destroy" {
        or_empty(retry_through_outage(async || client.outputs(&id).await).await)?
    } else {
        BTreeMap::new()
    };
    let orphans = if deployment.metrics.num_tf_resources_orphaned.unwrap_or_default() > 0 {
        or_empty(retry_through_outage(async || client.orphans(&id).await).await)?
    } else {
        Vec::new()
    };
    match output.format {
        Format::Table => output.text(&text(&deployment, &outputs))?,
        Format::Yaml | Format::Json => {
            let (deployment, outputs, orphans) = (&deployment, &outputs, &orphans);
            output.exact(&exact(&Summary { deployment, outputs, orphans })?)?;
        }
    }
    for orphan in &orphans {
        output.notice(&warning(orphan));
    }
    if succeeded && deployment.plan.as_ref().is_some_and(|plan| plan.expires_at.is_some()) {
        output.notice(&format!("apply exactly this plan: canyon apply {id}"));
    }
    if succeeded { Ok(()) } else { Err(refusal.unwrap_or_else(|| failure(deployment))) }
}

/// Prints a deployment that has not ended, or whose outputs are not read: in the same form as [`print`].
pub(crate) fn value(deployment: &Deployment, output: Output) -> Result<(), CliError> {
    let summary = Summary { deployment, outputs: &BTreeMap::new(), orphans: &[] };
    output.exact(&exact(&summary)?)
}

/// The deployment, if it has `ended`. If `--timeout` ended the wait, programs get the deployment as it is now, in the
/// same form as an ended one.
pub(crate) async fn or_unended(
    client: &Client,
    ended: Result<Deployment, CliError>,
    output: Output,
) -> Result<Deployment, CliError> {
    if let Err(CliError::TimedOut { id, .. }) = &ended
        && output.format != Format::Table
        // The command fails with the timeout in any case.
        && let Ok(deployment) = client.deployment(id).await
    {
        value(&deployment, output)?;
    }
    ended
}

#[derive(Serialize)]
struct Summary<'s> {
    deployment: &'s Deployment,
    outputs: &'s BTreeMap<String, ModuleOutput>,
    orphans: &'s [Orphan],
}

fn or_empty<T: Default>(answer: Result<T, canyon_api::client::ClientError>) -> Result<T, CliError> {
    match answer {
        Err(error) if error.status() == Some(404) => Ok(T::default()),
        other => Ok(other?),
    }
}

fn text(deployment: &Deployment, outputs: &BTreeMap<String, ModuleOutput>) -> String {
    let mut rows = vec![
        vec!["deployment".to_owned(), deployment.id.to_string()],
        vec!["status".to_owned(), deployment.status.clone()],
    ];
    if let Some(resource) = &deployment.resource {
        rows.push(vec!["resource".to_owned(), resource.clone()]);
        if deployment.plan_only
            && deployment.kind == "container"
            && deployment.status == "succeeded"
        {
            let differs = deployment.metrics.num_tf_resources_changed.unwrap_or_default() > 0;
            let found = if differs { "drifted" } else { "in sync" };
            rows.push(vec!["check".to_owned(), found.to_owned()]);
        }
    } else if let Some(plan) = deployment.plan.as_ref().filter(|_| deployment.plan_only) {
        rows.push(vec!["plan".to_owned(), PlanSummary::from(plan.summary).to_string()]);
    } else if !deployment.plan_only && deployment.mode != "state" {
        rows.push(vec!["resources".to_owned(), resources(deployment)]);
    }
    let mut text = table::align(&rows);
    if let Some(policy) = &deployment.policy {
        text.push_str(&policy_text::lines(policy));
    }
    if !outputs.is_empty() {
        text.push_str("outputs\n");
        text.push_str(&output_lines(outputs));
    }
    text
}

/// The changes of the resources. An unknown number is not shown as 0.
fn resources(deployment: &Deployment) -> String {
    let metrics = &deployment.metrics;
    let applied = deployment.attempts.iter().any(|attempt| attempt.phase == "apply");
    let (Some(added), Some(changed), Some(removed)) = (
        metrics.num_tf_resources_added,
        metrics.num_tf_resources_changed,
        metrics.num_tf_resources_removed,
    ) else {
        return if applied || deployment.attempts.is_empty() && deployment.status == "succeeded" {
            "unknown: the run did not report what it changed".to_owned()
        } else {
            "unchanged: the deployment ended before its apply; their number is unknown".to_owned()
        };
    };
    let now = match metrics.num_tf_resources {
        Some(count) => format!("{count} now"),
        None => "their number now is unknown".to_owned(),
    };
    format!("{added} added, {changed} changed, {removed} destroyed; {now}")
}

/// `  name = value`, one line per output.
pub(crate) fn output_lines(outputs: &BTreeMap<String, ModuleOutput>) -> String {
    let line = |(name, output)| {
        format!(
            "  {name} = {}
",
            shown(output)
        )
    };
    outputs.iter().map(line).collect::<Vec<_>>().concat()
}

fn shown(output: &ModuleOutput) -> String {
    match &output.value {
        None if output.sensitive => "(sensitive)".to_owned(),
        None => "(not stored; see the log)".to_owned(),
        Some(Json::String(text)) => table::printable(text),
        Some(other) => table::printable(&other.to_string()),
    }
}

fn warning(orphan: &Orphan) -> String {
    let id = orphan.id.as_ref().map_or_else(String::new, |id| format!(" with id `{id}`"));
    format!(
        "warning: `{}`{id} may exist although it is not in the state; look for it at its provider, \
         then import or delete it",
        orphan.address
    )
}

pub(crate) fn failure(deployment: Deployment) -> CliError {
    let last = deployment.attempts.last().and_then(|attempt| attempt.failure.clone());
    CliError::Deployment {
        id: deployment.id.to_string(),
        status: if deployment.status == "cancelled" { "was cancelled" } else { "failed" }
            .to_owned(),
        failure: last.map(|failure| (failure.class.to_string(), failure.message)).or_else(|| {
            let message = deployment.status_message;
            (!message.is_empty()).then_some((deployment.status, message))
        }),
    }
}
