//! Schedules: their conditional writes, the index of what is due and what a pass costs, and their end with the environment.

use crate::world::{World, at, id, principal, race, raw, record, record_at};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use canyon_domain::ids::{EnvUuid, OrgUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::Role;
use canyon_domain::schedule::{
    Author, OnMissed, RunResult, Schedule, ScheduleSettings, ScheduledWork, Times,
};
use canyon_store::meter::Meter;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use canyon_store::table::{PK, SK};
use canyon_store::{Table, keys};
use uuid::Uuid;

on_each_table!(
    a_schedule_is_created_changed_and_deleted_once_for_each_version,
    what_is_due_is_found_the_longest_due_first_and_only_to_the_limit,
    ten_thousand_schedules_that_are_not_due_cost_one_request,
    of_two_that_take_the_same_due_time_one_moves_it_on,
    an_environment_takes_its_schedules_with_it_and_no_others,
    an_expired_schedule_is_not_due,
    a_schedule_is_due_by_its_next_announcement_and_then_by_its_due_time,
);

/// A schedule whose first due time is at this second.
pub(crate) fn schedule(env: EnvUuid, name: &str, due: i64) -> Schedule {
    let settings = ScheduleSettings {
        work: ScheduledWork::Deploy { spec: Some("{\"module\": 1e400}".to_owned()) },
        times: Times::Every { seconds: 300, from: at(due - 300) },
        enabled: true,
        on_missed: OnMissed::Skip,
    };
    let author = Author { id: principal(), role: Role::Viewer, scoped_roles: Vec::new() };
    let place = (id("acme"), id("shop"), id("dev"), env);
    Schedule::new(id(name), place, settings, author, at(due - 1))
}

fn env_uuid() -> EnvUuid {
    EnvUuid(Uuid::now_v7())
}

async fn due(table: &Table, second: i64, limit: u16) -> Vec<String> {
    let found = table.due_schedules(at(second), limit).await.unwrap();
    found.into_iter().map(|one| one.id.to_string()).collect()
}

async fn a_schedule_is_created_changed_and_deleted_once_for_each_version(table: Table) {
    let (org, env) = (OrgUuid(Uuid::now_v7()), env_uuid());
    let first = schedule(env, "nightly", 1_000);
    assert_eq!(table.create_schedule(org, &first, &record()).await.unwrap(), Created::Yes);
    assert_eq!(table.create_schedule(org, &first, &record()).await.unwrap(), Created::Exists);
    assert_eq!(table.schedule(org, env, &first.id).await.unwrap().as_ref(), Some(&first));
    assert_eq!(table.schedule(org, env_uuid(), &first.id).await.unwrap(), None);
    let second = Schedule { version: 2, ..first.clone() };
    let third = Schedule { version: 3, ..first.clone() };
    assert_eq!(table.save_schedule(org, &third, None).await.unwrap(), Saved::Lost);
    assert_eq!(table.save_schedule(org, &second, Some(&record())).await.unwrap(), Saved::Yes);
    assert_eq!(table.save_schedule(org, &second, None).await.unwrap(), Saved::Lost);
    assert_eq!(table.delete_schedule(org, &first, &record()).await.unwrap(), Deleted::No);
    assert_eq!(table.delete_schedule(org, &second, &record()).await.unwrap(), Deleted::Yes);
    assert_eq!(table.schedule(org, env, &first.id).await.unwrap(), None);
    // One that is created anew is another, although it has the same version.
    let anew = Schedule { created_at: at(7), ..first };
    table.create_schedule(org, &anew, &record_at(at(8))).await.unwrap();
    assert_eq!(table.save_schedule(org, &second, None).await.unwrap(), Saved::Lost);
}

async fn what_is_due_is_found_the_longest_due_first_and_only_to_the_limit(table: Table) {
    let orgs = [(); 2].map(|()| OrgUuid(Uuid::now_v7()));
    let env = env_uuid();
    for (org, name, second) in
        [(orgs[0], "third", 30), (orgs[1], "first", 10), (orgs[0], "second", 20)]
    {
        let one = schedule(env, name, second);
        table.create_schedule(org, &one, &record()).await.unwrap();
    }
    assert_eq!(due(&table, 9, 10).await, [""; 0]);
    assert_eq!(due(&table, 20, 10).await, ["first", "second"]);
    assert_eq!(due(&table, 99, 2).await, ["first", "second"]);
    let found = table.due_schedules(at(10), 10).await.unwrap();
    assert_eq!((found[0].org, found[0].env), (orgs[1], env));
    let mut first = table.schedule(orgs[1], env, &id("first")).await.unwrap().unwrap();
    first.record(at(10), RunResult::Missed, at(10));
    assert_eq!(table.save_schedule(orgs[1], &first, None).await.unwrap(), Saved::Yes);
    assert_eq!(due(&table, 99, 10).await, ["second", "third"]);
    let all = table.schedules(orgs[0], env, &PageRequest { limit: 10, after: None }).await.unwrap();
    let ids: Vec<_> = all.items.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["second", "third"]);
}

async fn ten_thousand_schedules_that_are_not_due_cost_one_request(table: Table) {
    let (org, env) = (OrgUuid(Uuid::now_v7()), env_uuid());
    let one = schedule(env, "later", 5_000);
    table.create_schedule(org, &one, &record()).await.unwrap();
    let item = raw(&table, &keys::schedule(org, env, &one.id)).await;
    for batch in 0..400_u128 {
        let puts = (0..25_u128).map(|n| {
            let env = EnvUuid(Uuid::from_u128(batch * 25 + n));
            let mut item = item.clone();
            let key = keys::schedule(org, env, &one.id);
            item.insert(PK.to_owned(), AttributeValue::S(key.pk));
            item.insert(SK.to_owned(), AttributeValue::S(key.sk));
            let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        });
        let request = table.client().batch_write_item();
        request.request_items(table.name(), puts.collect()).send().await.unwrap();
    }
    let meter = Meter::default();
    let watched = meter.watch(&table);
    assert_eq!(due(&watched, 4_999, 50).await, [""; 0]);
    let reading = meter.take();
    assert_eq!(reading.requests(), 1, "{reading:?}");
    assert_eq!(due(&watched, 5_000, 50).await.len(), 50);
}

async fn of_two_that_take_the_same_due_time_one_moves_it_on(table: Table) {
    let (org, env) = (OrgUuid(Uuid::now_v7()), env_uuid());
    let one = schedule(env, "nightly", 1_000);
    table.create_schedule(org, &one, &record()).await.unwrap();
    let taken = race(|_| {
        let (table, mut one) = (table.clone(), one.clone());
        async move {
            one.record(at(1_000), RunResult::Missed, at(1_001));
            table.save_schedule(org, &one, None).await.unwrap()
        }
    })
    .await;
    assert_eq!(crate::world::count(&taken, &Saved::Yes), 1, "{taken:?}");
    assert_eq!(due(&table, 1_299, 10).await, [""; 0]);
    assert_eq!(due(&table, 1_300, 10).await, ["nightly"]);
}

async fn an_environment_takes_its_schedules_with_it_and_no_others(table: Table) {
    let (world, env): (World, Environment) = World::with_dev(table).await;
    let (table, org) = (&world.table, world.org);
    let other = env_uuid();
    for (env, name) in [(env.uuid, "one"), (env.uuid, "two"), (other, "kept")] {
        table.create_schedule(org, &schedule(env, name, 1_000), &record()).await.unwrap();
    }
    assert_eq!(table.delete_environment(org, &env, &record()).await.unwrap(), Deleted::Yes);
    assert_eq!(table.all_schedules(org, env.uuid).await.unwrap(), []);
    assert_eq!(due(table, 1_000, 10).await, ["kept"]);
}

async fn an_expired_schedule_is_not_due(table: Table) {
    let (org, env) = (OrgUuid(Uuid::now_v7()), env_uuid());
    let mut one = schedule(env, "nightly", 1_000);
    table.create_schedule(org, &one, &record()).await.unwrap();
    one.due_at = None;
    one.version += 1;
    assert_eq!(table.expire_schedule(org, &one, at(1_000)).await.unwrap(), Saved::Yes);
    assert_eq!(table.expire_schedule(org, &one, at(1_000)).await.unwrap(), Saved::Lost);
    assert_eq!(due(&table, 9_000, 10).await, [""; 0]);
}

async fn a_schedule_is_due_by_its_next_announcement_and_then_by_its_due_time(table: Table) {
    let (org, env) = (OrgUuid(Uuid::now_v7()), env_uuid());
    let one = Schedule { next_announcement: Some(at(400)), ..schedule(env, "friday", 4_000) };
    table.create_schedule(org, &one, &record()).await.unwrap();
    assert_eq!(due(&table, 399, 10).await, [""; 0]);
    assert_eq!(due(&table, 400, 10).await, ["friday"]);
    // Of two processes that have published the announcement, one writes.
    let taken = race(|_| {
        let (table, mut one) = (table.clone(), one.clone());
        async move {
            one.record_announcement(at(401));
            table.save_schedule(org, &one, None).await.unwrap()
        }
    })
    .await;
    assert_eq!(crate::world::count(&taken, &Saved::Yes), 1, "{taken:?}");
    assert_eq!(due(&table, 3_999, 10).await, [""; 0]);
    assert_eq!(due(&table, 4_000, 10).await, ["friday"]);
}
