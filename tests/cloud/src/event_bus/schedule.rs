//! Rules with a schedule.

use super::rule::Subscription;
use super::{Shared, deliver, event};
use crate::chance::lock;
use serde_json::json;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Parses `rate(1 minute)`, `rate(5 minutes)`, `hour`, `day`. Anything else is refused.
pub(super) fn read(expression: &str) -> Result<Duration, String> {
    let wrong = || format!("the schedule `{expression}` is not `rate(...)`");
    let inner = expression.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
    let (count, unit) = inner.and_then(|inner| inner.split_once(' ')).ok_or_else(wrong)?;
    let count: u64 = count.parse().map_err(|_| wrong())?;
    // "For a value of 1 the unit is singular, for others plural."
    let seconds = match (count, unit) {
        (1, "minute") | (2.., "minutes") => 60,
        (1, "hour") | (2.., "hours") => 3_600,
        (1, "day") | (2.., "days") => 86_400,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(count * seconds))
}

pub(super) fn start(shared: &Arc<Shared>) -> Vec<AbortHandle> {
    let subscriptions = shared.subscriptions.iter().enumerate();
    let scheduled = subscriptions.filter_map(|(at, one)| one.every.map(|every| (at, every)));
    scheduled
        .map(|(at, every)| {
            let every = every.div_f64(shared.scale.max(1.0));
            tokio::spawn(run(Arc::downgrade(shared), at, every)).abort_handle()
        })
        .collect()
}

async fn run(shared: Weak<Shared>, at: usize, every: Duration) {
    let Some(mut clock) = shared.upgrade().map(|shared| shared.clock.subscribe()) else { return };
    loop {
        if clock.wait_for(|on| *on).await.is_err() {
            return;
        }
        tokio::time::sleep(every).await;
        let Some(shared) = shared.upgrade() else { return };
        if *shared.clock.borrow() {
            fire(&shared, &shared.subscriptions[at]);
        }
    }
}

pub(super) fn fire_all(shared: &Arc<Shared>) {
    shared.subscriptions.iter().filter(|one| one.every.is_some()).for_each(|one| fire(shared, one));
}

fn fire(shared: &Arc<Shared>, subscription: &Subscription) {
    let event = json!({
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "resources": [subscription.arn],
    });
    let event = event::complete(event, &shared.account, &shared.region);
    deliver::to_all(shared, subscription, &event);
    let published = super::Published { bus: "default".to_owned(), function: None, event };
    lock(&shared.archive).push(published);
}
