//! A signer that counts and fails as a test says, and a clock that stands still.

use crate::file_signer::FileSigner;
use crate::jwk::Jwk;
use crate::signer::{Signer, SignerError};
use async_trait::async_trait;
use canyon_domain::seam::Clock;
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Good,
    Disabled,
    /// Answers nothing.
    Silent,
    /// Shows its public half, and does not sign.
    Idle,
}

/// A key of its own, which signs for real.
pub(crate) struct TestSigner {
    file: FileSigner,
    pub(crate) signed: AtomicU32,
    pub(crate) asked: AtomicU32,
    pub(crate) mood: Mutex<Mood>,
    _folder: TempDir,
}

impl TestSigner {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = FileSigner::new(&folder.path().join("key.pk8"));
        let (signed, asked) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { file, signed, asked, mood: Mutex::default(), _folder: folder })
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn check(&self) -> Result<(), SignerError> {
        let key = self.name();
        match *self.mood.lock().unwrap() {
            Mood::Good | Mood::Idle => Ok(()),
            Mood::Disabled => Err(SignerError::Unusable { key, reason: "disabled".to_owned() }),
            Mood::Silent => Err(SignerError::Failed { key, source: "no answer".into() }),
        }
    }
}

#[async_trait]
impl Signer for TestSigner {
    fn name(&self) -> String {
        "test".to_owned()
    }

    async fn public_jwk(&self) -> Result<Jwk, SignerError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        self.file.public_jwk().await
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        self.signed.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.check()?;
        if *self.mood.lock().unwrap() == Mood::Idle {
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
