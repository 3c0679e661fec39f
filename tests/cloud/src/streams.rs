//! The stream of the table and Lambda's event source mapping on it.
//!
//! Records come from the stream that `DynamoDB` Local keeps. What becomes of them follows Lambda's
//! documentation: filters, batches, the window, several batches of one shard at once, retries, halving,
//! partial failures, the age limit and the on-failure destination. A test can make it worse than AWS does
//! on a good day: off, late, twice, out of order, lost, or with a record that makes no sense.
//! (Lambda developer guide: "Lambda parameters for Amazon DynamoDB event source mappings", "Configuring
//! partial batch response with DynamoDB and Lambda", "Retaining discarded records for a DynamoDB event
//! source", "Using event filtering with a DynamoDB event source".)

mod batch;
mod deliver;
mod lane;
mod order;
mod reader;
mod record;
mod report;
mod rules;
mod source;

pub use source::StreamSource;

use crate::chance::{Chance, lock};
use crate::stack::EventSourceMapping;
use crate::target::Target;
use rules::Rules;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a test does to the deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// Records that come meanwhile reach nobody, now or later.
    pub off: bool,
    /// Each batch that was taken is delivered so many times; 1 is normal.
    pub copies: usize,
    /// Records of different items change places.
    pub shuffle: bool,
    /// How often a record that was delivered before comes along again.
    pub replay: f64,
    /// How often a record is lost.
    pub drop: f64,
    /// Each delivery waits so long.
    pub delay: Duration,
}

impl Default for Disturbance {
    fn default() -> Self {
        Self {
            off: false,
            copies: 1,
            shuffle: false,
            replay: 0.0,
            drop: 0.0,
            delay: Duration::ZERO,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read from the stream.
    pub read: u64,
    /// Of these, passed by the filters.
    pub passed: u64,
    /// Of these, lost because a test wanted it.
    pub dropped: u64,
    /// Invocations, with retries and copies.
    pub invocations: u64,
    /// Of these, failed as a whole or in part.
    pub failures: u64,
    /// Records given up.
    pub discarded: u64,
}

/// What a mapping runs against.
pub struct Settings {
    /// Where the records come from.
    pub source: StreamSource,
    /// The function.
    pub target: Arc<dyn Target>,
    /// The function's ARN, for what the on-failure destination gets.
    pub function_arn: String,
    /// Whether the function's role may send to this destination: Lambda uses it for that. A message that it may
    /// not send is lost.
    pub may_send: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// By how much waiting is shortened: 60 makes a second of a minute. It is not applied to the age limit,
    /// which tests set in the mapping.
    pub scale: f64,
    /// For chance.
    pub seed: u64,
}

/// A running event source mapping. It ends when it is dropped.
pub struct Mapping {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    rules: Rules,
    target: Arc<dyn Target>,
    function_arn: String,
    may_send: Box<dyn Fn(&str) -> bool + Send + Sync>,
    scale: f64,
    chance: Chance,
    disturbance: Mutex<Disturbance>,
    counts: Mutex<Counts>,
    /// What the on-failure destination got.
    failed: Mutex<Vec<Value>>,
    /// Records that a test put in, not yet delivered to a lane.
    inserted: Mutex<Vec<Value>>,
    /// Some of those that were delivered, for replays.
    former: Mutex<Vec<record::Record>>,
    /// Why the stream could not be read just now.
    trouble: Mutex<Option<String>>,
    /// Records in lanes.
    pending: AtomicU64,
    /// Completed looks at the stream that found nothing.
    quiet: watch::Sender<u64>,
}

impl Mapping {
    /// Starts reading, from where the mapping says. With `LATEST` everything written after this is delivered.
    ///
    /// # Errors
    /// If Lambda would refuse the mapping, or the table has no stream.
    pub async fn start(mapping: &EventSourceMapping, settings: Settings) -> Result<Self, String> {
        let Settings { source, target, function_arn, may_send, scale, seed } = settings;
        let shared = Arc::new(Shared {
            rules: Rules::read(mapping)?,
            target,
            function_arn,
            may_send,
            scale,
            chance: Chance::new(seed),
            disturbance: Mutex::default(),
            counts: Mutex::default(),
            failed: Mutex::default(),
            inserted: Mutex::default(),
            former: Mutex::default(),
            trouble: Mutex::default(),
            pending: AtomicU64::new(0),
            quiet: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        if mapping.enabled {
            let reader = reader::Reader::open(source, shared.clone()).await?;
            tasks.spawn(reader.run());
        }
        Ok(Self { shared, tasks })
    }

    /// From now on like this.
    pub fn disturb(&self, disturbance: Disturbance) {
        *lock(&self.shared.disturbance) = disturbance;
    }

    /// From now on as AWS does on a good day.
    pub fn calm(&self) {
        self.disturb(Disturbance::default());
    }

    /// Puts in a record, as `GetRecords` would give it. Members that are missing are filled in; it passes the filters
    /// like any other.
    pub fn insert(&self, record: Value) {
        lock(&self.shared.inserted).push(record);
    }

    /// Puts in a record that wakes the function and cannot be read: its key is a number, and nothing else is there.
    pub fn poison(&self) {
        self.insert(record::poison());
    }

    /// The messages that the on-failure destination got.
    pub fn failed(&self) -> Vec<Value> {
        lock(&self.shared.failed).clone()
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }

    /// Waits until everything that was written before this call was delivered or given up.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn settled(&self, limit: Duration) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        let mut quiet = self.shared.quiet.subscribe();
        // A look that was under way when this began may have missed the last write.
        let wanted = *quiet.borrow() + 2;
        let found = tokio::time::timeout_at(deadline.into(), quiet.wait_for(|at| *at >= wanted));
        match found.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err("the mapping has ended".to_owned()),
            Err(_) => Err(format!(
                "after {limit:?} still {} records undelivered: {:?}, {:?}",
                self.shared.pending.load(Ordering::SeqCst),
                self.counts(),
                lock(&self.shared.trouble)
            )),
        }
    }

    /// Stops it, and waits until no invocation is under way.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Shared {
    fn disturbance(&self) -> Disturbance {
        lock(&self.disturbance).clone()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.counts));
    }

    /// A time of AWS, shortened.
    fn scaled(&self, time: Duration) -> Duration {
        time.div_f64(self.scale.max(1.0))
    }
}

#[cfg(test)]
mod tests;
