//! One connection that writes, and as many that read as there are readers at once.
//!
//! A `dynoxide` database serialises everything behind one mutex, and a writer holds it during its
//! fsync. So reads have connections of their own: in WAL mode a reader sees the last commit and
//! waits for nobody (<https://sqlite.org/wal.html#concurrency>).

use super::{OnRequest, data_file::DataFile, operations::Operation};
use crate::StoreError;
use dynoxide::{Database, DynoxideError};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

pub(super) struct Engine {
    /// Declared before `file`: connections close before the lock goes.
    writer: Database,
    /// Idle connections, each with the generation of table definitions that it may have cached.
    readers: Mutex<Vec<(u64, Database)>>,
    /// Grows with each change to a table definition, which makes all readers obsolete.
    generation: AtomicU64,
    /// One writer at a time waits here, first come first served, instead of on a thread.
    turn: Arc<Semaphore>,
    on_write: OnRequest,
    file: DataFile,
}

impl Engine {
    pub(super) fn open(path: &Path, on_write: OnRequest) -> Result<Self, StoreError> {
        let file = DataFile::claim(path)?;
        let writer = connect(path)
            .map_err(|source| StoreError::Open { path: path.to_owned(), source: source.into() })?;
        Ok(Self {
            writer,
            readers: Mutex::new(Vec::new()),
            generation: AtomicU64::new(0),
            turn: Arc::new(Semaphore::new(1)),
            on_write,
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Answers a request that only reads. Blocks for some microseconds.
    ///
    /// Readers are opened as they are needed. Nothing awaits while it holds one, so there are
    /// never more than there are threads.
    pub(super) fn read(&self, operation: Operation, body: &[u8]) -> Result<String, DynoxideError> {
        let generation = self.generation.load(Ordering::Acquire);
        let idle = self.readers().pop().filter(|(made, _)| *made == generation);
        let (_, reader) = match idle {
            Some(reader) => reader,
            None => (generation, connect(self.path())?),
        };
        let answer = operation.run(&reader, body);
        self.readers().push((generation, reader));
        answer
    }

    /// Answers a request that writes, on a thread that may block: an fsync can take milliseconds,
    /// and meanwhile the async threads have reads and timers to look after. Handing the work over
    /// takes some 10 us, which is little beside the fsync.
    ///
    /// The work goes on when the caller stops waiting, as it would on a server.
    pub(super) async fn write(
        self: Arc<Self>,
        operation: Operation,
        body: Vec<u8>,
    ) -> Result<String, DynoxideError> {
        let lost = |what: &str| DynoxideError::InternalServerError(what.to_owned());
        let turn = Arc::clone(&self.turn)
            .acquire_owned()
            .await
            .map_err(|_| lost("the embedded table is closed"))?;
        tokio::task::spawn_blocking(move || {
            let answer = operation.run(&self.writer, &body);
            if operation.changes_definitions() {
                self.generation.fetch_add(1, Ordering::Release);
                self.readers().clear();
            }
            drop(turn);
            if answer.is_ok() && operation.writes_items() {
                (self.on_write)(&body);
            }
            answer
        })
        .await
        .map_err(|_| lost("a write to the embedded table ended before its time"))?
    }

    pub(super) async fn remove_expired(self: &Arc<Self>) -> Result<usize, StoreError> {
        let engine = Arc::clone(self);
        // Without a turn: dynoxide steps aside for writers between its pages.
        let swept = tokio::task::spawn_blocking(move || engine.writer.sweep_ttl()).await;
        let failed = |source| StoreError::Backend {
            operation: "remove expired items",
            thing: self.path().display().to_string(),
            source,
        };
        swept.map_err(|e| failed(e.into()))?.map_err(|e| failed(e.into()))
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Database)>> {
        // A push or a pop cannot be left half done, so a poisoned list is still a good list.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("file", &self.file).finish_non_exhaustive()
    }
}

fn connect(path: &Path) -> Result<Database, DynoxideError> {
    let path = path.to_str().ok_or_else(|| {
        DynoxideError::ValidationException("the path is not valid UTF-8; use another".to_owned())
    })?;
    Database::new(path)
}
