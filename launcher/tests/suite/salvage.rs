//! What the launcher stores of a dead job: the rest of its log, and the resources that it may have left behind.

use crate::platform::Script;
use crate::world::World;
use canyon_domain::deadline::Observation;
use canyon_domain::environment_state::{Doubt, EnvironmentState, StateFacts};
use canyon_domain::failure::Phase;
use canyon_store::blob_keys::{BlobKey, Stream};
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;
use canyon_store::streams::{MAX_STREAM, StreamRef};
use serde_json::{Value, json};
use std::sync::Arc;

/// OpenTofu has created a resource, and could not write the state.
pub(crate) const UNWRITTEN: &[u8] = br#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.a"},"action":"create"}}
{"@level":"info","type":"apply_complete","hook":{"resource":{"addr":"terraform_data.a"},"action":"create","id_key":"id","id_value":"42"}}
{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to save state"}}
{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to persist state to backend"}}
"#;

/// A run that applies. Its log and events begin at these offsets.
pub(crate) async fn applying(world: &World, streams_from: (u64, u64)) -> (Due, Arc<Script>) {
    let (org, platform) = world.organization("acme").await;
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.claim(due).await;
    let mut deployment = world.read(due).await;
    let attempt = deployment.attempts.last_mut().unwrap();
    attempt.phase = Phase::Apply;
    attempt.claim.as_mut().unwrap().streams_from = streams_from;
    deployment.version += 1;
    let saved = world.table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    (due, platform)
}

/// The job dies, and its runner is silent.
pub(crate) async fn dies(world: &World, due: Due, platform: &Script) {
    *platform.job.lock().unwrap() = Some(Observation::Gone(None));
    world.clock.by(61);
    world.reconcile(due).await;
}

async fn store(world: &World, of: StreamRef, offset: u64, bytes: &[u8]) {
    let bytes = bytes.to_vec().into();
    world.launcher.blobs.put_if_absent(&of.key(offset), bytes).await.unwrap();
}

/// The line that OpenTofu writes when it begins to create a resource.
fn begins(address: &str) -> String {
    let hook = json!({ "resource": { "addr": address }, "action": "create" });
    format!("{}\n", json!({ "type": "apply_start", "hook": hook }))
}

#[tokio::test]
async fn the_resources_that_a_dead_run_began_to_create_are_found_in_the_pieces_of_its_events() {
    let world = World::new().await;
    let before = begins("null_resource.before");
    let from = before.len() as u64;
    let (due, platform) = applying(&world, (0, from)).await;
    let of = StreamRef { org: due.org, deployment: due.id, stream: Stream::Events };
    store(&world, of, 0, before.as_bytes()).await;
    let events = begins("null_resource.one") + &begins("null_resource.two");
    // In pieces that end within a line.
    for (number, piece) in events.as_bytes().chunks(7).enumerate() {
        store(&world, of, from + number as u64 * 7, piece).await;
    }
    dies(&world, due, &platform).await;
    let deployment = world.read(due).await;
    assert_eq!(deployment.kept.orphans, 2, "those of an earlier attempt are not its own");
    let key = BlobKey::orphans(due.org, due.id, 1);
    let orphans = world.launcher.blobs.get(&key).await.unwrap().unwrap();
    let orphans: Value = serde_json::from_slice(&orphans).unwrap();
    let expected = ["null_resource.one", "null_resource.two"].map(|at| json!({ "address": at }));
    assert_eq!(orphans, json!(expected));
}

#[tokio::test]
async fn the_rest_of_a_dead_runs_log_is_stored_up_to_the_largest_stream() {
    let world = World::new().await;
    let from = MAX_STREAM - 4;
    let (due, platform) = applying(&world, (from, 0)).await;
    let of = StreamRef { org: due.org, deployment: due.id, stream: Stream::Log };
    store(&world, of, from, b"ab").await;
    *platform.log.lock().unwrap() = b"abcdefgh".to_vec();
    dies(&world, due, &platform).await;
    let rest = world.launcher.blobs.get(&of.key(from + 2)).await.unwrap().unwrap();
    assert_eq!(rest.as_ref(), b"cd");
    assert_eq!(world.launcher.blobs.stream_end(of).await.unwrap(), MAX_STREAM);
}

async fn state_of_environment(world: &World, due: Due) -> EnvironmentState {
    world.environment(due).await.module.state.unwrap()
}

#[tokio::test]
async fn a_run_that_died_before_it_reported_its_unwritten_state_leaves_an_environment_that_knows_of_it()
 {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    dies(&world, due, &platform).await;
    let ended = world.read(due).await;
    assert_eq!((ended.status.is_terminal(), ended.kept.orphans), (true, 1));
    let state = state_of_environment(&world, due).await;
    let unwritten = state.unwritten.unwrap();
    assert_eq!((unwritten.by, unwritten.facts), (due.id, None), "every state is refused");
    assert_eq!(state.doubt, Some(Doubt::Unfinished(due.id)));
}

#[tokio::test]
async fn what_a_run_reported_of_its_unwritten_state_outlives_it() {
    let world = World::new().await;
    let (due, platform) = applying(&world, (0, 0)).await;
    *platform.events.lock().unwrap() = UNWRITTEN.to_vec();
    let (lineage, digest) = ("a".to_owned(), Some("one".to_owned()));
    let facts = StateFacts { lineage, serial: 2, resources: 1, digest };
    let mut deployment = world.read(due).await;
    assert!(deployment.could_not_write_state(1, Some(facts.clone())));
    deployment.version += 1;
    let saved = world.table.save_deployment(due.org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    dies(&world, due, &platform).await;
    let state = state_of_environment(&world, due).await;
    assert_eq!(state.unwritten.unwrap().facts, Some(facts), "a run that finds this state goes on");
}
