//! The master key on AWS: 32 random bytes from KMS, stored in the table as KMS wrapped them.
//!
//! The first function that needs the key creates it. The table accepts only one, so functions that
//! start concurrently all use the same key.

use crate::kms_failure::{BoxError, KmsFailure};
use async_trait::async_trait;
use aws_sdk_kms::Client;
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::DataKeySpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::ports::Clock;
use canyon_identity::master_key::MasterKey;
use canyon_identity::master_keys::{MasterKeyError, MasterKeySource};
use canyon_store::outcome::Created;
use canyon_store::wrapped_key::WrappedKey;
use canyon_store::{StoreError, Table};
use std::collections::HashMap;
use std::sync::Arc;

/// The master key of the installation with table `table`.
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

    /// Sets the name of the table that the key was created for, if this table was restored from a
    /// backup under another name: KMS unwraps the key only with that name. Without a name it is the
    /// table's own.
    #[must_use]
    pub fn created_for_table(mut self, table: Option<&str>) -> Self {
        if let Some(table) = table {
            table.clone_into(&mut self.made_for);
        }
        self
    }

    /// The encryption context. KMS unwraps a key only with an equal context, so it rejects the key
    /// of another table, and CloudTrail records what was unwrapped.
    fn context(&self) -> HashMap<String, String> {
        HashMap::from([
            ("canyon".to_owned(), "master-key".to_owned()),
            ("table".to_owned(), self.made_for.clone()),
        ])
    }

    /// Creates the key; `None` if another function was first.
    async fn create(&self) -> Result<Option<MasterKey>, MasterKeyError> {
        let request = self.kms.generate_data_key().key_id(&self.key);
        let request =
            request.key_spec(DataKeySpec::Aes256).set_encryption_context(Some(self.context()));
        let made = request.send().await.map_err(|error| self.failed(KmsFailure::of(error)))?;
        let (Some(wrapped), Some(plain)) = (made.ciphertext_blob, made.plaintext) else {
            return Err(self.failed(KmsFailure::Refused("the answer has no key".into())));
        };
        let key = self.read(&plain)?;
        let wrapped = WrappedKey {
            wrapped: STANDARD.encode(wrapped.as_ref()),
            wrapped_by: made.key_id.unwrap_or_default(),
            created_at: self.clock.now(),
        };
        match self.table.create_wrapped_key(&wrapped).await.map_err(table_failure)? {
            Created::Yes => Ok(Some(key)),
            Created::Exists | Created::Missing(_) => Ok(None),
        }
    }

    async fn open(&self, stored: &WrappedKey) -> Result<MasterKey, MasterKeyError> {
        let damaged = |source: BoxError| MasterKeyError {
            reason: "the master key in the table is damaged; restore the table".to_owned(),
            is_retryable: false,
            source,
        };
        let wrapped = STANDARD.decode(&stored.wrapped).map_err(|error| damaged(error.into()))?;
        let request = self.kms.decrypt().key_id(&self.key).ciphertext_blob(Blob::new(wrapped));
        let request = request.set_encryption_context(Some(self.context()));
        let opened = request.send().await.map_err(|error| self.failed(KmsFailure::of(error)))?;
        let plain = opened.plaintext.ok_or_else(|| damaged("the answer has no key".into()))?;
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
                    "KMS refused to use the key `{key}`; check that CANYON_MASTER_KEY names the key \
                     that this installation started with, that the function's role may use it, and, \
                     if the table was restored under another name, that CANYON_MASTER_KEY_TABLE \
                     names the first one"
                );
                (reason, false, source)
            }
        };
        MasterKeyError { reason, is_retryable, source }
    }
}

fn table_failure(error: StoreError) -> MasterKeyError {
    MasterKeyError {
        reason: "the table cannot be read or written".to_owned(),
        is_retryable: error.is_retryable(),
        source: error.into(),
    }
}

#[async_trait]
impl MasterKeySource for KmsMasterKey {
    async fn fetch(&self) -> Result<MasterKey, MasterKeyError> {
        if let Some(known) = self.table.wrapped_key().await.map_err(table_failure)? {
            return self.open(&known).await;
        }
        if let Some(made) = self.create().await? {
            return Ok(made);
        }
        let winner = self.table.wrapped_key().await.map_err(table_failure)?;
        let winner = winner.ok_or_else(|| MasterKeyError {
            reason: "other functions create and delete it".to_owned(),
            is_retryable: true,
            source: "the item of the master key does not exist".into(),
        })?;
        self.open(&winner).await
    }
}
