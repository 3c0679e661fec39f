//! The table, the bus and the processes fail at random. Every deployment comes to the end that it would
//! come to on a good day, and comes there once.

use crate::harness::fleet::Fleet;
use crate::harness::stand_in::Part;
use crate::harness::told::{history, until_told};
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
/// Here the first deployment fails, whatever else happens.
const FAILS: &str = "env-4";
/// Of the invocations, so many end in `kill -9`.
const KILLED: f64 = 0.08;
/// Within this time after the begin of one.
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

/// Kills processes of every function at random moments, and gives the number of deaths ordered so far.
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
async fn whatever_fails_at_random_each_deployment_runs_once_and_ends_as_it_should() {
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
        fleet.orders.iter().map(|order| order.requests).sum::<u32>(),
        kills.load(Ordering::Relaxed),
    );

    // No environment stays locked.
    fleet.deploy(EACH + 1, |_| Part::Runs).await;
    let ended = fleet.ended(LIMIT).await;
    fleet.assert_ran_once_in_order(&ended, |order| order.number == 1 && order.env == FAILS);
    assert_audited_once(&fleet).await;

    let mut wanted = BTreeMap::new();
    for (id, deployment) in &ended {
        wanted.insert(id.clone(), history(&["queued", "running", &deployment.status]));
    }
    let told = until_told(&cloud, &wanted, LIMIT).await;
    assert_eq!(told.of, wanted, "and nothing else");
    let names = ["conflict", "throttle", "error after commit", "cut after commit", "partial"];
    assert!(names.iter().all(|name| injected.contains_key(name)), "{injected:?}");
    assert!(kills.load(Ordering::Relaxed) > 5, "hardly anything was killed");
    assert!(cloud.front.denied().is_empty(), "{:?}", cloud.front.denied());
    println!(
        "told after {:.1?}: {} events put for {}; the stream: {:?}",
        begun.elapsed(),
        told.put,
        told.events,
        cloud.stream.counts(),
    );
}

/// One record of each acceptance and one of each end, and no other of a deployment.
async fn assert_audited_once(fleet: &Fleet) {
    let records = fleet.site.client.list(&["audit-records"], &[]).await.unwrap();
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        if let Some((_, id)) = text("subject").split_once("/deployments/") {
            of.entry(id.to_owned()).or_default().push(text("action"));
        }
    }
    assert_eq!(of.len(), fleet.orders.len(), "{:?}", of.keys());
    for order in &fleet.orders {
        let mut actions = of[&order.id].clone();
        actions.sort();
        let end = if order.number == 1 && order.env == FAILS { "failed" } else { "succeeded" };
        let expected = ["deployment.create".to_owned(), format!("deployment.{end}")];
        assert_eq!(actions, expected, "{order:?}");
    }
}
