//! DynamoDB in this process, on one SQLite file.
//!
//! [`Embedded::client`] is an ordinary [`aws_sdk_dynamodb::Client`] whose HTTP connector never
//! opens a port: it hands each request to `dynoxide` by a function call. A port on a loopback
//! address would be open to every user of the machine, and a request through it takes longer.
//!
//! # What is durable
//!
//! SQLite runs in WAL mode with `synchronous = FULL` (its default, which dynoxide leaves alone):
//! each commit is followed by an fsync of the log before the write is acknowledged. A killed
//! process loses no acknowledged write; nor does a power cut, as far as the disk keeps the promise
//! of fsync (<https://sqlite.org/pragma.html#pragma_synchronous>).

mod connector;
mod data_file;
mod engine;
mod operations;
mod sdk;

use crate::StoreError;
use aws_sdk_dynamodb::Client;
use engine::Engine;
use std::{fmt, path::Path, sync::Arc};

/// Called after every committed write request. It stands for what a stream does on AWS, and means
/// no more than a stream record does: look at the table, something may be due. It must return at
/// once, for the writer waits for it.
pub type OnWrite = Arc<dyn Fn() + Send + Sync>;

/// The same, with the request that was carried out: the JSON of DynamoDB's API.
pub type OnRequest = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// An open database file. Clients keep it open too, so it may be dropped before they are.
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
    /// [`StoreError::InUse`] if another process has it open; [`StoreError::Open`] if it cannot be
    /// created, read, or is no database.
    pub fn open(file: &Path, on_write: OnWrite) -> Result<Self, StoreError> {
        Self::open_telling(file, Arc::new(move |_| on_write()))
    }

    /// The same for a caller that is told what was written.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_telling(file: &Path, on_write: OnRequest) -> Result<Self, StoreError> {
        let engine = Arc::new(Engine::open(file, on_write)?);
        let client = sdk::client(connector::Connector::new(Arc::clone(&engine)));
        Ok(Self { engine, client })
    }

    /// The client that talks to this database.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Deletes items whose `ttl` has passed, and says how many. DynamoDB does this by itself.
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
