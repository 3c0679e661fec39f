//! One connection for writes, and one for each concurrent read.
//!
//! A `dynoxide` database serialises everything behind one mutex. So reads use connections of their own: in WAL mode a
//! reader sees the last commit and does not wait for a writer (<https://sqlite.org/wal.html#concurrency>).

use super::batches::Batches;
use super::log_file::LogFile;
use super::writer::{Answer, Writer};
use super::{OnRequest, data_file::DataFile, operations::Write, reader::Read};
use crate::StoreError;
use crate::error::BoxError;
use dynoxide::storage::Storage;
use dynoxide::{Database, DynoxideError};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Engine {
    /// Declared before `file`: connections must close before the lock is released.
    writer: Arc<Writer>,
    database: Database,
    /// Idle connections, each with the generation of the table definitions that it may have cached.
    readers: Mutex<Vec<(u64, Storage)>>,
    /// Grows with each change of a table definition, which makes all readers stale.
    generation: Arc<AtomicU64>,
    batches: Arc<Batches>,
    file: Arc<DataFile>,
}

impl Engine {
    pub(super) fn open(path: &Path, on_write: OnRequest) -> Result<Self, StoreError> {
        let file = DataFile::claim(path)?;
        Self::of_claimed(file, on_write)
            .map_err(|source| StoreError::Open { path: path.to_owned(), source })
    }

    fn of_claimed(file: DataFile, on_write: OnRequest) -> Result<Self, BoxError> {
        let file = Arc::new(file);
        let path = file.path();
        if LogFile::is_left_beside(path)? {
            // A process that was killed may have left writes that the disk does not have. When SQLite closes its only connection, it
            // copies the log into the database, waits for the disk, and deletes the log.
            drop(Storage::new(utf8(path)?)?);
        }
        let database = Database::new(utf8(path)?)?;
        // The only function of dynoxide that sets `synchronous = NORMAL`. Its other settings are SQLite's defaults.
        database.disable_bulk_loading()?;
        let log = LogFile::open(path)?;
        let generation = Arc::new(AtomicU64::new(0));
        let batches = Arc::new(Batches::new());
        let writer = Arc::new(Writer::new(
            database.clone(),
            log,
            generation.clone(),
            on_write,
            batches.clone(),
            file.clone(),
        ));
        Ok(Self { writer, database, readers: Mutex::new(Vec::new()), generation, batches, file })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Knows when the table changes.
    pub(super) fn batches(&self) -> &Arc<Batches> {
        &self.batches
    }

    /// Answers a request that only reads. This takes some microseconds; if a write is in progress, the answer waits until the disk
    /// has the write.
    pub(super) async fn read(&self, operation: Read, body: &[u8]) -> Answer {
        let answer = self.read_now(operation, body);
        self.batches.until_durable().await;
        answer
    }

    /// Opens a reader if none is idle. Code that holds a reader never awaits, so there are at most as many readers as
    /// threads.
    fn read_now(&self, operation: Read, body: &[u8]) -> Answer {
        let generation = self.generation.load(Ordering::Acquire);
        let idle = self.readers().pop().filter(|(made, _)| *made == generation);
        let (_, reader) = match idle {
            Some(reader) => reader,
            None => (generation, self.new_reader()?),
        };
        let answer = operation.run(&reader, body);
        self.readers().push((generation, reader));
        answer
    }

    fn new_reader(&self) -> Result<Storage, DynoxideError> {
        let reader = Storage::new(utf8(self.path())?)?;
        // SQLite's default is 2 MB for each connection. The kernel has the file's pages in memory anyway.
        reader.conn().execute_batch("PRAGMA cache_size = -512")?;
        Ok(reader)
    }

    /// Answers a request that writes, or that needs the writer's connection.
    pub(super) async fn write(&self, operation: Write, body: Vec<u8>) -> Answer {
        self.writer.write(operation, body).await
    }

    pub(super) async fn remove_expired(self: &Arc<Self>) -> Result<usize, StoreError> {
        let engine = Arc::clone(self);
        // Beside the writer: dynoxide yields to it between its pages. What a power cut brings back expires again.
        let swept = tokio::task::spawn_blocking(move || {
            let _removal = engine.batches.begin_removal();
            engine.database.sweep_ttl()
        });
        let failed = |source| StoreError::Backend {
            operation: "remove expired items",
            thing: self.path().display().to_string(),
            source,
        };
        swept.await.map_err(|e| failed(e.into()))?.map_err(|e| failed(e.into()))
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Storage)>> {
        // A push or a pop is never half done, so the list of a poisoned mutex is valid.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("file", &self.file).finish_non_exhaustive()
    }
}

fn utf8(path: &Path) -> Result<&str, DynoxideError> {
    path.to_str().ok_or_else(|| {
        DynoxideError::ValidationException("the path is not valid UTF-8; use another".to_owned())
    })
}
