//! What is said when a deployment has ended.

use crate::error::CliError;
use crate::output::{Format, Output};
use crate::table;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, Orphan, Output as ModuleOutput};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Says how `deployment` ended; an error if it did not succeed.
pub(crate) async fn say(
    client: &Client,
    deployment: Deployment,
    output: Output,
) -> Result<(), CliError> {
    let id = deployment.id.to_string();
    let succeeded = deployment.status == "succeeded";
    let outputs = if succeeded && !deployment.plan_only && deployment.mode != "destroy" {
        or_empty(client.outputs(&id).await)?
    } else {
        BTreeMap::new()
    };
    let orphans = if deployment.metrics.num_tf_resources_orphaned.unwrap_or_default() > 0 {
        or_empty(client.orphans(&id).await)?
    } else {
        Vec::new()
    };
    match output.format {
        Format::Table => output.text(&text(&deployment, &outputs))?,
        Format::Yaml | Format::Json => output
            .value(&json!({"deployment": deployment, "outputs": outputs, "orphans": orphans}))?,
    }
    for orphan in &orphans {
        output.notice(&warning(orphan));
    }
    if succeeded { Ok(()) } else { Err(failure(deployment)) }
}

fn or_empty<T: Default>(answer: Result<T, canyon_api::client::ClientError>) -> Result<T, CliError> {
    match answer {
        Err(error) if error.status() == Some(404) => Ok(T::default()),
        other => Ok(other?),
    }
}

fn text(deployment: &Deployment, outputs: &BTreeMap<String, ModuleOutput>) -> String {
    let metrics = &deployment.metrics;
    let count = |count: Option<u32>| count.unwrap_or_default();
    let mut rows = vec![
        vec!["deployment".to_owned(), deployment.id.to_string()],
        vec!["status".to_owned(), deployment.status.clone()],
    ];
    if !deployment.plan_only {
        rows.push(vec![
            "resources".to_owned(),
            format!(
                "{} added, {} changed, {} destroyed; {} now",
                count(metrics.num_tf_resources_added),
                count(metrics.num_tf_resources_changed),
                count(metrics.num_tf_resources_removed),
                count(metrics.num_tf_resources),
            ),
        ]);
    }
    let mut text = table::align(&rows);
    if !outputs.is_empty() {
        text.push_str("outputs\n");
        text.push_str(&output_lines(outputs));
    }
    text
}

/// `  name = value`, a line each.
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
        None => "(sensitive)".to_owned(),
        Some(Value::String(text)) => table::printable(text),
        Some(other) => table::printable(&other.to_string()),
    }
}

fn warning(orphan: &Orphan) -> String {
    let id = orphan.id.as_ref().map_or_else(String::new, |id| format!(" with id `{id}`"));
    format!(
        "warning: `{}`{id} may exist although the state does not know it; look it up at its \
         provider, then import or delete it",
        orphan.address
    )
}

fn failure(deployment: Deployment) -> CliError {
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
