//! A signer that counts and fails as a test sets it, and a clock that only tests move.

use crate::file_signer::FileSigner;
use crate::jwk::Jwk;
use crate::signer::{Signer, SignerError};
use async_trait::async_trait;
use canyon_domain::ports::Clock;
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    #[default]
    Good,
    Disabled,
    /// Does not answer.
    Silent,
    /// Returns its public half, and does not sign.
    Idle,
}

/// A real key.
pub(crate) struct TestSigner {
    file: FileSigner,
    pub(crate) signed: AtomicU32,
    pub(crate) requests: AtomicU32,
    pub(crate) behavior: Mutex<Behavior>,
    _folder: TempDir,
}

impl TestSigner {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = FileSigner::new(&folder.path().join("key.pk8"));
        let (signed, requests) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { file, signed, requests, behavior: Mutex::default(), _folder: folder })
    }

    pub(crate) fn set(&self, behavior: Behavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    fn check(&self) -> Result<(), SignerError> {
        let key = self.name();
        match *self.behavior.lock().unwrap() {
            Behavior::Good | Behavior::Idle => Ok(()),
            Behavior::Disabled => Err(SignerError::Unusable { key, reason: "disabled".to_owned() }),
            Behavior::Silent => Err(SignerError::Failed { key, source: "no answer".into() }),
        }
    }
}

#[async_trait]
impl Signer for TestSigner {
    fn name(&self) -> String {
        "test".to_owned()
    }

    async fn public_jwk(&self) -> Result<Jwk, SignerError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        self.file.public_jwk().await
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        self.signed.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.check()?;
        if *self.behavior.lock().unwrap() == Behavior::Idle {
            return Err(SignerError::Failed { key: self.name(), source: "throttled".into() });
        }
        self.file.sign(message).await
    }
}

/// A clock that only tests move.
pub(crate) struct TestClock(Mutex<Timestamp>);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new("2026-01-15T12:00:00Z".parse().unwrap())))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}
