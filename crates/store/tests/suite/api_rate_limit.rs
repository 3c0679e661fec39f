//! Rate limits of the API.

use crate::world::at;
use canyon_store::Table;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use std::time::Duration;

const ALLOWANCE: RateLimit = RateLimit { burst: 2, interval: Duration::from_secs(10) };

on_each_table!(
    a_refusal_uses_nothing_and_is_counted_only_on_request,
    concurrent_calls_are_allowed_up_to_the_burst,
    returned_units_can_be_used_again,
);

async fn a_refusal_uses_nothing_and_is_counted_only_on_request(table: Table) {
    let allow = async |second| table.allow("a", ALLOWANCE, at(second)).await.unwrap();
    let count =
        async |second| table.allow_and_count_refusals("b", ALLOWANCE, at(second)).await.unwrap();
    let yes = |refusals| Decision::Allowed { refusals };
    for _ in 0..2 {
        assert_eq!((allow(0).await, count(0).await), (yes(0), yes(0)));
    }
    for second in 1..10 {
        let later = Decision::RetryAfter(Duration::from_secs(10 - second));
        let second = i64::try_from(second).unwrap();
        assert_eq!((allow(second).await, count(second).await), (later, later), "{second}");
    }
    assert_eq!((allow(10).await, count(10).await), (yes(0), yes(9)));
    assert_eq!(count(20).await, yes(0), "the last answer reset the count");
}

async fn returned_units_can_be_used_again(table: Table) {
    let hundred = RateLimit { burst: 100, interval: Duration::from_secs(1) };
    let ask = async |units| table.allow_units("c", hundred, units, at(0)).await.unwrap();
    assert_eq!(
        ask(101).await,
        Decision::RetryAfter(Duration::from_secs(1)),
        "more than the burst is never allowed"
    );
    assert_eq!(ask(60).await, Decision::Allowed { refusals: 0 });
    assert_eq!(ask(60).await, Decision::RetryAfter(Duration::from_secs(20)));
    table.return_units("c", hundred, 20, at(0)).await.unwrap();
    assert_eq!(ask(60).await, Decision::Allowed { refusals: 0 });
    table.return_units("c", hundred, 500, at(0)).await.unwrap();
    assert_eq!(
        ask(101).await,
        Decision::RetryAfter(Duration::from_secs(1)),
        "a return never exceeds the burst"
    );
    table.return_units("unknown", hundred, 1, at(0)).await.unwrap();
}

async fn concurrent_calls_are_allowed_up_to_the_burst(table: Table) {
    let burst = RateLimit { burst: 12, interval: Duration::from_secs(10) };
    let all = (0..16).map(|_| {
        let table = table.clone();
        tokio::spawn(async move { table.allow("a", burst, at(0)).await.unwrap() })
    });
    let mut allowed = 0;
    for one in all.collect::<Vec<_>>() {
        allowed += usize::from(matches!(one.await.unwrap(), Decision::Allowed { .. }));
    }
    assert_eq!(allowed, 12, "concurrency alone causes no refusal");
}
