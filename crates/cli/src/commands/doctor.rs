//! `canyon doctor`: what to configure for a runner, and whether it works.

mod trial;

use crate::answer::json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::resource::{Kind, Resource};
use crate::table;
use canyon_api::client::{Client, ClientError};
use canyon_api::runner_check::{
    CheckQuery, RunnerCheck, RunnerCheckStep, RunnerTrust, TrustDocument,
};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time after which the server answers a long poll.
const POLL_SECONDS: u32 = 25;
/// The server marks a check as expired after two minutes; this limit is for a server that does not.
const CHECK_TIMEOUT: Duration = Duration::from_mins(3);
/// The pause between two requests to a server that does not hold a long poll.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The resource to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A runner: what to configure for it, and whether a job could start
    #[command(visible_alias = "runners")]
    Runner(RunnerArguments),
}

/// The runner, and which steps to do.
#[derive(Debug, clap::Args)]
struct RunnerArguments {
    /// Its id
    id: String,
    /// Only print what to configure
    #[arg(long)]
    print_only: bool,
    /// Print only one document, for the program that takes it: its number, or a part of its title
    #[arg(long, requires = "print_only", value_name = "N")]
    document: Option<String>,
    /// Only check, without printing what to configure
    #[arg(long, conflicts_with = "print_only")]
    check_only: bool,
    /// Afterwards run a job: a plan of an empty module, in a temporary project. Needs the role `admin`
    #[arg(long, conflicts_with = "print_only")]
    run: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let What::Runner(arguments) = arguments.what;
    let resource = Resource::new(Kind::Runner, arguments.id.clone());
    match doctor(&arguments, client, output).await {
        Err(CliError::Client(error)) => Err(resource.explain(client, error).await),
        other => other,
    }
}

async fn doctor(
    arguments: &RunnerArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let runner = &arguments.id;
    let for_people = output.format == Format::Table;
    let mut found = Map::new();
    if !arguments.check_only {
        let trust = client.runner_trust(runner).await?;
        if let Some(which) = &arguments.document {
            // Printed unchanged: a program reads it.
            output.text(&document(&trust, which)?.text)?;
            return Ok(Exit::Ok);
        }
        if for_people {
            output.text(&trust_text(&trust))?;
        }
        found.insert("trust".to_owned(), json(&trust)?);
    }
    let mut works = true;
    if !arguments.print_only {
        let check = follow(client, runner, output).await?;
        works = check.succeeded == Some(true);
        found.insert("check".to_owned(), json(&check)?);
    }
    if arguments.run && works {
        let steps = trial::run(client, runner, output).await?;
        works = steps.iter().all(|step| step.result == "ok");
        if for_people {
            for step in &steps {
                output.text(&line(step))?;
            }
        }
        found.insert("run".to_owned(), json(&steps)?);
    }
    if !for_people {
        output.value(&Value::Object(found))?;
    }
    Ok(if works { Exit::Ok } else { Exit::DeploymentFailed })
}

/// Requests a check and prints each step as soon as the server knows it.
async fn follow(client: &Client, runner: &str, output: Output) -> Result<RunnerCheck, CliError> {
    let begun = Instant::now();
    let mut check = client.check_runner(runner).await?;
    let id = check.id.to_string();
    let mut shown = 0;
    loop {
        if output.format == Format::Table {
            for step in check.steps.iter().skip(shown) {
                output.text(&line(step))?;
            }
        }
        shown = check.steps.len();
        let is_open = matches!(check.status.as_str(), "waiting" | "running");
        if !is_open || begun.elapsed() > CHECK_TIMEOUT {
            break;
        }
        let query = CheckQuery {
            after_steps: Some(u32::try_from(shown).unwrap_or(u32::MAX)),
            wait_seconds: Some(POLL_SECONDS),
        };
        let sent_at = Instant::now();
        check = match client.runner_check(runner, &id, &query).await {
            Ok(check) => check,
            Err(ClientError::Unreachable { .. }) if begun.elapsed() < CHECK_TIMEOUT => check,
            Err(error) => return Err(error.into()),
        };
        if sent_at.elapsed() < MIN_POLL_INTERVAL {
            sleep(MIN_POLL_INTERVAL).await;
        }
    }
    if check.status != "done" {
        output.notice(
            "no launcher reported a result within two minutes; read the logs of the functions `launcher` \
             and `sweep` on AWS, or the log of `canyon local` on a laptop, and check again",
        );
    }
    Ok(check)
}

/// One line for a step; the message of a cloud may have more lines, which are indented.
fn line(step: &RunnerCheckStep) -> String {
    let message = step.message.trim().replace('\n', "\n                       ");
    let message = table::printable(&message);
    format!(
        "{:<8} {:<13} {message}\n",
        table::printable(&step.result),
        table::printable(&step.step)
    )
}

/// The document with that number, or the only one whose title contains this text.
fn document<'a>(trust: &'a RunnerTrust, which: &str) -> Result<&'a TrustDocument, CliError> {
    let documents = &trust.documents;
    let by_number = which.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    if let Some(found) = by_number.and_then(|position| documents.get(position)) {
        return Ok(found);
    }
    let words = which.to_lowercase();
    let titled = documents.iter().filter(|document| document.title.to_lowercase().contains(&words));
    if let [found] = titled.collect::<Vec<_>>()[..] {
        return Ok(found);
    }
    let all: Vec<_> = (1..)
        .zip(documents)
        .map(|(n, document): (u32, _)| format!("\n  {n}. {}", document.title))
        .collect();
    let message = if all.is_empty() {
        "--document: there is nothing to configure for this runner".to_owned()
    } else {
        format!("--document: `{which}` matches none of these, or more than one:{}", all.concat())
    };
    Err(CliError::usage(message))
}

fn trust_text(trust: &RunnerTrust) -> String {
    let mut text = format!("issuer    {}\nsubject   {}\n", trust.issuer, trust.subject);
    if let Some(audience) = &trust.audience {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "audience  {audience}");
    }
    if trust.documents.is_empty() {
        text.push_str("\nNothing needs to be configured for this type of runner.\n");
    }
    for (number, document) in (1..).zip(&trust.documents) {
        let number: u32 = number;
        let _ = write!(
            text,
            "\n{number}. {}\n   {}\n\n{}",
            document.title, document.place, document.text
        );
    }
    text.push('\n');
    table::printable(&text)
}
