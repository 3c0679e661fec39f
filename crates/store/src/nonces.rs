//! Requests that the API carries out once: the nonces that callers have used.

use crate::conditional::condition_outcome;
use crate::items::{key_item, number, text};
use crate::table::TTL;
use crate::{StoreError, Table, keys};
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::CallerId;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// How long a nonce is remembered. No network delivers a request that is older.
const LIFE: SignedDuration = SignedDuration::from_hours(24);

/// Whether a nonce is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonce {
    /// The caller had not used it before.
    New,
    /// The caller has used it within the last day.
    Used,
}

impl Table {
    /// Records a nonce of a caller's requests. One write unit.
    ///
    /// The SDK repeats a write whose answer is lost. The repetition finds the mark of its own first write and counts
    /// as new as well.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the write. If it does not answer, the nonce may be
    /// recorded.
    pub async fn use_nonce(
        &self,
        of: OrgUuid,
        by: &CallerId,
        nonce: &str,
        now: Timestamp,
    ) -> Result<Nonce, StoreError> {
        let mut item = key_item(&keys::nonce(of, by, nonce));
        item.insert("mark".to_owned(), text(Uuid::new_v4()));
        item.insert(TTL.to_owned(), number((now + LIFE).as_second()));
        let mark = item["mark"].clone();
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(item))
            // DynamoDB deletes expired items days late.
            .condition_expression("attribute_not_exists(mark) OR mark = :mark OR #ttl <= :now")
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_values(":mark", mark)
            .expression_attribute_values(":now", number(now.as_second()));
        let done = condition_outcome("record nonce", nonce, put.send().await)?;
        Ok(if done.is_ok() { Nonce::New } else { Nonce::Used })
    }
}
