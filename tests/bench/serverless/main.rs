//! The cost of the functions: time until they answer, processor time, requests and units of the table.
//!
//! `canyon-serverless-cost WHAT FUNCTIONS RUNNER [SIZE]` starts an installation in the AWS of
//! `canyon-cloud` with the programs `api`, `events`, `issuer`, `launcher`, `sweep` and `hello` of the
//! folder FUNCTIONS, and prints a JSON line for each reading. WHAT is
//!
//! - `start`: from exec to the first request for an event, and to the first answer;
//! - `warm`: processor time of a request, in a process that has already served requests;
//! - `deployment`: requests and units by function, by the stream and by the sweep alone, and how they
//!   grow with the number of deployments in the table, up to SIZE;
//! - `agents`: a session and a poll of an idle agent, and how they grow with the number of agents, up to SIZE;
//! - `burst`: SIZE deployments at once in a tenth as many environments, on a strict ECS with AWS's rates;
//! - `sweep`: a minute of the functions that the clock starts, without work, and with deployments and schedules that are not due.

mod agents;
mod burst;
#[allow(dead_code, reason = "`scripts/bench agents` uses the rest")]
#[path = "../agents/companion.rs"]
mod companion;
mod deployment;
#[allow(dead_code, reason = "the suite of the dispatchers uses the rest")]
#[expect(clippy::unwrap_used, reason = "it is written for tests")]
#[path = "../../../launcher/dispatch/tests/suite/ecs_bed.rs"]
mod ecs_bed;
mod fill;
mod installation;
mod meter;
#[path = "../null_job.rs"]
mod null_job;
mod runtime_api;
mod start;
mod sweep;
mod warm;

use installation::Installation;
use std::path::PathBuf;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let (Some(what), Some(functions), Some(runner)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: canyon-serverless-cost WHAT FUNCTIONS RUNNER [SIZE]".into());
    };
    let size = arguments.next().map_or(Ok(10_000), |size| size.parse())?;
    let installation =
        Installation::start(&PathBuf::from(functions), &PathBuf::from(runner)).await?;
    match what.as_str() {
        "start" => start::measure(&installation),
        "agents" => agents::measure(&installation, size).await,
        "burst" => burst::measure(&installation, size).await,
        "warm" => warm::measure(&installation).await,
        "deployment" => deployment::measure(&installation, size).await,
        "sweep" => sweep::measure(&installation, size).await,
        other => {
            Err(format!("`{other}` is none of: start, warm, deployment, agents, burst, sweep")
                .into())
        }
    }
}

/// Prints a result, which `scripts/bench` reads.
#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn print(reading: &serde_json::Value) {
    println!("{reading}");
}
