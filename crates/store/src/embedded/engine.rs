//! One connection for writes, and one for each concurrent read.
//!
//! A `dynoxide` database serialises everything behind one mutex, and a writer holds it during its
//! fsync. So reads use connections of their own: in WAL mode a reader sees the last commit and does
//! not wait (<https://sqlite.org/wal.html#concurrency>).

use super::{OnRequest, data_file::DataFile, operations::Operation};
use crate::StoreError;
use dynoxide::{Database, DynoxideError};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

pub(super) struct Engine {
    /// Declared before `file`: connections must close before the lock is released.
    writer: Database,
    /// Idle connections, each with the generation of the table definitions that it may have cached.
    readers: Mutex<Vec<(u64, Database)>>,
    /// Grows with each change of a table definition, which makes all readers stale.
    generation: AtomicU64,
    /// Writers wait here in order of arrival, instead of blocking threads.
    write_permit: Arc<Semaphore>,
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
            write_permit: Arc::new(Semaphore::new(1)),
            on_write,
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Answers a request that only reads. Blocks for some microseconds.
    ///
    /// Opens a reader if none is idle. Code that holds a reader never awaits, so there are at most
    /// as many readers as threads.
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
    /// and the async threads have reads and timers to serve. The switch takes about 10 us, little
    /// beside the fsync.
    ///
    /// The write continues if the caller stops waiting, as on a server.
    pub(super) async fn write(
        self: Arc<Self>,
        operation: Operation,
        body: Vec<u8>,
    ) -> Result<String, DynoxideError> {
        let lost = |what: &str| DynoxideError::InternalServerError(what.to_owned());
        let permit = Arc::clone(&self.write_permit)
            .acquire_owned()
            .await
            .map_err(|_| lost("the embedded table is closed"))?;
        tokio::task::spawn_blocking(move || {
            let answer = operation.run(&self.writer, &body);
            if operation.changes_definitions() {
                self.generation.fetch_add(1, Ordering::Release);
                self.readers().clear();
            }
            drop(permit);
            if answer.is_ok() && operation.writes_items() {
                (self.on_write)(&body);
            }
            answer
        })
        .await
        .map_err(|_| lost("a write to the embedded table was aborted"))?
    }

    pub(super) async fn remove_expired(self: &Arc<Self>) -> Result<usize, StoreError> {
        let engine = Arc::clone(self);
        // Without a permit: dynoxide yields to writers between its pages.
        let swept = tokio::task::spawn_blocking(move || engine.writer.sweep_ttl()).await;
        let failed = |source| StoreError::Backend {
            operation: "remove expired items",
            thing: self.path().display().to_string(),
            source,
        };
        swept.map_err(|e| failed(e.into()))?.map_err(|e| failed(e.into()))
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Database)>> {
        // A push or a pop is never half done, so the list of a poisoned mutex is valid.
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
