//! The thread that writes. All writes that wait for it become durable together.
//!
//! With `synchronous = FULL`, SQLite waits for the disk at each commit, and the next write waits too. Here SQLite has `NORMAL`:
//! it appends each commit to the write-ahead log without waiting (<https://sqlite.org/pragma.html#pragma_synchronous>).
//! This thread runs the writes that wait, waits once until the disk has the log, and only then answers these writes.
//! The log has the commits in their order, so a power cut loses the last ones, and never one that the thread has answered.

use super::OnRequest;
use super::engine::unavailable;
use super::log_file::LogFile;
use super::operations::{Prepared, Write};
use dynoxide::{Database, DynoxideError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::{oneshot, watch};

/// The maximum number of writes between two waits for the disk, so that the first of many gets its answer soon.
const MAX_BATCH: usize = 32;

/// An answer of DynamoDB's API, or its error.
pub(super) type Answer = Result<String, DynoxideError>;

struct Job {
    request: Prepared,
    pending: PendingAnswer,
}

/// The caller of a write, and what the thread announces when it answers.
struct PendingAnswer {
    operation: Write,
    body: Vec<u8>,
    caller: oneshot::Sender<Answer>,
}

/// The writing thread. Dropping this value ends the thread, after the writes that wait.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The number of the batch that the thread began last.
    begun: Arc<AtomicU64>,
    /// The number of the last batch that the disk has.
    durable: watch::Receiver<u64>,
}

impl Writer {
    /// Starts the thread. `generation` grows with each change of a table's definition.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot start a thread.
    pub(super) fn start(
        database: Database,
        log: LogFile,
        generation: Arc<AtomicU64>,
        on_write: OnRequest,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel();
        let (is_durable, durable) = watch::channel(0);
        let begun = Arc::new(AtomicU64::new(0));
        let thread =
            WriterThread { database, log, generation, on_write, begun: begun.clone(), is_durable };
        let name = "canyon-table".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || thread.run(&waiting))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), begun, durable })
    }

    /// Writes, and answers when the disk has the write. The write continues if the caller stops waiting, as on a server.
    pub(super) async fn write(&self, operation: Write, body: Vec<u8>) -> Answer {
        // Parsed here, because all other writes wait for the thread.
        let request = operation.prepare(&body)?;
        let (caller, answered) = oneshot::channel();
        let job = Job { request, pending: PendingAnswer { operation, body, caller } };
        let queued = self.queue.as_ref().map(|queue| queue.send(job));
        if !matches!(queued, Some(Ok(()))) {
            return Err(unavailable());
        }
        answered.await.unwrap_or_else(|_| Err(unavailable()))
    }

    /// Waits until the disk has everything that this process can read now: a power cut must not undo what Canyon has shown to
    /// a caller. Returns at once if no write is in progress.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub(super) async fn until_durable(&self) -> Result<(), DynoxideError> {
        let begun = self.begun.load(Ordering::Acquire);
        if *self.durable.borrow() >= begun {
            return Ok(());
        }
        let mut durable = self.durable.clone();
        let on_disk = durable.wait_for(|batch| *batch >= begun).await;
        on_disk.map(drop).map_err(|_| unavailable())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, Rust has printed why, and no caller waits for it any more.
            let _ = thread.join();
        }
    }
}

struct WriterThread {
    database: Database,
    log: LogFile,
    generation: Arc<AtomicU64>,
    on_write: OnRequest,
    begun: Arc<AtomicU64>,
    is_durable: watch::Sender<u64>,
}

impl WriterThread {
    fn run(self, waiting: &mpsc::Receiver<Job>) {
        let mut number = 0;
        while let Ok(first) = waiting.recv() {
            number += 1;
            // Before the first commit, so that a reader of this commit waits for this batch.
            self.begun.store(number, Ordering::Release);
            let more = waiting.try_iter().take(MAX_BATCH - 1);
            let batch = std::iter::once(first).chain(more);
            let done: Vec<_> =
                batch.map(|job| ((job.request)(&self.database), job.pending)).collect();
            self.sync();
            let _ = self.is_durable.send(number);
            for (answer, pending) in done {
                self.answer(answer, pending);
            }
        }
    }

    /// Ends the process if the disk fails. The kernel may have dropped what it could not write, so a second attempt would
    /// succeed and prove nothing (<https://wiki.postgresql.org/wiki/Fsync_Errors>); and SQLite must not copy such a log into
    /// the database, as it does when a connection is closed.
    fn sync(&self) {
        if let Err(error) = self.log.sync() {
            let file = self.log.path().display();
            tracing::error!(%error, "cannot write `{file}` to the disk. Canyon ends, and has not acknowledged these writes. Check the disk");
            std::process::abort();
        }
    }

    fn answer(&self, answer: Answer, pending: PendingAnswer) {
        let PendingAnswer { operation, body, caller } = pending;
        if operation.changes_definitions() {
            self.generation.fetch_add(1, Ordering::Release);
        }
        if answer.is_ok() && operation.changes_items() {
            (self.on_write)(&body);
        }
        // A caller may have stopped waiting.
        let _ = caller.send(answer);
    }
}
