//! The retention setting, and the removal of what is older.

use crate::world::{World, at, bundle, environment, everything, queued, record, record_at, uuid};
use canyon_domain::attempt::Outcome;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::lifecycle;
use canyon_domain::retention::{Progress, Retention, RetentionSetting};
use canyon_store::Table;
use canyon_store::blob_keys::{BlobKey, Stream};
use canyon_store::blobs::Blobs;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployment_removal::RunList;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::outcome::{Deleted, Saved};
use canyon_store::page::PageRequest;
use canyon_store::usage::Counted;
use jiff::Timestamp;
use std::collections::HashSet;
use uuid::Uuid;

on_each_table!(
    a_setting_is_written_once_for_each_version_and_found_when_it_is_due,
    the_oldest_deployments_are_walked_in_order_and_only_to_the_limit,
    a_removed_deployment_leaves_no_item_and_is_in_no_list,
    audit_records_are_removed_from_the_oldest_on_across_months_and_only_before_the_limit,
    what_is_stored_is_counted_with_the_oldest,
);

fn setting(version: u64, due: i64) -> RetentionSetting {
    RetentionSetting {
        retention: Retention { deployments_days: Some(30), ..Retention::default() },
        created_at: at(0),
        updated_at: at(0),
        due_at: at(due),
        progress: Progress::default(),
        version,
    }
}

async fn a_setting_is_written_once_for_each_version_and_found_when_it_is_due(table: Table) {
    let orgs = [(); 3].map(|()| OrgUuid(Uuid::now_v7()));
    for (n, org) in (0..).zip(orgs) {
        let record = record();
        assert_eq!(
            table.save_retention(org, &setting(1, n), Some(&record)).await.unwrap(),
            Saved::Yes
        );
        assert_eq!(table.save_retention(org, &setting(1, n), None).await.unwrap(), Saved::Lost);
        assert_eq!(table.save_retention(org, &setting(3, n), None).await.unwrap(), Saved::Lost);
        assert_eq!(table.retention(org).await.unwrap(), Some(setting(1, n)));
    }
    assert_eq!(table.due_retentions(at(1)).await.unwrap(), orgs[..2]);
    assert_eq!(table.save_retention(orgs[0], &setting(2, 9), None).await.unwrap(), Saved::Yes);
    assert_eq!(table.due_retentions(at(1)).await.unwrap(), orgs[1..2]);
    for deleted in [Deleted::Yes, Deleted::No] {
        let record = record_at(at(5));
        assert_eq!(table.delete_retention(orgs[1], &record).await.unwrap(), deleted);
    }
    assert_eq!(table.due_retentions(at(1)).await.unwrap(), []);
    assert_eq!(table.retention(orgs[1]).await.unwrap(), None);
    // One that was created anew is another, although it has the same version.
    let anew = RetentionSetting { created_at: at(7), ..setting(1, 0) };
    table.save_retention(orgs[1], &anew, None).await.unwrap();
    assert_eq!(table.save_retention(orgs[1], &setting(2, 0), None).await.unwrap(), Saved::Lost);
}

/// A deployment of each second, accepted into an environment of its own.
async fn accepted(world: &World, seconds: &[i64]) -> Vec<Deployment> {
    let mut all = Vec::new();
    for second in seconds {
        let env = environment("shop", &format!("env-{second}"));
        world.table.create_environment(world.org, &env, &record_at(at(*second))).await.unwrap();
        let deployment = queued(&env, *second);
        world.accept(&deployment).await;
        all.push(deployment);
    }
    all
}

async fn the_oldest_deployments_are_walked_in_order_and_only_to_the_limit(table: Table) {
    const LIST: RunList = RunList::Deployments;
    let world = World::new(table).await;
    let all = accepted(&world, &[1, 2, 3, 4]).await;
    let ids: Vec<_> = all.iter().map(|deployment| deployment.id).collect();
    let oldest = async |after: Option<DeploymentId>, before: i64, limit| {
        world.table.oldest_deployments(world.org, LIST, after, at(before), limit).await.unwrap()
    };
    assert_eq!(oldest(None, 9, 3).await, ids[..3]);
    assert_eq!(oldest(Some(ids[2]), 9, 3).await, ids[3..]);
    assert_eq!(oldest(None, 3, 9).await, ids[..2], "only from before the limit");
    assert_eq!(
        oldest(Some(ids[3]), 3, 9).await,
        [],
        "it has gone beyond a limit that is earlier now"
    );
    // The one to continue after may be removed by then.
    let gone = DeploymentId(uuid(at(1) + std::time::Duration::from_millis(500)));
    assert_eq!(oldest(Some(gone), 9, 9).await, ids[1..]);
    let other = OrgUuid(Uuid::now_v7());
    assert_eq!(world.table.oldest_deployments(other, LIST, None, at(9), 9).await.unwrap(), []);
}

async fn a_removed_deployment_leaves_no_item_and_is_in_no_list(table: Table) {
    let world = World::new(table).await;
    let World { table, org } = &world;
    let all = accepted(&world, &[1, 2]).await;
    let before = everything(table).await.len();
    let (gone, stays) = (all[0].id, all[1].id);
    let mut deployment = world.launch(gone, at(2)).await.unwrap();
    let failure = Failure { class: FailureClass::User, message: "no".to_owned() };
    lifecycle::end(&mut deployment, 1, Outcome::Failed(failure), at(3)).unwrap();
    deployment.version += 1;
    assert_eq!(deployment.status, Status::Failed);
    table.end_deployment(*org, &deployment, at(3), None).await.unwrap();
    assert_eq!(everything(table).await.len(), before + 1, "its entry in the list of failed ones");

    let stale = Deployment { version: deployment.version - 1, ..deployment.clone() };
    assert_eq!(table.remove_deployment(*org, &stale).await.unwrap(), Deleted::No);
    assert!(table.bundle(*org, gone).await.unwrap().is_some());
    for deleted in [Deleted::Yes, Deleted::No] {
        assert_eq!(table.remove_deployment(*org, &deployment).await.unwrap(), deleted);
    }
    assert_eq!(table.deployment(*org, gone).await.unwrap(), None);
    assert_eq!(table.bundle(*org, gone).await.unwrap(), None);
    assert_eq!(everything(table).await.len(), before - 2, "deployment, bundle and entry are gone");
    let page = PageRequest { limit: 10, after: None };
    let listed = table.deployments(*org, &DeploymentFilter::All, &page).await.unwrap();
    assert_eq!(listed.items.iter().map(|one| one.id).collect::<Vec<_>>(), [stays]);
    let failed = DeploymentSearch {
        status: Some(Status::Failed),
        lists_ends: true,
        ..DeploymentSearch::of(DeploymentFilter::All)
    };
    let failed = table.search_deployments(*org, &failed, &page).await.unwrap();
    assert_eq!((failed.items.len(), failed.next), (0, None));
    assert_eq!(table.bundle(*org, stays).await.unwrap(), Some(bundle()));
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Writes an audit record of each of these times.
async fn recorded(table: &Table, org: OrgUuid, times: &[&str]) {
    for (n, at) in (1..).zip(times) {
        let record = AuditRecord { id: uuid(time(at)), ..record_at(time(at)) };
        let done = table.save_retention(org, &setting(n, 0), Some(&record)).await.unwrap();
        assert_eq!(done, Saved::Yes);
    }
}

const TIMES: [&str; 7] = [
    "2025-11-30T23:59:59.999Z",
    "2025-12-01T00:00:00Z",
    "2025-12-31T23:59:59Z",
    "2026-02-01T00:00:00Z", // nothing in January
    "2026-02-10T00:00:00Z",
    "2026-02-10T00:00:00.001Z",
    "2026-03-01T00:00:00Z",
];

async fn audit_records_are_removed_from_the_oldest_on_across_months_and_only_before_the_limit(
    table: Table,
) {
    let [org, other] = [(); 2].map(|()| OrgUuid(Uuid::now_v7()));
    recorded(&table, org, &TIMES).await;
    recorded(&table, other, &TIMES).await;
    let count = async |org| {
        let (created, now) = (time(TIMES[0]), time("2026-04-01T00:00:00Z"));
        table.count_audit_records(org, created, now, None).await.unwrap().count
    };
    let limit = time("2026-02-10T00:00:00.001Z");
    let (mut from, mut left) = (time("2025-11-05T00:00:00Z"), 7);
    for removed in [2, 2, 1] {
        let done = table.remove_audit_records(org, from, limit, 2).await.unwrap();
        assert_eq!((done.removed, done.is_complete), (removed, removed == 1), "{done:?}");
        (from, left) = (done.from, left - removed as u64);
        assert_eq!(count(org).await, left);
    }
    assert_eq!(from, time("2026-02-01T00:00:00Z"), "the month that still has records");
    let again = table.remove_audit_records(org, from, limit, 2).await.unwrap();
    assert_eq!((again.removed, again.is_complete), (0, true));
    assert_eq!((count(org).await, count(other).await), (2, 7));
    // A long time without records is searched in several calls.
    let (mut from, mut calls) = (time("2016-01-01T00:00:00Z"), 0);
    loop {
        let done = table.remove_audit_records(org, from, limit, 2).await.unwrap();
        calls += 1;
        assert!(done.from > from && done.removed == 0, "{done:?}");
        if done.is_complete {
            break;
        }
        from = done.from;
    }
    assert_eq!(calls, 6, "121 months, at most 24 a call");
}

async fn what_is_stored_is_counted_with_the_oldest(table: Table) {
    let world = World::new(table).await;
    let World { table, org } = &world;
    let empty = table.count_deployments(*org, Some(at(9))).await.unwrap();
    assert_eq!(empty, Counted { is_complete: true, ..Counted::default() });
    let all = accepted(&world, &[1, 2, 3]).await;
    let millis = |at: Timestamp| Timestamp::from_millisecond(at.as_millisecond()).unwrap();
    let counted = table.count_deployments(*org, Some(at(3))).await.unwrap();
    let oldest = Some(millis(at(1)));
    assert_eq!(counted, Counted { count: 3, older: 2, oldest, is_complete: true });
    assert_eq!(table.first_environments(*org).await.unwrap().len(), 3);
    let records = table.count_audit_records(*org, at(0), at(99), Some(at(2))).await.unwrap();
    // Three of the organization, and two for each environment with its deployment.
    assert_eq!((records.count, records.older), (9, 5), "{records:?}");

    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(folder.path()).unwrap();
    for (deployment, sizes) in all.iter().zip([[10, 1], [20, 2]]) {
        for (stream, size) in [Stream::Log, Stream::Events].into_iter().zip(sizes) {
            let key = BlobKey::chunk(*org, deployment.id, stream, 0);
            blobs.put_if_absent(&key, vec![b'x'; size].into()).await.unwrap();
        }
        let outputs = BlobKey::outputs(*org, deployment.id, 1);
        blobs.put_if_absent(&outputs, vec![b'x'; 500].into()).await.unwrap();
    }
    let logs = blobs.stored_logs(*org).await.unwrap();
    assert_eq!(logs.bytes.values().copied().collect::<Vec<_>>(), [11, 22]);
    assert!(logs.is_complete);
    let needed = HashSet::from([all[0].id]);
    assert_eq!(logs.older(Some(at(3)), &HashSet::new()), (2, 33));
    assert_eq!(logs.older(Some(at(3)), &needed), (1, 22));
    assert_eq!(logs.older(Some(millis(at(2))), &needed), (0, 0));
    assert_eq!(logs.older(None, &HashSet::new()), (0, 0));
    let other = OrgUuid(Uuid::now_v7());
    assert!(blobs.stored_logs(other).await.unwrap().bytes.is_empty());
}

#[tokio::test]
async fn the_objects_of_a_deployment_are_removed_in_parts_and_nothing_beside() {
    const CHUNKS: u64 = 1_100;
    let folder = tempfile::tempdir().unwrap();
    for blobs in [
        Blobs::folder(folder.path()).unwrap(),
        Blobs::new(std::sync::Arc::new(object_store::memory::InMemory::new())),
    ] {
        let org = OrgUuid(Uuid::now_v7());
        let [gone, stays] = [1, 2].map(|n| DeploymentId(Uuid::from_u128(n)));
        for id in [gone, stays] {
            for offset in 0..CHUNKS {
                let key = BlobKey::chunk(org, id, Stream::Log, offset);
                blobs.put_if_absent(&key, "x".into()).await.unwrap();
            }
            let others = [
                BlobKey::chunk(org, id, Stream::Events, 0),
                BlobKey::outputs(org, id, 1),
                BlobKey::orphans(org, id, 1),
            ];
            for key in others {
                blobs.put_if_absent(&key, "x".into()).await.unwrap();
            }
        }
        let archive = BlobKey::archive(org, &"ab".repeat(32).parse().unwrap());
        blobs.put_if_absent(&archive, "x".into()).await.unwrap();
        let sizes = async |id| {
            let bytes = blobs.stored_logs(org).await.unwrap().bytes;
            bytes.get(&id).copied().unwrap_or_default()
        };
        assert!(!blobs.remove_streams(org, gone).await.unwrap(), "a part is left");
        assert_eq!(sizes(gone).await, CHUNKS - 1_000);
        assert!(blobs.remove_streams(org, gone).await.unwrap());
        assert_eq!(sizes(gone).await, 0);
        assert!(blobs.get(&BlobKey::outputs(org, gone, 1)).await.unwrap().is_some());
        for _ in 0..2 {
            assert!(blobs.remove_of_deployment(org, gone).await.unwrap());
            assert_eq!(blobs.get(&BlobKey::outputs(org, gone, 1)).await.unwrap(), None);
            assert_eq!(blobs.get(&BlobKey::orphans(org, gone, 1)).await.unwrap(), None);
        }
        assert_eq!(sizes(stays).await, CHUNKS + 1);
        assert!(blobs.get(&BlobKey::outputs(org, stays, 1)).await.unwrap().is_some());
        assert!(blobs.get(&archive).await.unwrap().is_some());
    }
}
