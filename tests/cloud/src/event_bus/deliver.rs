//! Delivers an event to the targets of a rule.

use super::rule::{Destination, Subscription};
use super::transform::Origin;
use super::{DeadLetter, Shared};
use crate::chance::lock;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first pause after a target could not be reached; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// One event on its way to one target.
struct Delivery {
    rule: String,
    destination: Arc<Destination>,
    payload: Vec<u8>,
    since: Instant,
}

/// Starts a delivery to each target, and further copies if the test wants them.
pub(super) fn to_all(shared: &Arc<Shared>, subscription: &Subscription, event: &Value) {
    let disturbance = lock(&shared.disturbance).clone();
    let origin = Origin { rule_arn: &subscription.arn, rule_name: &subscription.name };
    for destination in &subscription.targets {
        for _ in 0..disturbance.copies {
            if shared.chance.happens(disturbance.drop) {
                continue;
            }
            let delivery = Delivery {
                rule: subscription.arn.clone(),
                destination: destination.clone(),
                payload: destination.input.payload(event, &origin),
                since: Instant::now(),
            };
            let wait = shared.chance.up_to(disturbance.shuffle);
            shared.pending.send_modify(|count| *count += 1);
            tokio::spawn(run(shared.clone(), delivery, wait));
        }
    }
}

async fn run(shared: Arc<Shared>, delivery: Delivery, wait: Duration) {
    // This also runs if the target panics.
    let _done = Done(shared.clone());
    tokio::time::sleep(wait).await;
    let retry = delivery.destination.retry;
    let age = Duration::from_secs(retry.maximum_event_age_in_seconds.into());
    let (mut attempts, mut pause) = (0, FIRST_PAUSE);
    let (error, condition) = loop {
        let unreachable = lock(&shared.disturbance).unreachable;
        let reached = if shared.chance.happens(unreachable) {
            Err("the target could not be reached".to_owned())
        } else {
            let answer = delivery.destination.target.invoke(delivery.payload.clone()).await;
            answer.map_err(|error| error.to_string())
        };
        let Err(error) = reached else { return };
        attempts += 1;
        if attempts > retry.maximum_retry_attempts {
            break (error, "MaximumRetryAttempts");
        }
        tokio::time::sleep(scaled(&shared, pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        if delivery.since.elapsed() > scaled(&shared, age) {
            break (error, "MaximumEventAgeInSeconds");
        }
    };
    lock(&shared.dead).push(DeadLetter {
        queue: delivery.destination.queue.clone(),
        rule: delivery.rule,
        target: delivery.destination.arn.clone(),
        error,
        condition,
        attempts,
        payload: delivery.payload,
    });
}

fn scaled(shared: &Shared, time: Duration) -> Duration {
    time.div_f64(shared.scale.max(1.0))
}

struct Done(Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.pending.send_modify(|count| *count -= 1);
    }
}
