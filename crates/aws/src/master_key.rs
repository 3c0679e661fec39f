//! The master key on AWS: 32 random bytes of KMS, stored in the table as KMS wrapped them.
//!
//! Whoever needs the key first makes it. The table takes one only, so of several functions that
//! start at once all end with the same one.

use crate::kms_failure::{BoxError, KmsFailure};
use async_trait::async_trait;
use aws_sdk_kms::Client;
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::DataKeySpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::seam::Clock;
use canyon_identity::master_key::MasterKey;
use canyon_identity::master_keys::{MasterKeyError, MasterKeySource};
use canyon_store::outcome::Created;
use canyon_store::wrapped_key::WrappedKey;
use canyon_store::{StoreError, Table};
use std::collections::HashMap;
use std::sync::Arc;

/// The master key of the installation whose table is `table`.
pub struct KmsMasterKey {
    kms: Client,
    key: String,
    made_for: String,
    table: Table,
    clock: Arc<dyn Clock>,
}

impl KmsMasterKey {
    /// The master key that the symmetric KMS key `key` (id, ARN or alias) wraps.
    pub fn new(kms: Client, key: impl Into<String>, table: Table, clock: Arc<dyn Clock>) -> Self {
        let made_for = table.name().to_owned();
        Self { kms, key: key.into(), made_for, table, clock }
    }

    /// The same for a table that was restored from a backup of another one: KMS opens its wrapped key by the name of the
    /// table that the key was made for. Without a name it is the table's own.
    #[must_use]
    pub fn made_for(mut self, table: Option<&str>) -> Self {
        if let Some(table) = table {
            table.clone_into(&mut self.made_for);
        }
        self
    }

    /// KMS opens a wrapped key only for the same context: it refuses that of another table, and the account's trail
    /// says what was opened.
    fn context(&self) -> HashMap<String, String> {
        HashMap::from([
            ("canyon".to_owned(), "master-key".to_owned()),
            ("table".to_owned(), self.made_for.clone()),
        ])
    }

    /// Makes the key, unless somebody was first.
    async fn make(&self) -> Result<Option<MasterKey>, MasterKeyError> {
        let request = self.kms.generate_data_key().key_id(&self.key);
        let request =
            request.key_spec(DataKeySpec::Aes256).set_encryption_context(Some(self.context()));
        let made = request.send().await.map_err(|error| self.failed(KmsFailure::of(error)))?;
        let (Some(wrapped), Some(plain)) = (made.ciphertext_blob, made.plaintext) else {
            return Err(self.failed(KmsFailure::Refused("the answer holds no key".into())));
        };
        let key = self.read(&plain)?;
        let wrapped = WrappedKey {
            wrapped: STANDARD.encode(wrapped.as_ref()),
            wrapped_by: made.key_id.unwrap_or_default(),
            created_at: self.clock.now(),
        };
        match self.table.create_wrapped_key(&wrapped).await.map_err(stored)? {
            Created::Yes => Ok(Some(key)),
            Created::Exists | Created::Missing(_) => Ok(None),
        }
    }

    async fn open(&self, stored: &WrappedKey) -> Result<MasterKey, MasterKeyError> {
        let damaged = |source: BoxError| MasterKeyError {
            reason: "what is stored in the table is damaged; restore the table".to_owned(),
            is_retryable: false,
            source,
        };
        let wrapped = STANDARD.decode(&stored.wrapped).map_err(|error| damaged(error.into()))?;
        let request = self.kms.decrypt().key_id(&self.key).ciphertext_blob(Blob::new(wrapped));
        let request = request.set_encryption_context(Some(self.context()));
        let opened = request.send().await.map_err(|error| self.failed(KmsFailure::of(error)))?;
        let plain = opened.plaintext.ok_or_else(|| damaged("the answer holds no key".into()))?;
        self.read(&plain)
    }

    fn read(&self, plain: &Blob) -> Result<MasterKey, MasterKeyError> {
        let key = MasterKey::new(plain.as_ref());
        key.map_err(|error| self.failed(KmsFailure::Refused(error.into())))
    }

    fn failed(&self, failure: KmsFailure) -> MasterKeyError {
        let key = &self.key;
        let (reason, is_retryable, source) = match failure {
            KmsFailure::Busy(source) => {
                (format!("the KMS key `{key}` did not answer"), true, source)
            }
            KmsFailure::Unusable(text) => {
                let reason = format!(
                    "the KMS key `{key}` cannot be used; enable it, or cancel its deletion"
                );
                (reason, false, text.into())
            }
            KmsFailure::Refused(source) => {
                let reason = format!(
                    "the KMS key `{key}` refused; does CANYON_MASTER_KEY name the key that this \
                     installation began with, may the function's role use it, and if the table was \
                     restored under another name, does CANYON_MASTER_KEY_TABLE name the first?"
                );
                (reason, false, source)
            }
        };
        MasterKeyError { reason, is_retryable, source }
    }
}

fn stored(error: StoreError) -> MasterKeyError {
    MasterKeyError {
        reason: "the table does not give it".to_owned(),
        is_retryable: error.is_retryable(),
        source: error.into(),
    }
}

#[async_trait]
impl MasterKeySource for KmsMasterKey {
    async fn fetch(&self) -> Result<MasterKey, MasterKeyError> {
        if let Some(known) = self.table.wrapped_key().await.map_err(stored)? {
            return self.open(&known).await;
        }
        if let Some(made) = self.make().await? {
            return Ok(made);
        }
        let winner = self.table.wrapped_key().await.map_err(stored)?;
        let winner = winner.ok_or_else(|| MasterKeyError {
            reason: "it is being made and deleted by others".to_owned(),
            is_retryable: true,
            source: "the item of the master key is gone".into(),
        })?;
        self.open(&winner).await
    }
}
