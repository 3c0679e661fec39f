//! Writes that wake the launcher, and ends that stay due until they are published.

use crate::items::get;
use crate::world::{World, at, hash, queued, record};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::lifecycle;
use canyon_store::Table;
use canyon_store::conditional::Item;
use canyon_store::deployment_ends::ReadBefore;
use canyon_store::deployment_item::{Wake, from_stream_image};
use canyon_store::keys;
use canyon_store::outcome::Saved;

on_each_table!(
    only_writes_that_need_an_action_of_the_launcher_wake_it,
    an_end_stays_due_until_it_is_published_if_the_table_publishes_ends,
    an_end_keeps_the_time_at_which_its_deployment_was_due_if_that_is_soon_but_not_too_soon,
);

async fn stored_item(world: &World, id: DeploymentId) -> Item {
    let key = keys::deployment(world.org, id);
    get(&world.table, &format!("{}/{}", key.pk, key.sk)).await.unwrap()
}

async fn wakes(world: &World, id: DeploymentId) -> bool {
    stored_item(world, id).await.get("wake") == Some(&AttributeValue::Bool(true))
}

/// Writes a step of the deployment.
async fn step(world: &World, of: &mut Deployment, wake: Wake) {
    of.version += 1;
    assert_eq!(world.table.save_deployment(world.org, of, wake).await.unwrap(), Saved::Yes);
}

fn claim(of: &mut Deployment, second: i64) {
    lifecycle::claim(of, 1, &hash("code"), "me", hash("token"), (0, 0), at(second)).unwrap();
}

async fn only_writes_that_need_an_action_of_the_launcher_wake_it(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let (first, second) = (queued(&dev, 1), queued(&dev, 2));
    world.try_accept(&first, None).await;
    world.try_accept(&second, None).await;
    assert!(wakes(&world, first.id).await, "accepted: launch it");
    let mut first = world.launch(first.id, at(3)).await.unwrap();
    assert!(!wakes(&world, first.id).await, "launched: the launcher wrote it itself");
    claim(&mut first, 4);
    step(&world, &mut first, Wake::Launcher).await;
    assert!(wakes(&world, first.id).await, "claimed: publish it");
    step(&world, &mut first, Wake::None).await;
    assert!(!wakes(&world, first.id).await, "a heartbeat");
    lifecycle::end(&mut first, 1, Outcome::Succeeded, at(5)).unwrap();
    first.version += 1;
    world.table.end_deployment(world.org, &first, at(5), Some(&record())).await.unwrap();
    assert!(wakes(&world, first.id).await, "ended: publish it");
    assert!(wakes(&world, second.id).await, "it has the turn now");

    // The stream record contains the deployment as that write left it.
    let image = serde_dynamo::Item::from(stored_item(&world, first.id).await);
    let (org, read) = from_stream_image(image.clone()).unwrap();
    assert_eq!((org, read), (world.org, world.stored(first.id).await));
    for missing in ["pk", "gsi3pk", "status"] {
        let mut item: Item = image.clone().into();
        item.remove(missing);
        assert!(from_stream_image(item.into()).is_err(), "without `{missing}`");
    }
}

async fn an_end_stays_due_until_it_is_published_if_the_table_publishes_ends(table: Table) {
    let (mut world, dev) = World::with_dev(table).await;
    world.table = world.table.with_published_ends();
    let deployment = queued(&dev, 1);
    world.try_accept(&deployment, None).await;
    world.table.record_end_published(world.org, deployment.id).await.unwrap();
    assert!(world.stored(deployment.id).await.due_at.is_some(), "it has not ended");
    let mut deployment = world.launch(deployment.id, at(3)).await.unwrap();
    claim(&mut deployment, 4);
    step(&world, &mut deployment, Wake::Launcher).await;
    lifecycle::end(&mut deployment, 1, Outcome::Succeeded, at(5)).unwrap();
    deployment.version += 1;
    world.table.end_deployment(world.org, &deployment, at(5), None).await.unwrap();

    let due = async |second| world.table.due(at(second), 10).await.unwrap().len();
    assert_eq!((due(60).await, due(66).await), (0, 1), "the stream has a minute");
    world.table.postpone_end(world.org, deployment.id, at(100)).await.unwrap();
    assert_eq!((due(99).await, due(101).await), (0, 1), "the publication failed");
    assert_eq!(world.stored(deployment.id).await.due_at, Some(at(100)));
    for _ in 0..2 {
        world.table.record_end_published(world.org, deployment.id).await.unwrap();
        assert_eq!(due(1_000_000).await, 0);
    }
    world.table.postpone_end(world.org, deployment.id, at(200)).await.unwrap();
    assert_eq!(due(1_000_000).await, 0, "it is already published");
    let stored = world.stored(deployment.id).await;
    assert_eq!(Deployment { due_at: None, ..deployment }, stored);
    assert!(!wakes(&world, stored.id).await, "nothing is published again");
    // A deployment that does not exist is no error.
    let gone = DeploymentId(uuid::Uuid::nil());
    world.table.record_end_published(world.org, gone).await.unwrap();
}

async fn an_end_keeps_the_time_at_which_its_deployment_was_due_if_that_is_soon_but_not_too_soon(
    table: Table,
) {
    let (mut world, dev) = World::with_dev(table).await;
    world.table = world.table.with_published_ends();
    for (n, was_due, then_due) in
        [(1, Some(25), 25), (2, Some(65), 65), (3, Some(24), 65), (4, Some(66), 65), (5, None, 65)]
    {
        let deployment = queued(&dev, n);
        world.try_accept(&deployment, None).await;
        let mut deployment = world.launch(deployment.id, at(3)).await.unwrap();
        claim(&mut deployment, 4);
        step(&world, &mut deployment, Wake::Launcher).await;
        lifecycle::end(&mut deployment, 1, Outcome::Succeeded, at(5)).unwrap();
        deployment.version += 1;
        let before = ReadBefore { environment: None, due_at: was_due.map(at) };
        let ended = world.table.end_deployment_in(world.org, &deployment, before, at(5), None);
        assert_eq!(ended.await.unwrap(), Saved::Yes);
        assert_eq!(world.stored(deployment.id).await.due_at, Some(at(then_due)), "{was_due:?}");
    }
}
