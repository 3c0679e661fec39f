//! A signing key in a file, for `canyon local`.

use crate::jwk::Jwk;
use crate::key_file::{self, KeyFileError};
use crate::signer::{Signer, SignerError};
use async_trait::async_trait;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A signing key in a file. It is created on first use, because that takes a tenth of a second,
/// which would delay the start.
#[derive(Debug)]
pub struct FileSigner {
    path: PathBuf,
    key: OnceCell<Arc<KeyPair>>,
}

impl FileSigner {
    /// The key in the file at `path`.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), key: OnceCell::new() }
    }

    fn failed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SignerError {
        SignerError::Failed { key: self.name(), source: source.into() }
    }

    async fn key(&self) -> Result<Arc<KeyPair>, SignerError> {
        let load = async || {
            let path = self.path.clone();
            let loaded = tokio::task::spawn_blocking(move || load(&path)).await;
            let key = loaded.map_err(|error| self.failed(error))?;
            key.map(Arc::new).map_err(|error| self.failed(error))
        };
        self.key.get_or_try_init(load).await.cloned()
    }
}

#[async_trait]
impl Signer for FileSigner {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    async fn public_jwk(&self) -> Result<Jwk, SignerError> {
        Ok(Jwk::of(self.key().await?.public_key()))
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        let (key, message) = (self.key().await?, message.to_vec());
        // About a millisecond of CPU time, so it runs outside of the async threads.
        let signing = tokio::task::spawn_blocking(move || {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &message, &mut signature)
                .map(|()| signature)
        });
        let signed = signing.await.map_err(|error| self.failed(error))?;
        signed.map_err(|error| self.failed(error))
    }
}

fn load(path: &Path) -> Result<KeyPair, KeyFileError> {
    let damaged = || KeyFileError::Damaged { path: path.to_owned() };
    let mut failed = false;
    let pkcs8 = key_file::load_or_create(path, || {
        let made = KeyPair::generate(KeySize::Rsa2048);
        let der =
            made.and_then(|key| AsDer::<Pkcs8V1Der<'_>>::as_der(&key).map(|d| d.as_ref().to_vec()));
        der.unwrap_or_else(|_| {
            failed = true;
            Vec::new()
        })
    })?;
    if failed {
        return Err(damaged());
    }
    KeyPair::from_pkcs8(&pkcs8).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_key_survives_a_restart_and_a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issuer.pk8");
        let first = FileSigner::new(&path).public_jwk().await.unwrap();
        assert_eq!(FileSigner::new(&path).public_jwk().await.unwrap(), first);
        std::fs::write(&path, b"no key").unwrap();
        let error = FileSigner::new(&path).sign(b"message").await.unwrap_err();
        let SignerError::Failed { key, source } = error else { panic!("{error}") };
        assert_eq!(key, path.display().to_string());
        assert!(source.to_string().contains("is damaged"), "{source}");
        assert_eq!(std::fs::read(&path).unwrap(), b"no key");
    }
}
