//! The thread that writes. All writes that wait for it become durable together.
//!
//! With `synchronous = FULL`, SQLite waits for the disk at each commit, and the next write waits behind it. Here it
//! has `NORMAL`: it appends a commit to the write-ahead log without waiting (<https://sqlite.org/pragma.html#pragma_synchronous>).
//! This thread runs the writes that wait, then waits once until the log is on the disk, and only then answers them. The log has
//! the commits in their order, so a power cut takes the last ones, and none that was answered.

use super::log_file::LogFile;
use super::operations::{Prepared, Write};
use super::{OnRequest, engine::lost};
use dynoxide::{Database, DynoxideError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::{oneshot, watch};

/// The most writes between two waits for the disk, so that the first of many is answered soon.
const MAX_BATCH: usize = 32;

/// An answer of DynamoDB's API, or its error.
pub(super) type Answer = Result<String, DynoxideError>;

struct Job {
    request: Prepared,
    announced: Announced,
}

/// What is left of a job that has run.
struct Announced {
    operation: Write,
    body: Vec<u8>,
    caller: oneshot::Sender<Answer>,
}

/// The writing thread. Dropping it ends the thread, after the writes that wait.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The number of the batch that was begun last.
    begun: Arc<AtomicU64>,
    /// The number of the last batch that is on the disk.
    durable: watch::Receiver<u64>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot start a thread.
    pub(super) fn start(
        database: Database,
        log: LogFile,
        on_write: OnRequest,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let (is_durable, durable) = watch::channel(0);
        let begun = Arc::new(AtomicU64::new(0));
        let batches = Batches { database, log, on_write, begun: begun.clone(), is_durable };
        let name = "canyon-table".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || batches.run(&waiting))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), begun, durable })
    }

    /// Writes, and answers when the write is on the disk. The write continues if the caller stops waiting, as on a server.
    pub(super) async fn write(&self, operation: Write, body: Vec<u8>) -> Answer {
        // Parsed here, because all other writes wait for the thread.
        let request = operation.prepare(&body)?;
        let (caller, answered) = oneshot::channel();
        let job = Job { request, announced: Announced { operation, body, caller } };
        let queued = self.queue.as_ref().map(|queue| queue.send(job));
        if !matches!(queued, Some(Ok(()))) {
            return Err(lost());
        }
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Waits until everything that this process can read now is on the disk: what a caller was shown must not be gone
    /// after a power cut. Returns at once if no write is in progress.
    ///
    /// # Errors
    ///
    /// If the disk has failed.
    pub(super) async fn until_durable(&self) -> Result<(), DynoxideError> {
        let begun = self.begun.load(Ordering::Acquire);
        if *self.durable.borrow() >= begun {
            return Ok(());
        }
        let mut durable = self.durable.clone();
        let on_disk = durable.wait_for(|batch| *batch >= begun).await;
        on_disk.map(drop).map_err(|_| lost())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was reported by the runtime, and nothing waits for it any more.
            let _ = thread.join();
        }
    }
}

/// What the thread owns. When it ends, all that wait for it get an error.
struct Batches {
    database: Database,
    log: LogFile,
    on_write: OnRequest,
    begun: Arc<AtomicU64>,
    is_durable: watch::Sender<u64>,
}

impl Batches {
    fn run(mut self, waiting: &mpsc::Receiver<Job>) {
        let mut number = 0;
        while let Ok(first) = waiting.recv() {
            number += 1;
            // Before the first commit, so that a reader which sees it also sees that it must wait.
            self.begun.store(number, Ordering::Release);
            let more = waiting.try_iter().take(MAX_BATCH - 1);
            let batch = std::iter::once(first).chain(more);
            let done: Vec<_> =
                batch.map(|job| ((job.request)(&self.database), job.announced)).collect();
            if let Err(error) = self.log.sync() {
                // The kernel may have dropped what it could not write, so another attempt would prove nothing
                // (https://wiki.postgresql.org/wiki/Fsync_Errors). The next start reads what is on the disk.
                tracing::error!(%error, "the disk does not keep the table's writes; restart Canyon");
                return;
            }
            let _ = self.is_durable.send(number);
            for (answer, Announced { operation, body, caller }) in done {
                if answer.is_ok() && operation.changes_items() {
                    (self.on_write)(&body);
                }
                // A caller may have stopped waiting.
                let _ = caller.send(answer);
            }
        }
    }
}
