//! The table, the bus and the processes fail at random. Every deployment reaches the same end as
//! without faults, and reaches it once.

use crate::harness::fleet::Fleet;
use crate::harness::published_events::{history, until_published};
use crate::harness::stand_in::Part;
use canyon_cloud::chance::Chance;
use canyon_cloud::cloud::{Cloud, FUNCTIONS};
use canyon_cloud::front::{Fault, FaultRule};
use canyon_cloud::runtime::Kill;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ENVIRONMENTS: usize = 15;
const EACH: u32 = 3;
/// In this environment the first deployment fails, whatever else happens.
const FAILS: &str = "env-4";
/// The share of invocations that end in `kill -9`.
const KILLED: f64 = 0.08;
/// The kill comes within this time after an invocation's start.
const MOMENTS: Duration = Duration::from_millis(150);
const SEED: u64 = 20_261;
const LIMIT: Duration = Duration::from_mins(5);

fn rules() -> Vec<FaultRule> {
    vec![
        FaultRule::new("dynamodb:TransactWriteItems", Fault::Conflict, 0.2),
        FaultRule::new("dynamodb:*", Fault::Throttle, 0.1),
        FaultRule::new("dynamodb:*", Fault::ErrorAfter, 0.05),
        FaultRule::new("dynamodb:*", Fault::CutAfter, 0.05),
        FaultRule::new("dynamodb:*", Fault::ErrorBefore, 0.05),
        FaultRule::new("events:PutEvents", Fault::Partial, 0.2),
    ]
}

/// Kills processes of every function at random moments, and returns the number of kills so far.
fn kill(cloud: &Cloud) -> Arc<AtomicU64> {
    let (chance, count) = (Arc::new(Chance::new(SEED)), Arc::new(AtomicU64::new(0)));
    for name in FUNCTIONS {
        let (chance, count) = (chance.clone(), count.clone());
        cloud.function(name).kill_during(move |_| {
            if !chance.happens(KILLED) {
                return None;
            }
            count.fetch_add(1, Ordering::Relaxed);
            Some(if chance.happens(0.3) {
                Kill::BeforeResponse
            } else {
                Kill::After(chance.up_to(MOMENTS))
            })
        });
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn despite_random_faults_each_deployment_runs_once_and_ends_as_it_should() {
    let mut fleet = Fleet::new(ENVIRONMENTS).await;
    let cloud = fleet.site.server.cloud().clone();
    cloud.front.set_faults(rules());
    let kills = kill(&cloud);
    let begun = Instant::now();
    for number in 1..=EACH {
        let fails = |env: &str| number == 1 && env == FAILS;
        fleet.deploy(number, |env| if fails(env) { Part::Fails } else { Part::Runs }).await;
    }
    let accepted = begun.elapsed();
    let ended = fleet.ended(LIMIT).await;
    let took = begun.elapsed();
    let injected = cloud.front.faults_injected();
    cloud.front.clear_faults();
    for name in FUNCTIONS {
        cloud.function(name).spare();
    }
    println!(
        "seed {SEED}: {} deployments accepted after {accepted:.1?} by {} requests, ended after {took:.1?}; {} processes \
         killed; faults: {injected:?}",
        ended.len(),
        fleet.accepted.iter().map(|one| one.requests).sum::<u32>(),
        kills.load(Ordering::Relaxed),
    );

    // No environment stays locked: each accepts one more deployment.
    fleet.deploy(EACH + 1, |_| Part::Runs).await;
    let ended = fleet.ended(LIMIT).await;
    fleet.assert_ran_once_in_order(&ended, |one| one.number == 1 && one.env == FAILS);
    assert_audited_once(&fleet).await;

    let mut wanted = BTreeMap::new();
    for (id, deployment) in &ended {
        wanted.insert(id.clone(), history(&["queued", "running", &deployment.status]));
    }
    let published = until_published(&cloud, &wanted, LIMIT).await;
    assert_eq!(published.of, wanted, "and nothing else");
    let names = ["conflict", "throttle", "error after commit", "cut after commit", "partial"];
    assert!(names.iter().all(|name| injected.contains_key(name)), "{injected:?}");
    assert!(kills.load(Ordering::Relaxed) > 5, "hardly anything was killed");
    assert!(cloud.front.denied().is_empty(), "{:?}", cloud.front.denied());
    println!(
        "published after {:.1?}: {} events put for {}; the stream: {:?}",
        begun.elapsed(),
        published.put,
        published.events,
        cloud.stream.counts(),
    );
}

/// Asserts that each deployment has one record of its acceptance and one of its end, and no other.
async fn assert_audited_once(fleet: &Fleet) {
    let records = fleet.site.client.list(&["audit-records"], &[]).await.unwrap();
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        if let Some((_, id)) = text("subject").split_once("/deployments/") {
            of.entry(id.to_owned()).or_default().push(text("action"));
        }
    }
    assert_eq!(of.len(), fleet.accepted.len(), "{:?}", of.keys());
    for one in &fleet.accepted {
        let mut actions = of[&one.id].clone();
        actions.sort();
        let end = if one.number == 1 && one.env == FAILS { "failed" } else { "succeeded" };
        let expected = ["deployment.create".to_owned(), format!("deployment.{end}")];
        assert_eq!(actions, expected, "{one:?}");
    }
}
