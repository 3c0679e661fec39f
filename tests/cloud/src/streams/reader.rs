//! Reads the shards, one after the other, and passes each record to its lane.

use super::record::{self, Origin, Record};
use super::source::{Api, StreamSource};
use super::{Shared, lane};
use crate::chance::lock;
use serde_json::Value;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Lambda polls each shard four times a second; this reader waits only when the stream is quiet, and less.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct Reader {
    api: Api,
    origin: Origin,
    stream: String,
    shared: Arc<Shared>,
    /// The shard iterator; none until the next shard is known.
    iterator: Option<String>,
    /// The current shard.
    shard: String,
    /// If a shard had to be read again from its start, the number up to which it was read before.
    read_to: u128,
    /// The shards that were begun.
    begun: BTreeSet<String>,
    /// The last number that was read, and how many records were inserted after it.
    last: (u128, u128),
    lanes: Vec<UnboundedSender<Record>>,
    workers: JoinSet<()>,
}

impl Reader {
    pub(super) async fn open(source: StreamSource, shared: Arc<Shared>) -> Result<Self, String> {
        let api = Api::new(source)?;
        let stream = api.stream().await?;
        let shards = api.shards(&stream).await?;
        let (mut iterator, mut current, mut begun) = (None, String::new(), BTreeSet::new());
        if shared.rules.latest {
            // The newest shard is the open one.
            if let Some(open) = shards.last() {
                iterator = Some(api.iterator(&stream, open, "LATEST").await?);
                current.clone_from(open);
            }
            begun = shards.into_iter().collect();
        }
        let stream_arn = match shared.rules.stream_arn.as_str() {
            "" => stream.clone(),
            arn => arn.to_owned(),
        };
        let origin = Origin { stream_arn, region: api.region().to_owned() };
        let mut workers = JoinSet::new();
        let lanes = (0..shared.rules.lanes).map(|_| {
            let (sender, receiver) = unbounded_channel();
            workers.spawn(lane::run(receiver, shared.clone()));
            sender
        });
        let lanes = lanes.collect();
        let (read_to, last) = (0, (0, 0));
        let reader = Self {
            api,
            origin,
            stream,
            shared,
            iterator,
            shard: current,
            read_to,
            begun,
            last,
            lanes,
            workers,
        };
        Ok(reader)
    }

    /// Reads until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let busy = self.shared.pending.load(Ordering::SeqCst) > 0;
            let found = match self.read().await {
                Ok(found) => found,
                Err(why) => {
                    // The front's faults are among these reasons: the mapping retries, as Lambda does.
                    *lock(&self.shared.trouble) = Some(why);
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
            };
            *lock(&self.shared.trouble) = None;
            if found > 0 {
                continue;
            }
            if !busy && self.shared.pending.load(Ordering::SeqCst) == 0 {
                self.shared.quiet.send_modify(|looks| *looks += 1);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads once; returns the number of records, including those that a test inserted.
    async fn read(&mut self) -> Result<usize, String> {
        let inserted = std::mem::take(&mut *lock(&self.shared.inserted));
        let mut found = inserted.len();
        for given in inserted {
            let (number, count) = (self.last.0, self.last.1 + 1);
            self.take(record::complete(given), number, count);
        }
        if self.iterator.is_none() {
            let shards = self.api.shards(&self.stream).await?;
            let Some(next) = shards.into_iter().find(|shard| !self.begun.contains(shard)) else {
                return Ok(found);
            };
            self.iterator = Some(self.api.iterator(&self.stream, &next, "TRIM_HORIZON").await?);
            self.begun.insert(next.clone());
            self.shard = next;
        }
        let Some(iterator) = &self.iterator else { return Ok(found) };
        let page = match self.api.records(iterator).await {
            Err(why) if why.contains("TrimmedDataAccess") || why.contains("ExpiredIterator") => {
                return self.begin_again().await;
            }
            page => page?,
        };
        found += page.records.len();
        self.iterator = page.next;
        for given in page.records {
            let number = record::number(&given);
            if number > self.read_to {
                self.take(given, number, 0);
            }
        }
        Ok(found)
    }

    /// The iterator has expired. Reading continues with the oldest available record, as on Lambda.
    async fn begin_again(&mut self) -> Result<usize, String> {
        let iterator = self.api.iterator(&self.stream, &self.shard, "TRIM_HORIZON").await?;
        self.iterator = Some(iterator);
        self.read_to = self.last.0;
        Ok(1)
    }

    fn take(&mut self, given: Value, number: u128, inserted: u128) {
        self.last = (number, inserted);
        let record = self.origin.record(given, number, inserted);
        let disturbance = self.shared.disturbance();
        let passed = self.shared.rules.pass(&record.event);
        let lost = passed && (disturbance.off || self.shared.chance.happens(disturbance.drop));
        self.shared.count(|counts| {
            counts.read += 1;
            counts.passed += u64::from(passed);
            counts.dropped += u64::from(lost);
        });
        if !passed || lost {
            return;
        }
        // "Lambda still ensures in-order processing at the item (partition and sort key) level."
        let mut hasher = DefaultHasher::new();
        record.item.hash(&mut hasher);
        let lanes = u64::try_from(self.lanes.len()).unwrap_or(1).max(1);
        let lane = usize::try_from(hasher.finish() % lanes).unwrap_or_default();
        self.shared.pending.fetch_add(1, Ordering::SeqCst);
        if self.lanes[lane].send(record).is_err() {
            self.shared.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.workers.abort_all();
    }
}
