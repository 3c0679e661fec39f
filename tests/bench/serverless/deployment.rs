//! Requests and units of the table for a deployment, from its acceptance until its end is
//! published.

use crate::fill::Fill;
use crate::installation::Installation;
use crate::meter::Counts;
use crate::{Error, print};
use canyon_cloud::streams::Disturbance;
use serde_json::json;
use std::time::Duration;

/// Each reading is the mean of so many deployments, one after the other.
const ROUNDS: usize = 5;
/// The sweep publishes an end a minute later if the stream did not.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(62);

pub(crate) async fn measure(installation: &Installation, size: usize) -> Result<(), Error> {
    let fill = Fill::new(installation);
    installation.watch(true).await?;
    // The first deployment reads from disk what later ones find in memory.
    installation.deploy(0).await?;
    installation.until_succeeded(1).await?;
    let pattern = fill.newest().await?;
    let mut held = 1;
    let mut next = 100.min(size);
    loop {
        fill.deployments(&pattern, next.saturating_sub(held), |_, _| {}).await?;
        held = held.max(next);
        let began = installation.succeeded();
        installation.meter.take();
        for n in 1..=ROUNDS {
            installation.deploy(0).await?;
            installation.until_succeeded(began + n).await?;
        }
        report("stream", held, ROUNDS, &installation.meter.take());
        held += ROUNDS;
        if next == size {
            break;
        }
        next = (next * 10).min(size);
    }
    by_the_sweep(installation, held).await
}

/// The same if no record of the stream and no event of the platform arrives.
async fn by_the_sweep(installation: &Installation, held: usize) -> Result<(), Error> {
    installation.cloud.stream.disturb(Disturbance { off: true, ..Disturbance::default() });
    let began = installation.succeeded();
    installation.meter.take();
    for env in 0..ROUNDS {
        installation.deploy(env).await?;
    }
    let sweep = installation.cloud.function("sweep");
    sweep.invoke("{}").await.map_err(|error| error.to_string())?;
    tokio::time::sleep(PUBLISHED_WITHIN).await;
    sweep.invoke("{}").await.map_err(|error| error.to_string())?;
    installation.until_succeeded(began + ROUNDS).await?;
    report("sweep", held, ROUNDS, &installation.meter.take());
    Ok(())
}

fn report(by: &str, deployments: usize, rounds: usize, counts: &Counts) {
    let rounds = f64::from(u32::try_from(rounds).unwrap_or(u32::MAX));
    let writes = |operation: &str| {
        ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"].contains(&operation)
    };
    let stream = ["GetRecords", "GetShardIterator", "DescribeStream"];
    let (mut requests, mut write, mut read) = (0.0, 0.0, 0.0);
    let mut operations = serde_json::Map::new();
    for ((function, operation), usage) in counts {
        if stream.contains(&operation.as_str()) {
            continue;
        }
        requests += usage.requests / rounds;
        *(if writes(operation) { &mut write } else { &mut read }) += usage.units / rounds;
        operations.insert(
            format!("{function} {operation}"),
            json!([usage.requests / rounds, usage.units / rounds]),
        );
    }
    print(&json!({
        "by": by, "deployments": deployments, "requests": requests,
        "write_units": write, "read_units": read, "operations": operations,
    }));
}
