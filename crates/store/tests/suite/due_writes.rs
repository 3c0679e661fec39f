//! A process that makes all writes itself reads from each request what it made due.

use crate::world::{World, at, id, queued, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::RunnerCheckId;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_domain::runner_check::RunnerCheck;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::due_writes::DueWrites;
use canyon_store::embedded::Embedded;
use canyon_store::write_requests::makes_due;
use jiff::Timestamp;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use uuid::Uuid;

/// A table with the requests that it has written.
struct Watched {
    world: World,
    dev: Environment,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    _folder: TempDir,
}

impl Watched {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let requests = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let seen = requests.clone();
        let hook = Arc::new(move |request: &[u8]| seen.lock().unwrap().push(request.to_vec()));
        let file = folder.path().join("canyon.db");
        let embedded = Embedded::open_with_request_hook(&file, hook).unwrap();
        let table = embedded.table("canyon");
        table.ensure().await.unwrap();
        let (world, dev) = World::with_dev(table).await;
        requests.lock().unwrap().clear();
        Self { world, dev, requests, _folder: folder }
    }

    /// What the writes since the last call made due by `now`, and whether a search may find more.
    fn made_due(&self, now: Timestamp) -> (Vec<(Due, Deployment)>, bool) {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let (mut deployments, mut has_others) = (Vec::new(), false);
        for request in requests.iter().filter(|request| makes_due(request, now)) {
            let made = DueWrites::of(request, now);
            deployments.extend(made.deployments);
            has_others |= made.has_others;
        }
        (deployments, has_others)
    }
}

#[tokio::test]
async fn an_accepted_deployment_is_as_it_was_written_and_a_later_one_is_not_due() {
    let watched = Watched::new().await;
    let world = &watched.world;
    let now = Deployment { due_at: Some(at(10)), ..queued(&watched.dev, 1) };
    let later = Deployment { due_at: Some(at(11)), ..queued(&watched.dev, 2) };
    world.accept(&now).await;
    world.accept(&later).await;
    let due = Due { org: world.org, id: now.id };
    assert_eq!(watched.made_due(at(10)), (vec![(due, now.clone())], false));
    assert_eq!(world.stored(now.id).await, now);

    let postponed = Deployment { due_at: Some(at(9)), version: 2, ..later };
    world.table.save_deployment(world.org, &postponed, Wake::None).await.unwrap();
    let due = Due { org: world.org, id: postponed.id };
    assert_eq!(watched.made_due(at(10)), (vec![(due, postponed)], false), "a single item");
}

#[tokio::test]
async fn an_end_makes_the_next_one_of_its_environment_due() {
    let watched = Watched::new().await;
    let world = &watched.world;
    let [first, second] =
        [1, 2].map(|n| Deployment { due_at: Some(at(900)), ..queued(&watched.dev, n) });
    world.accept(&first).await;
    world.accept(&second).await;
    let mut ended = first;
    let failure = Failure::new(FailureClass::Config, "its module is gone");
    lifecycle::end_without_attempt(&mut ended, Outcome::Failed(failure), at(5));
    ended.version += 1;
    assert_eq!(watched.made_due(at(5)), (vec![], false), "nothing is due yet");
    world.table.end_deployment(world.org, &ended, at(5), None).await.unwrap();
    let next = Deployment { due_at: Some(at(5)), version: 2, ..second };
    let due = Due { org: world.org, id: next.id };
    assert_eq!(watched.made_due(at(5)), (vec![(due, next)], false));
}

#[tokio::test]
async fn what_is_no_deployment_is_left_to_a_search() {
    let watched = Watched::new().await;
    let check = RunnerCheck::new(RunnerCheckId(Uuid::now_v7()), id("my-runner"), at(5));
    let (table, org) = (&watched.world.table, watched.world.org);
    table.request_check(org, None, &check, &record()).await.unwrap();
    assert_eq!(watched.made_due(at(5)), (vec![], true));
    let unknown = br#"{"Item":{"gsi2sk":{"S":"0000000000001"},"pk":{"S":"of a later version"}}}"#;
    let made = DueWrites::of(unknown, at(5));
    assert!(made.deployments.is_empty() && made.has_others, "{made:?}");
}
