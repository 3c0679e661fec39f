//! `EventBridge`: buses, their rules and schedules, and delivery to targets.
//!
//! moto first validates the events that the functions put; the front passes on those that moto accepted. From there on
//! this follows the documentation: patterns, input transformers, delivery at least once, the retry policy and the
//! dead-letter queue of each target. A target is reached when it accepts the event: Lambda queues events for a
//! function, so Lambda retries an error of the function itself, not `EventBridge`. A test can have events delivered
//! several times, in another order, or not at all. (`EventBridge` user guide: "Event bus concepts", "Event retry
//! policy and using dead-letter queues", "Amazon `EventBridge` input transformation", "Rules that run on a schedule".)

mod deliver;
mod event;
mod json_path;
mod rule;
mod schedule;
mod transform;

use crate::chance::{Chance, lock};
use crate::front::PutEventsHook;
use crate::stack::Rule;
use crate::target::Target;
use rule::Subscription;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How a test disturbs the deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct BusDisturbance {
    /// Each event reaches each target so many times; 1 is normal.
    pub copies: usize,
    /// Each delivery waits a random time up to this, so that they overtake each other.
    pub shuffle: Duration,
    /// The probability that an event is lost on its way to a target.
    pub drop: f64,
    /// The probability that a target cannot be reached; the retry policy then applies.
    pub unreachable: f64,
}

impl Default for BusDisturbance {
    fn default() -> Self {
        Self { copies: 1, shuffle: Duration::ZERO, drop: 0.0, unreachable: 0.0 }
    }
}

/// A published event.
#[derive(Clone, Debug)]
pub struct Published {
    /// The name of its bus.
    pub bus: String,
    /// The function that put it; none if a test or a schedule did.
    pub function: Option<String>,
    /// The event as rules see it.
    pub event: Value,
}

/// An event that could not be delivered.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The queue that got it; none if the target has none, so that it is lost.
    pub queue: Option<String>,
    /// The rule's ARN (`RULE_ARN`).
    pub rule: String,
    /// The target's ARN (`TARGET_ARN`).
    pub target: String,
    /// `ERROR_MESSAGE`.
    pub error: String,
    /// `EXHAUSTED_RETRY_CONDITION`.
    pub condition: &'static str,
    /// `RETRY_ATTEMPTS`.
    pub attempts: u32,
    /// The payload for the target.
    pub payload: Vec<u8>,
}

/// The settings of the buses.
pub struct BusSettings {
    /// The account of the stack.
    pub account: String,
    /// Its region.
    pub region: String,
    /// All rules, of all buses.
    pub rules: Vec<Rule>,
    /// The possible targets of rules, by ARN. Every target of a rule must be here.
    pub targets: BTreeMap<String, Arc<dyn Target>>,
    /// The factor by which schedules, retries and ages are shortened: 60 makes a second of a minute.
    pub scale: f64,
    /// The seed of random decisions.
    pub seed: u64,
}

/// The buses of an account. Dropping the last clone ends them.
#[derive(Clone)]
pub struct EventBus {
    shared: Arc<Shared>,
    /// Ends the schedules.
    _schedules: Arc<Schedules>,
}

struct Shared {
    account: String,
    region: String,
    scale: f64,
    chance: Chance,
    subscriptions: Vec<Subscription>,
    disturbance: Mutex<BusDisturbance>,
    archive: Mutex<Vec<Published>>,
    dead: Mutex<Vec<DeadLetter>>,
    /// Whether schedules fire at their times.
    clock: watch::Sender<bool>,
    /// The number of deliveries in progress.
    pending: watch::Sender<usize>,
}

struct Schedules(Vec<AbortHandle>);

impl Drop for Schedules {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl EventBus {
    /// Starts with schedules switched off: see `run_schedules`.
    ///
    /// # Errors
    /// If a rule cannot be implemented: an unknown pattern, schedule or input, or a missing target.
    pub fn start(settings: BusSettings) -> Result<Self, String> {
        let BusSettings { account, region, rules, targets, scale, seed } = settings;
        let subscriptions = rules.iter().filter(|rule| rule.state.as_deref() != Some("DISABLED"));
        let subscriptions =
            subscriptions.map(|rule| Subscription::read(rule, &account, &region, &targets));
        let shared = Arc::new(Shared {
            subscriptions: subscriptions.collect::<Result<_, _>>()?,
            account,
            region,
            scale,
            chance: Chance::new(seed),
            disturbance: Mutex::default(),
            archive: Mutex::default(),
            dead: Mutex::default(),
            clock: watch::Sender::new(false),
            pending: watch::Sender::new(0),
        });
        let schedules = schedule::start(&shared);
        Ok(Self { shared, _schedules: Arc::new(Schedules(schedules)) })
    }

    /// Publishes an event as another account or service does, and returns its id. Missing members of the envelope are
    /// filled in.
    pub fn put(&self, bus: &str, event: Value) -> String {
        publish(&self.shared, bus, None, event)
    }

    /// The hook for `Front::on_put_events`, through which the functions' events arrive.
    pub fn intake(&self) -> PutEventsHook {
        // The front may outlive the bus.
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        Arc::new(move |put| {
            if let Some(shared) = shared.upgrade() {
                let event = event::from_entry(&put);
                publish(&shared, &put.bus, Some(put.function), event);
            }
        })
    }

    /// Switches schedules on or off.
    pub fn run_schedules(&self, on: bool) {
        self.shared.clock.send_replace(on);
    }

    /// Fires every schedule once, now.
    pub fn fire_schedules(&self) {
        schedule::fire_all(&self.shared);
    }

    /// Applies this disturbance from now on.
    pub fn disturb(&self, disturbance: BusDisturbance) {
        *lock(&self.shared.disturbance) = disturbance;
    }

    /// Ends any disturbance.
    pub fn calm(&self) {
        self.disturb(BusDisturbance::default());
    }

    /// Every event that was published so far, delivered or not.
    pub fn archive(&self) -> Vec<Published> {
        lock(&self.shared.archive).clone()
    }

    /// The events of one detail-type that were published so far.
    pub fn published(&self, detail_type: &str) -> Vec<Value> {
        let archive = lock(&self.shared.archive);
        let found = archive.iter().filter(|one| one.event["detail-type"] == detail_type);
        found.map(|one| one.event.clone()).collect()
    }

    /// The events so far that could not be delivered.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        lock(&self.shared.dead).clone()
    }

    /// Waits until no delivery is in progress. Queues of the targets are not included.
    ///
    /// # Errors
    /// If some still are after `limit`.
    pub async fn settled(&self, limit: Duration) -> Result<(), String> {
        let mut pending = self.shared.pending.subscribe();
        let none = pending.wait_for(|count| *count == 0);
        match tokio::time::timeout(limit, none).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("after {limit:?} deliveries are still under way")),
        }
    }
}

/// Archives an event and gives it to each rule of its bus.
fn publish(shared: &Arc<Shared>, bus: &str, function: Option<String>, event: Value) -> String {
    let bus = rule::bus_name(bus).to_owned();
    let event = event::complete(event, &shared.account, &shared.region);
    let id = event["id"].as_str().unwrap_or_default().to_owned();
    for subscription in &shared.subscriptions {
        if subscription.takes(&bus, &event) {
            deliver::to_all(shared, subscription, &event);
        }
    }
    lock(&shared.archive).push(Published { bus, function, event });
    id
}

#[cfg(test)]
mod tests;
