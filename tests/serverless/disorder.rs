//! AWS promises delivery at least once: here everything is delivered several times, and out of order.

use crate::harness::fleet::Fleet;
use crate::harness::published_events::{history, until_published};
use crate::harness::stand_in::Part;
use canyon_cloud::event_bus::BusDisturbance;
use canyon_cloud::streams::Disturbance;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ENVIRONMENTS: usize = 12;
const EACH: u32 = 2;
/// In this environment the first deployment fails.
const FAILS: &str = "env-3";
/// In this environment the first deployment runs until it is cancelled.
const HANGS: &str = "env-7";
const LIMIT: Duration = Duration::from_mins(10);

#[tokio::test(flavor = "multi_thread")]
async fn repeated_and_reordered_deliveries_change_nothing() {
    let mut fleet = Fleet::new(ENVIRONMENTS).await;
    let cloud = fleet.site.server.cloud().clone();
    cloud.stream.disturb(Disturbance {
        copies: 2,
        shuffle: true,
        replay: 0.5,
        ..Disturbance::default()
    });
    let shuffle = Duration::from_millis(500);
    cloud.bus.disturb(BusDisturbance { copies: 3, shuffle, ..BusDisturbance::default() });
    let begun = Instant::now();
    let first = |env: &str| match env {
        FAILS => Part::Fails,
        HANGS => Part::Hangs,
        _ => Part::Runs,
    };
    fleet.deploy(1, first).await;
    fleet.deploy(2, |_| Part::Runs).await;
    let id_of = |env: &str, number| {
        let found = fleet.accepted.iter().find(|one| one.env == env && one.number == number);
        found.unwrap().id.clone()
    };
    let hangs = id_of(HANGS, 1);
    let deadline = Instant::now() + LIMIT;
    while fleet.stand_in.of(HANGS).is_empty() {
        assert!(Instant::now() < deadline, "it does not begin\n{}", fleet.site.server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fleet.site.client.cancel(&hangs).await.unwrap();

    let ended = fleet.ended(LIMIT).await;
    let took = begun.elapsed();
    let mut wanted = BTreeMap::new();
    for one in &fleet.accepted {
        let status = match (one.number, one.env.as_str()) {
            (1, FAILS) => "failed",
            (1, HANGS) => "cancelled",
            _ => "succeeded",
        };
        assert_eq!(ended[&one.id].status, status, "{one:?}");
        wanted.insert(one.id.clone(), history(&["queued", "running", status]));
    }
    assert_eq!(ended.len(), ENVIRONMENTS * EACH as usize, "as many as were asked for");
    for env in &fleet.environments {
        // A deployment that failed or was stopped has no end line.
        let lines = [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)];
        let stopped = |line: &(&str, u32)| *line == ("end", 1) && [FAILS, HANGS].contains(&&**env);
        let expected: Vec<_> = lines.into_iter().filter(|line| !stopped(line)).collect();
        let found = fleet.stand_in.of(env);
        let found: Vec<_> = found.iter().map(|(what, number)| (what.as_str(), *number)).collect();
        assert_eq!(found, expected, "in {env}");
    }

    cloud.stream.settled(LIMIT).await.unwrap();
    let published = until_published(&cloud, &wanted, LIMIT).await;
    assert_eq!(published.of, wanted, "and nothing else");
    // A job that a busy machine starves before its apply is retried, and each attempt that runs is
    // published.
    let mut runs = 0;
    for id in ended.keys() {
        let deployment = fleet.site.client.deployment(id).await.unwrap();
        runs += deployment.attempts.iter().filter(|attempt| attempt.claimed_at.is_some()).count();
    }
    assert_eq!(published.events, 2 * wanted.len() + runs, "each with an id of its own");
    let counts = cloud.stream.counts();
    assert!(published.put > published.events, "nothing came again: {} events", published.put);
    assert_eq!(counts.discarded, 0, "{counts:?}");
    println!(
        "{} deployments: ended after {took:.1?}; {} invocations of the launcher for {} records, {} sweeps, {} \
         hints; {} events put for {}",
        ended.len(),
        counts.invocations,
        counts.passed,
        cloud.function("sweep").reports().len(),
        cloud.function("events").reports().len(),
        published.put,
        published.events,
    );
}
