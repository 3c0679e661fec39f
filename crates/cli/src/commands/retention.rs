//! `canyon get retention`, `canyon set retention`, `canyon delete retention` and `canyon usage`.

use crate::answer::json;
use crate::confirm;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use canyon_api::client::Client;
use canyon_api::retention::{Amount, RetentionBody, Usage, UsageQuery};
use serde_json::{Value, json as value};

const PATH: [&str; 1] = ["retention"];

pub(crate) const SET_EXAMPLES: &str = "\
Examples:
  canyon usage --deployments-days 365 --logs-days 90
  canyon set retention --deployments-days 365 --logs-days 90 --audit-days 730";

/// The days after which Canyon removes something.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Days {
    /// Days from the end of a deployment until it is removed
    #[arg(long = "deployments-days", alias = "deployments", value_name = "DAYS")]
    deployments: Option<u32>,
    /// Days from the end of a deployment until its log and its events are removed
    #[arg(long = "logs-days", alias = "logs", value_name = "DAYS")]
    logs: Option<u32>,
    /// Days until an audit record is removed
    #[arg(long = "audit-days", alias = "audit", value_name = "DAYS")]
    audit: Option<u32>,
}

impl Days {
    fn body(self) -> RetentionBody {
        RetentionBody {
            deployments_days: self.deployments,
            logs_days: self.logs,
            audit_days: self.audit,
        }
    }

    fn query(self) -> UsageQuery {
        let text = |days: Option<u32>| days.map(|days| days.to_string());
        UsageQuery {
            deployments_days: text(self.deployments),
            logs_days: text(self.logs),
            audit_days: text(self.audit),
        }
    }
}

/// The retention to set. What has no flag is kept for ever.
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    days: Days,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// The retention to estimate; without a flag, the current one.
#[derive(Debug, clap::Args)]
pub(crate) struct UsageArguments {
    #[command(flatten)]
    days: Days,
}

pub(crate) async fn get(client: &Client, output: Output) -> Result<Exit, CliError> {
    output.resource(&client.get(&PATH).await?)?;
    Ok(Exit::Ok)
}

pub(crate) async fn set(given: Set, client: &Client, output: Output) -> Result<Exit, CliError> {
    let body = given.days.body();
    if body == RetentionBody::default() {
        return Err(CliError::usage_with_hint(
            "give the days of what Canyon is to remove",
            "to keep everything: canyon delete retention",
        ));
    }
    let action = "remove for good what is older, from now on";
    confirm::require_yes(given.yes, action)?;
    if !given.yes {
        output.notice(&estimate(&client.usage(&given.days.query()).await?));
        confirm::ask(action, confirm::ctrl_c(), output).await?;
    }
    output.resource(&client.put(&PATH, &json(&body)?).await?)?;
    Ok(Exit::Ok)
}

pub(crate) async fn delete(client: &Client, output: Output) -> Result<Exit, CliError> {
    client.delete(&PATH, &[]).await?;
    output.notice("deleted the retention: everything that is left is kept");
    Ok(Exit::Ok)
}

pub(crate) async fn usage(
    given: UsageArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let usage = client.usage(&given.days.query()).await?;
    match output.format {
        Format::Table => {
            output.list(rows(&usage), &COLUMNS)?;
            output.notice(&of_which(&usage.retention));
        }
        Format::Yaml | Format::Json => output.value(&json(&usage)?)?,
    }
    Ok(Exit::Ok)
}

const COLUMNS: [&str; 6] = ["kind", "count", "bytes", "oldest_at", "removable", "removable_bytes"];

fn rows(usage: &Usage) -> Vec<Value> {
    let row = |kind: &str, of: &Amount| {
        let least = if of.at_least { "at least " } else { "" };
        value!({
            "kind": kind, "count": format!("{least}{}", of.count), "oldest_at": of.oldest_at,
            "removable": format!("{least}{}", of.removable),
        })
    };
    let mut logs = row("logs", &usage.logs.amount);
    logs["bytes"] = usage.logs.bytes.into();
    logs["removable_bytes"] = usage.logs.removable_bytes.into();
    let mut environments = row("environments", &usage.environments);
    environments["removable"] = Value::Null;
    vec![
        row("deployments", &usage.deployments),
        logs,
        row("audit records", &usage.audit_records),
        environments,
    ]
}

/// What the column `removable` is about.
fn of_which(retention: &RetentionBody) -> String {
    let RetentionBody { deployments_days, logs_days, audit_days } = retention;
    let days =
        [("deployments", deployments_days), ("logs", logs_days), ("audit records", audit_days)];
    let some = days.iter().filter_map(|(kind, days)| {
        let days = (*days).as_ref()?;
        Some(format!("{kind} after {days} {}", if *days == 1 { "day" } else { "days" }))
    });
    let some: Vec<_> = some.collect();
    if some.is_empty() {
        return "no retention is set: everything is kept for ever".to_owned();
    }
    format!("removable: what a retention removes now, as an estimate: {}", some.join(", "))
}

/// What a retention would remove now, as a sentence.
fn estimate(usage: &Usage) -> String {
    let number = |of: &Amount| {
        let least = if of.at_least { "at least " } else { "" };
        format!("{least}{}", of.removable)
    };
    format!(
        "of what is stored now, this removes about {} deployments, the logs of {} deployments ({} bytes) and {} audit \
         records",
        number(&usage.deployments),
        number(&usage.logs.amount),
        usage.logs.removable_bytes,
        number(&usage.audit_records),
    )
}
