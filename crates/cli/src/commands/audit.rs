//! `canyon list audit`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::retry::{retry_call, retry_through_outage};
use crate::since::Since;
use crate::table;
use canyon_api::audit::AuditQuery;
use canyon_api::client::{Client, ClientError};
use canyon_api::page::PageQuery;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Which records to list.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this action, such as `runner.create`, or all of a kind, such as `runner`
    #[arg(long)]
    action: Option<String>,
    /// Only changes by this principal: the UUID under BY
    #[arg(long, value_name = "UUID")]
    by: Option<String>,
    /// Only changes of this thing, or of one below it, such as `projects/shop`
    #[arg(long, value_name = "PATH")]
    subject: Option<String>,
    /// Only changes since then: a time such as 2026-01-31T12:00:00Z, or an age such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME|AGE")]
    since: Option<Since>,
    /// Only changes before then
    #[arg(long, value_name = "TIME|AGE")]
    until: Option<Since>,
    /// The largest number to list
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print new records as they are written, oldest first, until Ctrl-C; with --since, begin with those since then. `-o
    /// json` prints a line for each
    #[arg(short, long, conflicts_with_all = ["until", "limit"])]
    follow: bool,
    /// With --follow: seconds between two reads
    #[arg(long, value_name = "SECONDS", requires = "follow", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

const COLUMNS: [&str; 6] = ["at", "action", "subject", "by", "by_right", "details"];

/// How long after its time a record may appear: the writes of several servers, and their clocks, overlap.
const MAX_DELAY: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    if arguments.follow && output.format == Format::Yaml {
        return Err(CliError::usage("--follow prints no YAML: use `-o json`, or no `-o`"));
    }
    let now = client.clock().now();
    let time = |given: Option<Since>| given.map(|given| given.before(now)).transpose();
    let (since, until) = (time(arguments.since)?, time(arguments.until)?);
    let filter = AuditQuery {
        action: arguments.action,
        by: arguments.by,
        subject: arguments.subject,
        since: since.map(|since| since.to_string()),
        until: until.map(|until| until.to_string()),
    };
    if arguments.follow {
        let interval = Duration::from_secs(arguments.interval);
        return follow(client, filter, since.unwrap_or(now), interval, output).await;
    }
    let mut records = read(client, &filter, arguments.limit).await?;
    if output.format == Format::Table {
        for record in &mut records {
            record["by"] = author(record).into();
            record["details"] = details(record).into();
        }
    }
    output.list(records, &COLUMNS)?;
    Ok(Exit::Ok)
}

/// The records that match, newest first, at most `limit` of them.
async fn read(
    client: &Client,
    filter: &AuditQuery,
    limit: Option<usize>,
) -> Result<Vec<Value>, ClientError> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut records = Vec::new();
    let mut page = PageQuery::default();
    while records.len() < limit {
        let missing = u32::try_from(limit - records.len()).unwrap_or(u32::MAX);
        page.per_page = Some(missing.min(100));
        // A page may be empty although another one follows.
        let answer = client.page(&["audit-records"], filter, &page).await?;
        records.extend(answer.items);
        page.page = answer.next_page_token;
        if page.page.is_none() {
            break;
        }
    }
    records.truncate(limit);
    Ok(records)
}

/// Shows the records since `begin`, each once, until the process ends.
async fn follow(
    client: &Client,
    mut filter: AuditQuery,
    begin: Timestamp,
    interval: Duration,
    output: Output,
) -> Result<Exit, CliError> {
    let mut shown = Shown { begin, newest: begin, ids: BTreeMap::new() };
    let mut is_first = true;
    loop {
        filter.since = Some(shown.read_from().to_string());
        let next = async || read(client, &filter, None).await;
        let records = if is_first {
            retry_call(output, "retrying", next).await?
        } else {
            // The server may restart meanwhile.
            retry_through_outage(next).await?
        };
        is_first = false;
        for record in shown.keep_new(records) {
            match output.format {
                Format::Json => output.json_line(&record)?,
                Format::Table | Format::Yaml => output.text(&format!("{}\n", line(&record)))?,
            }
        }
        tokio::time::sleep(interval).await;
    }
}

/// Which records have been shown.
struct Shown {
    begin: Timestamp,
    newest: Timestamp,
    /// The ids of those that the next read may return again, with their times.
    ids: BTreeMap<String, Timestamp>,
}

impl Shown {
    /// The time from which on the next read reads.
    fn read_from(&self) -> Timestamp {
        self.newest.checked_sub(MAX_DELAY).map_or(self.begin, |from| from.max(self.begin))
    }

    /// Those of `records`, newest first, that have not been shown, oldest first. They count as shown from now on.
    fn keep_new(&mut self, records: Vec<Value>) -> Vec<Value> {
        let mut new = Vec::new();
        for record in records.into_iter().rev() {
            let text = |name: &str| record[name].as_str().unwrap_or_default();
            let at = text("at").parse().unwrap_or(self.newest);
            if self.ids.insert(text("id").to_owned(), at).is_none() {
                self.newest = self.newest.max(at);
                new.push(record);
            }
        }
        let from = self.read_from();
        self.ids.retain(|_, at| *at >= from);
        new
    }
}

/// A record as a line for people.
fn line(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or("-");
    let details = Some(details(record)).filter(|details| !details.is_empty());
    let details = details.map_or_else(String::new, |details| format!(": {details}"));
    let line = format!(
        "{}  {}  {}  {} ({}){details}",
        text("at"),
        text("action"),
        text("subject"),
        author(record),
        text("by_right")
    );
    table::printable(&line.replace('\n', " "))
}

/// The author's name, or its id if it has none. What Canyon does by itself has the nil UUID.
fn author(record: &Value) -> String {
    let is_nil = |id: &str| id.parse::<Uuid>().is_ok_and(|id| id.is_nil());
    match (record["by_name"].as_str(), record["by"].as_str()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(id)) if is_nil(id) => "canyon".to_owned(),
        (None, id) => id.unwrap_or("-").to_owned(),
    }
}

/// The first details only; the other formats show all of them.
fn details(record: &Value) -> String {
    const SHOWN: usize = 3;
    let all: Vec<&str> =
        record["details"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut shown: Vec<_> = all.iter().take(SHOWN).map(|line| line.replace('\n', " ")).collect();
    if all.len() > SHOWN {
        shown.push(format!("and {} more", all.len() - SHOWN));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_record_is_shown_once_in_order_of_time_also_one_that_appears_late() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let record = |second: i64| json!({"id": format!("{second:04}"), "at": at(second)});
        let mut shown = Shown { begin: at(0), newest: at(0), ids: BTreeMap::new() };
        let mut seconds = |newest_first: &[i64]| -> Vec<i64> {
            let read = newest_first.iter().map(|second| record(*second)).collect();
            let new = shown.keep_new(read).into_iter();
            new.map(|new| new["id"].as_str().unwrap().parse().unwrap()).collect()
        };
        assert_eq!(seconds(&[10, 5]), [5, 10]);
        assert_eq!(seconds(&[12, 11, 10, 7, 5]), [7, 11, 12]);
        assert_eq!(seconds(&[12, 11, 10, 7, 5]), Vec::<i64>::new());
        assert_eq!(seconds(&[200]), [200]);
        assert_eq!(seconds(&[200, 140]), [140]);
        assert_eq!(shown.read_from(), at(140));
        assert_eq!(shown.ids.len(), 2);
    }
}
