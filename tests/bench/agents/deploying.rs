//! Deployments one after the other, and how long each waited for an agent.

use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentCreateBody};
use jiff::Timestamp;
use serde_json::json;
use std::error::Error;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// No wait here takes long; a longer one hangs.
const LIMIT: Duration = Duration::from_mins(1);

/// Times by the server's clock, in milliseconds, in the order of the deployments.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From the write of the attempt, which its offer follows, to the job's claim.
    pub(crate) launched_to_claimed: Vec<i64>,
    /// From the acceptance to the claim.
    pub(crate) accepted_to_claimed: Vec<i64>,
    /// The time for all deployments.
    pub(crate) took: Duration,
}

/// Creates `count` deployments without work, one after the other, and waits for the end of each.
pub(crate) async fn one_by_one(client: &Client, count: u32) -> Result<Times, Box<dyn Error>> {
    let (mut times, begun) = (Times::default(), Instant::now());
    for number in 0..count {
        let body: DeploymentCreateBody = serde_json::from_value(json!({
            "mode": "deploy",
            "project_id": "bench",
            "env_id": format!("e{}", number % 8),
            "module": { "source": "inline", "source_code": "# nothing\n", "inputs": {} },
        }))?;
        let accepted = client.create_deployment(&body, &Uuid::new_v4().to_string()).await?;
        let ended = end(client, &accepted.id.to_string()).await?;
        let attempt = ended.attempts.first().ok_or("it was never launched")?;
        let claimed =
            attempt.claimed_at.ok_or_else(|| format!("it was never claimed: {ended:?}"))?;
        if ended.status != "succeeded" || ended.attempts.len() != 1 {
            return Err(format!("it did not go as it should: {ended:?}").into());
        }
        times.launched_to_claimed.push(between(attempt.launched_at, claimed));
        times.accepted_to_claimed.push(between(ended.created_at, claimed));
    }
    times.took = begun.elapsed();
    Ok(times)
}

fn between(from: Timestamp, to: Timestamp) -> i64 {
    i64::try_from(to.duration_since(from).as_millis()).unwrap_or(i64::MAX)
}

async fn end(client: &Client, id: &str) -> Result<Deployment, Box<dyn Error>> {
    let give_up = Instant::now() + LIMIT;
    loop {
        match client.wait(id, 25).await {
            Ok(Some(deployment)) => return Ok(deployment),
            Ok(None) if Instant::now() < give_up => {}
            Ok(None) => return Err(format!("deployment {id} does not end").into()),
            Err(error) => return Err(ClientError::into(error)),
        }
    }
}
