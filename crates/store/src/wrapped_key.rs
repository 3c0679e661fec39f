//! The master key of an installation on AWS, wrapped by a key in KMS. One item for the whole table.

use crate::conditional::condition_outcome;
use crate::items::{Condition, to_item};
use crate::outcome::Created;
use crate::{StoreError, Table, keys};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A key that only KMS can unwrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrappedKey {
    /// The ciphertext from KMS, in base64.
    pub wrapped: String,
    /// The ARN of the key in KMS, for people. The function's settings name the key that unwraps.
    pub wrapped_by: String,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Table {
    /// The wrapped master key. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn wrapped_key(&self) -> Result<Option<WrappedKey>, StoreError> {
        self.read("read master key", &keys::wrapped_key()).await
    }

    /// Stores the wrapped master key, on condition that there is none. To replace it would make
    /// everything that is sealed with it unreadable. One write unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_wrapped_key(&self, key: &WrappedKey) -> Result<Created, StoreError> {
        const OPERATION: &str = "store master key";
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(to_item(OPERATION, &keys::wrapped_key(), key)?))
            .condition_expression(Condition::absent().expression);
        let done = condition_outcome(OPERATION, self.name(), put.send().await)?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }
}
