//! One thread at a time writes. All writes that wait for it become durable together.
//!
//! With `synchronous = FULL`, SQLite waits for the disk at each commit, and the next write waits too. Here SQLite has `NORMAL`:
//! it appends each commit to the write-ahead log without waiting (<https://sqlite.org/pragma.html#pragma_synchronous>).
//! The thread runs the writes that wait, waits once until the disk has the log, and only then answers these writes.
//! The log has the commits in their order, so a power cut loses the last ones, and never one that the thread has answered.

use super::OnRequest;
use super::batches::Batches;
use super::data_file::DataFile;
use super::log_file::LogFile;
use super::operations::{Prepared, Write};
use dynoxide::{Database, DynoxideError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

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

/// The writes that wait.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Whether a thread runs them.
    is_served: bool,
}

/// Runs writes, one thread at a time.
pub(super) struct Writer {
    database: Database,
    log: LogFile,
    /// Grows with each change of a table's definition.
    generation: Arc<AtomicU64>,
    on_write: OnRequest,
    queue: Mutex<Queue>,
    batches: Arc<Batches>,
    /// Dropped last: the connection must be closed before another process may open the file.
    _file: Arc<DataFile>,
}

impl Writer {
    pub(super) fn new(
        database: Database,
        log: LogFile,
        generation: Arc<AtomicU64>,
        on_write: OnRequest,
        batches: Arc<Batches>,
        file: Arc<DataFile>,
    ) -> Self {
        Self { database, log, generation, on_write, queue: Mutex::default(), batches, _file: file }
    }

    /// Writes, and answers when the disk has the write. The write continues if the caller stops waiting, as on a server.
    pub(super) async fn write(self: &Arc<Self>, operation: Write, body: Vec<u8>) -> Answer {
        // Parsed here, because all other writes wait for the thread.
        let request = operation.prepare(&body)?;
        let (caller, answered) = oneshot::channel();
        let job = Job { request, pending: PendingAnswer { operation, body, caller } };
        if self.enqueue(job) {
            let writer = Arc::clone(self);
            // A thread of the runtime that may block, so that a test's clock stands still meanwhile.
            tokio::task::spawn_blocking(move || writer.serve());
        }
        let lost = || DynoxideError::InternalServerError("Canyon is shutting down".to_owned());
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Returns whether the caller must start a thread.
    fn enqueue(&self, job: Job) -> bool {
        let mut queue = self.queue();
        queue.jobs.push_back(job);
        !std::mem::replace(&mut queue.is_served, true)
    }

    /// Runs the writes until none waits.
    fn serve(&self) {
        let abort = AbortOnPanic;
        loop {
            let batch = self.next_batch();
            if batch.is_empty() {
                break;
            }
            let number = self.batches.begin();
            let done: Vec<_> =
                batch.into_iter().map(|job| ((job.request)(&self.database), job.pending)).collect();
            self.sync();
            self.batches.became_durable(number);
            for (answer, pending) in done {
                self.answer(answer, pending);
            }
        }
        std::mem::forget(abort);
    }

    /// The writes that wait now. If there are none, the next one must start a thread.
    fn next_batch(&self) -> Vec<Job> {
        let mut queue = self.queue();
        let count = queue.jobs.len().min(MAX_BATCH);
        queue.is_served = count > 0;
        queue.jobs.drain(..count).collect()
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that holds the lock can panic half-way.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the process when it is dropped. After a panic in the middle of a batch, all callers would wait for ever. Released programs end at
/// any panic.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}
