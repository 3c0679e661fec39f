//! Access to the master key: immediate if it is in a file, on first use if it is in KMS.
//!
//! A request that seals nothing must not wait for KMS, so the holder of [`MasterKeys`] gets the key
//! only where it uses it.

use crate::master_key::MasterKey;
use async_trait::async_trait;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The master key is not available.
#[derive(Debug, thiserror::Error)]
#[error("cannot get the master key: {reason}")]
pub struct MasterKeyError {
    /// What failed, and what to do.
    pub reason: String,
    /// Whether a retry may succeed.
    pub is_retryable: bool,
    /// The cause, for the log.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Source of a master key.
#[async_trait]
pub trait MasterKeySource: Send + Sync {
    /// The key: always the same one; the first call creates it.
    ///
    /// # Errors
    ///
    /// [`MasterKeyError`] if it can be neither read nor created.
    async fn fetch(&self) -> Result<MasterKey, MasterKeyError>;
}

/// The master key, fetched at most once.
pub struct MasterKeys(Keys);

enum Keys {
    Known(Arc<MasterKey>),
    OnDemand { source: Box<dyn MasterKeySource>, fetched: OnceCell<Arc<MasterKey>> },
}

impl std::fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKeys(***)")
    }
}

impl MasterKeys {
    /// A key that is already loaded.
    pub fn known(key: MasterKey) -> Self {
        Self(Keys::Known(Arc::new(key)))
    }

    /// A key that is fetched from `source` on first use.
    pub fn on_demand(source: impl MasterKeySource + 'static) -> Self {
        Self(Keys::OnDemand { source: Box::new(source), fetched: OnceCell::new() })
    }

    /// The key. Concurrent callers wait for one fetch. A failure is not cached: the next caller
    /// retries.
    ///
    /// # Errors
    ///
    /// [`MasterKeyError`] if it cannot be fetched.
    pub async fn get(&self) -> Result<Arc<MasterKey>, MasterKeyError> {
        match &self.0 {
            Keys::Known(key) => Ok(Arc::clone(key)),
            Keys::OnDemand { source, fetched } => {
                let fetch = async || source.fetch().await.map(Arc::new);
                fetched.get_or_try_init(fetch).await.cloned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::KEY_LENGTH;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Fails the first time.
    #[derive(Clone, Default)]
    struct Flaky(Arc<AtomicU32>);

    #[async_trait]
    impl MasterKeySource for Flaky {
        async fn fetch(&self) -> Result<MasterKey, MasterKeyError> {
            let number = self.0.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if number == 0 {
                let source = "no answer".into();
                let reason = "it does not answer".to_owned();
                return Err(MasterKeyError { reason, is_retryable: true, source });
            }
            Ok(MasterKey::new(&[1; KEY_LENGTH]).unwrap())
        }
    }

    #[tokio::test]
    async fn the_key_is_fetched_once_for_all_and_again_only_after_a_failure() {
        let source = Flaky::default();
        let keys = Arc::new(MasterKeys::on_demand(source.clone()));
        assert_eq!(source.0.load(Ordering::SeqCst), 0, "nothing is fetched before it is needed");
        assert!(keys.get().await.is_err());
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let keys = Arc::clone(&keys);
                tokio::spawn(async move { keys.get().await.unwrap() })
            })
            .collect();
        let mut got = Vec::new();
        for task in tasks {
            got.push(task.await.unwrap());
        }
        assert!(got.iter().all(|key| Arc::ptr_eq(key, &got[0])));
        assert_eq!(source.0.load(Ordering::SeqCst), 2);
    }
}
