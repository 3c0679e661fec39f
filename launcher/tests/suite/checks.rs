//! Checks of runners: searched for after a hint, and without delaying other work.

use crate::world::{RUNNER, World, passes, record, until};
use canyon_domain::ids::{OrgUuid, RunnerCheckId};
use canyon_domain::ports::Clock as _;
use canyon_domain::runner_check::{CheckStatus, RunnerCheck};
use canyon_launcher::Sweeper;
use tokio::task::JoinSet;
use uuid::Uuid;

async fn ask(world: &World, org: OrgUuid) {
    let id = RunnerCheckId(Uuid::now_v7());
    let check = RunnerCheck::new(id, RUNNER.parse().unwrap(), world.clock.now());
    world.table.request_check(org, None, &check, &record()).await.unwrap();
}

async fn check(world: &World, org: OrgUuid) -> RunnerCheck {
    world.table.runner_check(org, &RUNNER.parse().unwrap()).await.unwrap().unwrap()
}

#[tokio::test]
async fn checks_are_searched_for_after_a_hint_and_otherwise_every_half_minute() {
    let world = World::new().await;
    let sweeper = Sweeper::new(world.launcher.clone());
    let mut tasks = JoinSet::new();
    let mut orgs = Vec::new();
    for name in ["one", "two", "three"] {
        orgs.push(world.organization(name).await);
    }
    let checked = |number: usize| orgs[number].1.count("check");
    // The first pass searches at once, for checks requested before.
    ask(&world, orgs[0].0).await;
    sweeper.pass(&mut tasks).await.unwrap();
    until("the first check", || checked(0) == 1).await;

    ask(&world, orgs[1].0).await;
    for _ in 0..20 {
        world.clock.by(1);
        sweeper.pass(&mut tasks).await.unwrap();
        assert_eq!(check(&world, orgs[1].0).await.status(world.clock.now()), CheckStatus::Waiting);
    }
    sweeper.note_write();
    sweeper.pass(&mut tasks).await.unwrap();
    until("the check after the hint", || checked(1) == 1).await;

    ask(&world, orgs[2].0).await;
    world.clock.by(31);
    sweeper.pass(&mut tasks).await.unwrap();
    until("the check after half a minute", || checked(2) == 1).await;
    tasks.join_all().await;
}

#[cfg(feature = "lambda")]
#[tokio::test]
async fn a_slow_check_delays_its_stream_batch_only_briefly_and_is_completed_by_the_sweep() {
    use crate::stream::record;
    use canyon_launcher::STREAM_CHECK_TIMEOUT;
    use canyon_launcher::stream::{Batch, serve};
    use serde_json::json;

    let world = World::new().await;
    let (org, platform) = world.organization("acme").await;
    platform.silent_at(&["check"]);
    ask(&world, org).await;
    let scan = world.embedded.client().scan().table_name("canyon").send().await.unwrap();
    let key = scan.items().iter().find(|item| {
        item["pk"].as_s().unwrap().ends_with("#checks") && item["sk"].as_s().unwrap() == RUNNER
    });
    let key = key.unwrap();
    let record = record(
        &json!({ "pk": { "S": key["pk"].as_s().unwrap() }, "sk": { "S": key["sk"].as_s().unwrap() } }),
    );
    let launcher = world.launcher.clone();
    let batch = Batch { records: vec![record] };
    let served = tokio::spawn(async move { serve(&launcher, batch).await });
    until("it is being checked", || *platform.open.lock().unwrap() == 1).await;
    passes(STREAM_CHECK_TIMEOUT).await;
    let answer = served.await.unwrap();
    assert_eq!(answer.batch_item_failures.len(), 0);
    let left = check(&world, org).await;
    assert_eq!(left.status(world.clock.now()), CheckStatus::Waiting, "{left:?}");

    platform.silent_at(&[]);
    let mut tasks = JoinSet::new();
    Sweeper::new(world.launcher.clone()).pass(&mut tasks).await.unwrap();
    tasks.join_all().await;
    let done = check(&world, org).await;
    assert_eq!(done.status(world.clock.now()), CheckStatus::Done, "{done:?}");
    assert_eq!(done.steps.len(), 1, "{done:?}");
}
