//! Rate limiters that many launchers share.

use crate::world::at;
use canyon_store::Table;
use canyon_store::rate_limiter::{Bucket, Permit};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const BUCKET: Bucket = Bucket { burst: 20, per_second: 20 };
const MAX_WAIT: Duration = Duration::from_secs(2);

on_each_table!(
    a_burst_gets_permits_at_once_then_permits_follow_at_the_rate_and_the_rest_must_retry,
    of_many_concurrent_callers_no_two_get_the_same_permit,
    all_of_a_thousand_callers_get_a_permit_and_none_is_early,
    an_idle_bucket_fills_again_and_buckets_are_independent,
);

async fn acquire(table: &Table, now: Timestamp) -> Permit {
    table
        .acquire_permit("ecs-run-task/111122223333/eu-west-1", BUCKET, now, MAX_WAIT)
        .await
        .unwrap()
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

async fn a_burst_gets_permits_at_once_then_permits_follow_at_the_rate_and_the_rest_must_retry(
    table: Table,
) {
    let now = at(0);
    for _ in 0..20 {
        assert_eq!(acquire(&table, now).await, Permit::Granted(Duration::ZERO));
    }
    for n in 1..=40 {
        assert_eq!(acquire(&table, now).await, Permit::Granted(millis(50 * n)));
    }
    // Refused callers return one after the other.
    for n in 1..=5 {
        assert_eq!(acquire(&table, now).await, Permit::RetryAfter(millis(50 * (n + 1))), "{n}");
    }
}

async fn of_many_concurrent_callers_no_two_get_the_same_permit(table: Table) {
    let now = at(0);
    let permits = (0..64).map(|_| {
        let table = table.clone();
        tokio::spawn(async move { acquire(&table, now).await })
    });
    let mut waits = Vec::new();
    for permit in permits.collect::<Vec<_>>() {
        match permit.await.unwrap() {
            Permit::Granted(wait) => waits.push(wait),
            Permit::RetryAfter(wait) => assert!(wait < Duration::from_mins(1), "{wait:?}"),
        }
    }
    waits.sort();
    let at_once = waits.iter().take_while(|wait| wait.is_zero()).count();
    assert!(at_once <= 20, "{at_once}");
    assert!(waits.windows(2).skip(20).all(|two| two[0] < two[1]), "{waits:?}");
    assert!(waits.len() > 30, "only {} got a permit", waits.len());
}

/// In the order of time, like launchers that all return at their retry times.
async fn all_of_a_thousand_callers_get_a_permit_and_none_is_early(table: Table) {
    let mut waiting: BinaryHeap<_> = (0..1_000).map(|n| Reverse((at(0), n))).collect();
    let (mut calls, mut asked) = (Vec::new(), 0);
    while let Some(Reverse((now, n))) = waiting.pop() {
        asked += 1;
        match acquire(&table, now).await {
            Permit::Granted(wait) => calls.push(now + wait),
            Permit::RetryAfter(pause) => waiting.push(Reverse((now + pause, n))),
        }
    }
    calls.sort();
    assert_eq!(calls.len(), 1_000);
    // 20 at once, and then one more each 50 ms.
    for (n, call) in calls.iter().enumerate().skip(20) {
        let due = at(0) + millis(50 * (n as u64 - 19));
        assert!(*call >= due, "call {n} is early");
    }
    let last = calls[999].duration_since(at(0)).as_secs();
    assert!(last <= 55, "the last one waits {last} s");
    assert!(asked <= 3_000, "{asked} requests");
}

async fn an_idle_bucket_fills_again_and_buckets_are_independent(table: Table) {
    for _ in 0..70 {
        acquire(&table, at(0)).await;
    }
    let other = table.acquire_permit("other", BUCKET, at(0), MAX_WAIT).await.unwrap();
    assert_eq!(other, Permit::Granted(Duration::ZERO));
    for _ in 0..20 {
        assert_eq!(acquire(&table, at(60_000)).await, Permit::Granted(Duration::ZERO));
    }
    assert_eq!(acquire(&table, at(60_000)).await, Permit::Granted(millis(50)));
}
