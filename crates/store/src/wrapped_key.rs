//! The master key of an installation on AWS, wrapped by a key in KMS. One item of the whole table.

use crate::conditional::settle;
use crate::items::{Condition, to_item};
use crate::outcome::Created;
use crate::{StoreError, Table, keys};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A key that only KMS can open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrappedKey {
    /// What KMS gave, in base64.
    pub wrapped: String,
    /// The ARN of the key in KMS, for people: what opens it is a setting of the function.
    pub wrapped_by: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Table {
    /// The wrapped master key. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn wrapped_key(&self) -> Result<Option<WrappedKey>, StoreError> {
        self.read("read master key", &keys::wrapped_key()).await
    }

    /// Stores the wrapped master key, on condition that there is none: whatever was sealed with the
    /// other one would be lost. One write unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn create_wrapped_key(&self, key: &WrappedKey) -> Result<Created, StoreError> {
        const OPERATION: &str = "store master key";
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(to_item(OPERATION, &keys::wrapped_key(), key)?))
            .condition_expression(Condition::absent().expression);
        let done = settle(OPERATION, self.name(), put.send().await)?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }
}
