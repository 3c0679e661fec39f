//! The stream of the table and Lambda's event source mapping on it.
//!
//! Records come from the stream of `DynamoDB` Local. Their delivery follows Lambda's documentation: filters, batches,
//! the window, several concurrent batches of one shard, retries, bisecting, partial failures, the age limit and the
//! on-failure destination. A test can disturb it: off, late, twice, out of order, lost, or with an unreadable record.
//! (Lambda developer guide: "Lambda parameters for Amazon DynamoDB event source mappings", "Configuring partial batch
//! response with DynamoDB and Lambda", "Retaining discarded records for a DynamoDB event source", "Using event
//! filtering with a DynamoDB event source".)

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

/// How a test disturbs the deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// Records that arrive meanwhile are never delivered.
    pub off: bool,
    /// Each accepted batch is delivered so many times; 1 is normal.
    pub copies: usize,
    /// Records of different items are reordered.
    pub shuffle: bool,
    /// The probability that an earlier record is delivered again.
    pub replay: f64,
    /// The probability that a record is lost.
    pub drop: f64,
    /// The delay of each delivery.
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

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were read from the stream.
    pub read: u64,
    /// Of these, records that passed the filters.
    pub passed: u64,
    /// Of these, records that a test lost.
    pub dropped: u64,
    /// Invocations, including retries and copies.
    pub invocations: u64,
    /// Of these, invocations that failed as a whole or in part.
    pub failures: u64,
    /// Records that were given up.
    pub discarded: u64,
}

/// The settings of a mapping.
pub struct Settings {
    /// The source of the records.
    pub source: StreamSource,
    /// The function.
    pub target: Arc<dyn Target>,
    /// The function's ARN, for messages to the on-failure destination.
    pub function_arn: String,
    /// Whether the function's role may send to this destination: Lambda sends with that role. Without the right the
    /// message is lost.
    pub may_send: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// The factor by which waits are shortened: 60 makes a second of a minute. It does not apply to the age limit,
    /// which tests set in the mapping.
    pub scale: f64,
    /// The seed of random decisions.
    pub seed: u64,
}

/// A running event source mapping. Dropping it ends it.
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
    /// The messages of the on-failure destination.
    failed: Mutex<Vec<Value>>,
    /// Records that a test inserted, not yet passed to a lane.
    inserted: Mutex<Vec<Value>>,
    /// Some of the delivered records, for replays.
    former: Mutex<Vec<record::Record>>,
    /// The current reason why the stream cannot be read.
    trouble: Mutex<Option<String>>,
    /// The number of records in lanes.
    pending: AtomicU64,
    /// The number of completed reads of the stream that found no record.
    quiet: watch::Sender<u64>,
}

impl Mapping {
    /// Starts reading at the position that the mapping names. With `LATEST`, everything written after this is
    /// delivered.
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

    /// Applies this disturbance from now on.
    pub fn disturb(&self, disturbance: Disturbance) {
        *lock(&self.shared.disturbance) = disturbance;
    }

    /// Ends any disturbance.
    pub fn calm(&self) {
        self.disturb(Disturbance::default());
    }

    /// Inserts a record, in the form of `GetRecords`. Missing members are filled in; it passes the filters like any
    /// other.
    pub fn insert(&self, record: Value) {
        lock(&self.shared.inserted).push(record);
    }

    /// Inserts a record that wakes the function and cannot be parsed: its key is a number, and it has no other
    /// attribute.
    pub fn poison(&self) {
        self.insert(record::poison());
    }

    /// The messages that the on-failure destination got.
    pub fn failed(&self) -> Vec<Value> {
        lock(&self.shared.failed).clone()
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }

    /// Waits until everything that was written before this call is delivered or given up.
    ///
    /// # Errors
    /// If that takes longer than `limit`.
    pub async fn settled(&self, limit: Duration) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        let mut quiet = self.shared.quiet.subscribe();
        // A read that was in progress at this call may have missed the last write.
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

    /// Stops it, and waits until no invocation is in progress.
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

    /// A duration of AWS, shortened.
    fn scaled(&self, time: Duration) -> Duration {
        time.div_f64(self.scale.max(1.0))
    }
}

#[cfg(test)]
mod tests;
