//! A thousand agents in one process, for `scripts/bench agents`: sessions and long polls through the typed
//! client, and jobs that only claim their attempt and report success.
//!
//!     canyon-agent-load AGENTS IDLE_SECONDS DEPLOYMENTS
//!
//! Prints a line of JSON for each of its phases. The settings are `CANYON_API_URL`, `CANYON_ORG`, `CANYON_TOKEN`
//! (of an administrator), `AGENT_TOKENS` and `AGENT_RUNNER`. The tokens are separated by commas, one for each 500 agents.

mod companion;
mod deploying;
#[path = "../null_job.rs"]
mod null_job;

use canyon_api::client::Client;
use companion::{Companion, Counts};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Sessions that are opened concurrently.
const AT_ONCE: usize = 50;

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

fn argument(at: usize, name: &str) -> Result<u32, Box<dyn Error>> {
    let given = std::env::args().nth(at).ok_or_else(|| format!("{name} is missing"))?;
    Ok(given.parse()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agents = argument(1, "AGENTS")?;
    let idle = Duration::from_secs(argument(2, "IDLE_SECONDS")?.into());
    let deployments = argument(3, "DEPLOYMENTS")?;
    let client = Client::new(
        &variable("CANYON_API_URL")?,
        &variable("CANYON_ORG")?,
        variable("CANYON_TOKEN")?.into(),
    )?;
    let tokens = variable("AGENT_TOKENS")?;
    let theirs: Vec<_> =
        tokens.split(',').map(|token| client.with_token(token.to_owned().into())).collect();
    let runner = variable("AGENT_RUNNER")?;

    let counts = Arc::new(Counts::default());
    let begun = Instant::now();
    let mut polling = JoinSet::new();
    for companion in join(&theirs, &runner, agents).await? {
        polling.spawn(companion.work(counts.clone()));
    }
    say(&json!({ "phase": "joined", "agents": agents, "seconds": begun.elapsed().as_secs_f64() }));

    // Waits until the first round of polls has ended: all of them began at the same time.
    tokio::time::sleep(Duration::from_secs(26).min(idle)).await;
    let before = counts.polls();
    say(&json!({ "phase": "idle begins" }));
    let begun = Instant::now();
    tokio::time::sleep(idle).await;
    let requests = counts.polls() - before;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let each = f64::from(requests) / f64::from(agents) / minutes;
    say(&json!({ "phase": "idle", "requests_per_agent_minute": each, "failed": counts.failed() }));

    let polls = counts.polls();
    let times = deploying::one_by_one(&client, deployments).await?;
    say(&json!({
        "phase": "deployed",
        "deployments": deployments,
        "launched_to_claimed_ms": times.launched_to_claimed,
        "accepted_to_claimed_ms": times.accepted_to_claimed,
        "seconds": times.took.as_secs_f64(),
        "polls": counts.polls() - polls,
        "jobs": counts.jobs(),
        "failed": counts.failed(),
    }));
    polling.shutdown().await;
    Ok(())
}

/// Opens the sessions of all agents.
async fn join(
    theirs: &[Client],
    runner: &str,
    agents: u32,
) -> Result<Vec<Companion>, Box<dyn Error>> {
    let (mut opening, mut joined) = (JoinSet::new(), Vec::new());
    // A token has a limited number of agents.
    for (number, client) in (0..agents).zip(theirs.iter().cycle()) {
        if opening.len() >= AT_ONCE
            && let Some(opened) = opening.join_next().await
        {
            joined.push(opened??);
        }
        opening.spawn(Companion::join(client.clone(), runner.to_owned(), number));
    }
    while let Some(opened) = opening.join_next().await {
        joined.push(opened??);
    }
    Ok(joined)
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn say(line: &serde_json::Value) {
    println!("{line}");
}
