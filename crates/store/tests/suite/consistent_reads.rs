//! A read returns an item as it is when it is read, whatever was read before.

use crate::world::{at, record};
use canyon_domain::concurrency::{ConcurrencyLimit, LimitScope};
use canyon_domain::ids::OrgUuid;
use canyon_store::Table;
use canyon_store::outcome::Deleted;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

on_each_table!(
    what_was_written_or_deleted_is_read_at_once,
    no_reader_sees_an_older_value_than_was_acknowledged_or_read_before,
);

const SCOPE: LimitScope = LimitScope::Organization;
const WRITES: u32 = 300;
const READERS: usize = 4;

fn limit(max_jobs: u32) -> ConcurrencyLimit {
    ConcurrencyLimit { scope: SCOPE, max_jobs, updated_at: at(0) }
}

async fn value(table: &Table, org: OrgUuid) -> Option<u32> {
    table.limit(org, &SCOPE).await.unwrap().map(|limit| limit.max_jobs)
}

async fn what_was_written_or_deleted_is_read_at_once(table: Table) {
    let org = OrgUuid(Uuid::now_v7());
    let twice = async || (value(&table, org).await, value(&table, org).await);
    for number in 1..=20 {
        assert_eq!(twice().await, (None, None));
        table.set_limit(org, &limit(number), &record()).await.unwrap();
        assert_eq!(twice().await, (Some(number), Some(number)));
        let deleted = table.delete_limit(org, &SCOPE, &record()).await.unwrap();
        assert_eq!(deleted, Deleted::Yes);
    }
}

async fn no_reader_sees_an_older_value_than_was_acknowledged_or_read_before(table: Table) {
    let org = OrgUuid(Uuid::now_v7());
    table.set_limit(org, &limit(1), &record()).await.unwrap();
    let acknowledged = Arc::new(AtomicU32::new(1));
    let readers: Vec<_> = (0..READERS)
        .map(|_| tokio::spawn(read_until_the_last(table.clone(), org, acknowledged.clone())))
        .collect();
    for number in 2..=WRITES {
        table.set_limit(org, &limit(number), &record()).await.unwrap();
        acknowledged.store(number, Ordering::SeqCst);
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

async fn read_until_the_last(table: Table, org: OrgUuid, acknowledged: Arc<AtomicU32>) {
    let mut seen = 0;
    while seen < WRITES {
        let least = seen.max(acknowledged.load(Ordering::SeqCst));
        seen = value(&table, org).await.unwrap();
        assert!(seen >= least, "read {seen} after {least}");
    }
}
