//! An object that was deleted and created again has its name and perhaps its version, and is another object: a change
//! that was decided on the deleted one must not write it.

use crate::agents::{agent, opened};
use crate::world::{World, at, environment, record};
use crate::{event_sources, runner_profiles, service_accounts};
use canyon_store::Table;
use canyon_store::outcome::{Created, Deleted, Saved};
use serde_json::json;

on_each_table!(
    a_change_of_a_deleted_agent_does_not_write_its_successor,
    a_change_of_a_deleted_environment_does_not_write_its_successor,
    a_change_of_a_deleted_event_source_does_not_write_its_successor,
    a_change_of_a_deleted_profile_does_not_write_its_successor,
    a_change_of_a_deleted_service_account_does_not_write_its_successor,
);

async fn a_change_of_a_deleted_agent_does_not_write_its_successor(table: Table) {
    let (World { table, org }, first) = (World::new(table).await, agent("a1"));
    let mut second = first.clone();
    second.created_at = at(1);
    assert_eq!(table.create_agent(org, &first, None).await.unwrap(), Created::Yes);
    let gone = table.delete_agent(org, &first.id, &record()).await.unwrap();
    assert_eq!(gone, Deleted::Yes);
    assert_eq!(table.create_agent(org, &second, None).await.unwrap(), Created::Yes);
    let changed = opened(first.clone(), "i1");
    assert_eq!(table.save_agent(org, &changed).await.unwrap(), Saved::Lost);
    assert_eq!(table.change_agent(org, &changed, &record()).await.unwrap(), Saved::Lost);
    let gone = table.delete_agent_as_read(org, &first, None).await.unwrap();
    assert_eq!(gone, Deleted::No);
    assert_eq!(table.agent(org, &first.id).await.unwrap(), Some(second.clone()));
    let changed = opened(second, "i1");
    assert_eq!(table.save_agent(org, &changed).await.unwrap(), Saved::Yes);
}

async fn a_change_of_a_deleted_environment_does_not_write_its_successor(table: Table) {
    let (world, first) = (World::new(table).await, environment("shop", "dev"));
    let World { table, org } = world.clone();
    let mut second = environment("shop", "dev");
    second.created_at = at(1);
    table.create_environment(org, &first, &record()).await.unwrap();
    table.delete_environment(org, &first, &record()).await.unwrap();
    table.create_environment(org, &second, &record()).await.unwrap();
    let mut changed = first.clone();
    changed.version += 1;
    assert_eq!(table.save_environment(org, &changed, &record()).await.unwrap(), Saved::Lost);
    let gone = table.delete_environment(org, &first, &record()).await.unwrap();
    assert_eq!(gone, Deleted::No);
    assert_eq!(world.env("dev").await, second);
    second.version += 1;
    assert_eq!(table.save_environment(org, &second, &record()).await.unwrap(), Saved::Yes);
}

async fn a_change_of_a_deleted_event_source_does_not_write_its_successor(table: Table) {
    let (World { table, org }, first) =
        (World::new(table).await, event_sources::source("ci", "* * *"));
    let mut second = first.clone();
    second.created_at = at(1);
    table.create_event_source(org, &first, &record()).await.unwrap();
    table.delete_event_source(org, &first, &record()).await.unwrap();
    table.create_event_source(org, &second, &record()).await.unwrap();
    let mut changed = first.clone();
    changed.version += 1;
    let saved = table.save_event_source(org, &first, &changed, &record()).await.unwrap();
    assert_eq!(saved, Saved::Lost);
    let gone = table.delete_event_source(org, &first, &record()).await.unwrap();
    assert_eq!(gone, Deleted::No);
    assert_eq!(table.event_source(org, &first.id).await.unwrap(), Some(second));
}

async fn a_change_of_a_deleted_profile_does_not_write_its_successor(table: Table) {
    let (World { table, org }, first) =
        (World::new(table).await, runner_profiles::profile("small", json!({})));
    let mut second = first.clone();
    second.created_at = at(1);
    table.create_runner_profile(org, &first, &record()).await.unwrap();
    table.delete_runner_profile(org, &first.id, &record()).await.unwrap();
    table.create_runner_profile(org, &second, &record()).await.unwrap();
    let mut changed = first;
    changed.version += 1;
    assert_eq!(table.save_runner_profile(org, &changed, &record()).await.unwrap(), Saved::Lost);
    assert_eq!(table.runner_profile(org, &second.id).await.unwrap(), Some(second));
}

async fn a_change_of_a_deleted_service_account_does_not_write_its_successor(table: Table) {
    let (World { table, org }, first) = (World::new(table).await, service_accounts::account("ci"));
    let mut second = first.clone();
    second.created_at = at(1);
    table.create_service_account(org, &first, &record()).await.unwrap();
    table.delete_service_account(org, &first, &record()).await.unwrap();
    table.create_service_account(org, &second, &record()).await.unwrap();
    let mut changed = first.clone();
    changed.version += 1;
    let saved = table.save_service_account(org, first.version, &changed, &record()).await.unwrap();
    assert_eq!(saved, Saved::Lost);
    let gone = table.delete_service_account(org, &first, &record()).await.unwrap();
    assert_eq!(gone, Deleted::No);
    assert_eq!(table.service_account(org, &first.id).await.unwrap(), Some(second));
}
