//! What idle agents cost the functions: a session, a poll, and how both grow with the number of agents.

use crate::companion::{Companion, Counts};
use crate::fill::Fill;
use crate::installation::Installation;
use crate::start::summary;
use crate::{Error, print};
use canyon_api::client::Client;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Agents of each token; half of what Canyon allows.
const OF_A_TOKEN: usize = 500;
/// Agents that send a request concurrently.
const AT_ONCE: usize = 4;
/// Agents that poll once for each reading, or open a session last.
const SAMPLE: usize = 100;
const RUNNER: &str = "far-away";

pub(crate) async fn measure(installation: &Installation, size: usize) -> Result<(), Error> {
    installation.watch(false).await?;
    let client = installation.client()?;
    let labels = json!({"of": "bench"});
    let runner = json!({
        "id": RUNNER,
        "runner_configuration": {"type": "local", "agents": {"labels": labels}},
        "state_storage_configuration": {"type": "local", "path": "/tmp/state"},
    });
    client.create(&["runners"], &runner).await?;
    let fill = Fill::new(installation);
    let mut agents = Vec::new();
    join(&client, &mut agents, 1).await?;
    let pattern = [fill.item("#agents", "agent-0").await?];
    let (mut held, mut next) = (1, SAMPLE.min(size));
    loop {
        let copies = next.saturating_sub(held + SAMPLE);
        fill.copies(&pattern, "agent-0", |own| format!("copy-{}", own.simple()), copies, |_, _| {})
            .await?;
        let session = Reading::begin(installation);
        let joined = agents.len();
        join(&client, &mut agents, joined + SAMPLE).await?;
        let session = session.end(SAMPLE);
        held += copies + SAMPLE;
        let poll = Reading::begin(installation);
        let counts = Counts::default();
        stream::iter(agents.iter().rev().take(SAMPLE))
            .map(|agent| agent.poll(&counts))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        print(&json!({"agents": held, "session": session, "poll": poll.end(SAMPLE)}));
        if next == size {
            return Ok(());
        }
        next = (next * 10).min(size);
    }
}

/// Opens sessions until `agents` are `count`.
async fn join(client: &Client, agents: &mut Vec<Companion>, count: usize) -> Result<(), Error> {
    let body = json!({"role": "agent", "runner_id": RUNNER, "labels": {"of": "bench"}});
    while agents.len() < count {
        let made = client.create(&["tokens"], &body).await?;
        let secret = made["secret"].as_str().ok_or("the token has no secret")?.to_owned();
        let with_token = client.with_token(secret.into());
        let first = agents.len();
        let joined: Vec<Companion> = stream::iter(first..count.min(first + OF_A_TOKEN))
            .map(|number| {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                Companion::join(with_token.clone(), RUNNER.to_owned(), number)
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        agents.extend(joined);
    }
    Ok(())
}

/// What the functions do meanwhile.
struct Reading<'a> {
    installation: &'a Installation,
    invocations: usize,
    begun: Instant,
}

impl<'a> Reading<'a> {
    fn begin(installation: &'a Installation) -> Self {
        installation.meter.take();
        let invocations = installation.cloud.function("api").reports().len();
        Self { installation, invocations, begun: Instant::now() }
    }

    /// The mean of `count` requests; of the processor time the median and the 90th percentile.
    fn end(self, count: usize) -> Value {
        let took = self.begun.elapsed();
        let reports = self.installation.cloud.function("api").reports();
        let cpu: Vec<Duration> =
            reports.iter().skip(self.invocations).filter_map(|report| report.cpu).collect();
        let each = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let operations: serde_json::Map<_, _> = self
            .installation
            .meter
            .take()
            .into_iter()
            .map(|((function, operation), usage)| {
                let reading = json!([usage.requests / each, usage.units / each]);
                (format!("{function} {operation}"), reading)
            })
            .collect();
        json!({"operations": operations, "cpu_ms": summary(cpu), "seconds": took.as_secs_f64()})
    }
}
