//! DynamoDB in this process, on one SQLite file.
//!
//! [`Embedded::client`] is an ordinary [`aws_sdk_dynamodb::Client`] whose HTTP connector opens no
//! port: it passes each request to `dynoxide` by a function call. Every user of the machine could
//! reach a port on a loopback address, and a request through it takes longer.
//!
//! # What is durable
//!
//! SQLite runs in WAL mode, and no write is acknowledged, and none is shown to a reader, before an fsync of the log
//! (`embedded/writer.rs`), except the removal of expired items: they expire again. A killed process loses no acknowledged
//! write; nor does a power cut, as far as the disk keeps the promise of fsync.

mod batches;
mod connector;
mod data_file;
mod engine;
mod log_file;
mod operations;
mod reader;
mod sdk;
mod writer;

use crate::recent_reads::RecentReads;
use crate::{StoreError, Table};
use aws_sdk_dynamodb::Client;
use engine::Engine;
use std::{fmt, path::Path, sync::Arc};

/// Called after every durable write request. Like a stream record on AWS, it is only a hint:
/// something may be due, so read the table. The writer waits for it, so it must return at once.
pub type OnWrite = Arc<dyn Fn() + Send + Sync>;

/// Like [`OnWrite`], with the durable request: the JSON of DynamoDB's API.
pub type OnRequest = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// An open database file. Clients keep the file open too, so a caller may drop this value before
/// them.
#[derive(Clone)]
pub struct Embedded {
    engine: Arc<Engine>,
    client: Client,
}

impl Embedded {
    /// Opens `file`, or creates it (mode 0600) and its folder (mode 0700).
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`] if another process has the file open; [`StoreError::Open`] if it
    /// cannot be created or read, or is not a database.
    pub fn open(file: &Path, on_write: OnWrite) -> Result<Self, StoreError> {
        Self::open_with_request_hook(file, Arc::new(move |_| on_write()))
    }

    /// Like [`Self::open`], for a caller that needs the committed requests.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_with_request_hook(file: &Path, on_write: OnRequest) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::open(file, on_write)?);
        let client = sdk::client(connector::Connector::new(Arc::clone(&engine)));
        Ok(Self { engine, client })
    }

    /// A client of this database.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The table `name` of this database, which may not exist yet. Until the next write, it keeps
    /// what it has read.
    pub fn table(&self, name: &str) -> Table {
        let changes = Arc::clone(self.engine.batches());
        Table::new(self.client(), name).with_recent_reads(RecentReads::new(changes))
    }

    /// Deletes items whose `ttl` has passed and returns how many. On AWS, DynamoDB does this
    /// itself.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if SQLite fails.
    pub async fn remove_expired(&self) -> Result<usize, StoreError> {
        self.engine.remove_expired().await
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("file", &self.engine.path()).finish_non_exhaustive()
    }
}
