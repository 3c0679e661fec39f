//! `EventBridge`: buses, their rules and schedules, and delivery to targets.
//!
//! What the functions put is checked by moto first; the front hands over what it took. From there on this
//! follows the documentation: patterns, input transformers, delivery at least once, the retry policy and the
//! dead-letter queue of each target. A target is reached when it accepts the event: Lambda queues events for
//! a function, so an error of the function itself is Lambda's to repeat, not `EventBridge`'s. A test can have
//! events delivered several times, in another order, or not at all.
//! (`EventBridge` user guide: "Event bus concepts", "Event retry policy and using dead-letter queues", "Amazon
//! `EventBridge` input transformation", "Rules that run on a schedule".)

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

/// What a test does to the deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct BusDisturbance {
    /// Each event reaches each target so many times; 1 is normal.
    pub copies: usize,
    /// Each delivery waits a random time up to this, so that they overtake each other.
    pub shuffle: Duration,
    /// How often an event is lost on the way to a target.
    pub drop: f64,
    /// How often a target cannot be reached: then the retry policy says what happens.
    pub unreachable: f64,
}

impl Default for BusDisturbance {
    fn default() -> Self {
        Self { copies: 1, shuffle: Duration::ZERO, drop: 0.0, unreachable: 0.0 }
    }
}

/// An event that was published.
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
    /// What the target would have got.
    pub payload: Vec<u8>,
}

/// What a bus runs with.
pub struct BusSettings {
    /// The account of the stack.
    pub account: String,
    /// Its region.
    pub region: String,
    /// All rules, of all buses.
    pub rules: Vec<Rule>,
    /// Whom rules can call, by ARN. Every target of a rule must be here.
    pub targets: BTreeMap<String, Arc<dyn Target>>,
    /// By how much schedules, retries and ages are shortened: 60 makes a second of a minute.
    pub scale: f64,
    /// For chance.
    pub seed: u64,
}

/// The buses of an account. They end with the last clone.
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
    /// Whether schedules fire by themselves.
    clock: watch::Sender<bool>,
    /// Deliveries under way.
    pending: watch::Sender<usize>,
}

struct Schedules(Vec<AbortHandle>);

impl Drop for Schedules {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl EventBus {
    /// Starts with schedules at rest: see `run_schedules`.
    ///
    /// # Errors
    /// If a rule cannot be played: a pattern, schedule or input that is not known here, or a target that is not there.
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

    /// Publishes an event as another account or service does, and gives its id. Members of the envelope that are
    /// missing are filled in.
    pub fn put(&self, bus: &str, event: Value) -> String {
        publish(&self.shared, bus, None, event)
    }

    /// For `Front::on_put_events`: what the functions put comes in by this.
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

    /// Lets schedules fire by themselves, or no longer.
    pub fn run_schedules(&self, on: bool) {
        self.shared.clock.send_replace(on);
    }

    /// Fires every schedule once, now.
    pub fn fire_schedules(&self) {
        schedule::fire_all(&self.shared);
    }

    /// From now on like this.
    pub fn disturb(&self, disturbance: BusDisturbance) {
        *lock(&self.shared.disturbance) = disturbance;
    }

    /// From now on as AWS does on a good day.
    pub fn calm(&self) {
        self.disturb(BusDisturbance::default());
    }

    /// Everything that was published so far, whatever became of it.
    pub fn archive(&self) -> Vec<Published> {
        lock(&self.shared.archive).clone()
    }

    /// The events of one detail-type that were published so far.
    pub fn published(&self, detail_type: &str) -> Vec<Value> {
        let archive = lock(&self.shared.archive);
        let found = archive.iter().filter(|one| one.event["detail-type"] == detail_type);
        found.map(|one| one.event.clone()).collect()
    }

    /// What could not be delivered so far.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        lock(&self.shared.dead).clone()
    }

    /// Waits until no delivery is under way. What targets queue for themselves is not known here.
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
