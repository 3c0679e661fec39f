//! Reads many items by their keys in one request.

use crate::conditional::Item;
use crate::{StoreError, Table, backoff};
use aws_sdk_dynamodb::types::KeysAndAttributes;

/// How often items that DynamoDB did not process are requested again.
const MAX_ROUNDS: u32 = 8;

impl Table {
    /// The items at `keys` (at most 100), in no order; missing items are left out. Read
    /// consistently: one read unit for each item up to 4 KB.
    pub(crate) async fn batch(
        &self,
        operation: &'static str,
        mut keys: Vec<Item>,
    ) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut round = 0;
        while !keys.is_empty() {
            let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true);
            let wanted = wanted
                .build()
                .map_err(|source| StoreError::corrupt(operation, self.name(), source))?;
            let request = self.client().batch_get_item().request_items(self.name(), wanted);
            let output = request
                .send()
                .await
                .map_err(|error| StoreError::sdk(operation, self.name(), error))?;
            items.extend(output.responses.unwrap_or_default().into_values().flatten());
            // DynamoDB may leave keys unprocessed, even all of them, when it is busy.
            keys = output
                .unprocessed_keys
                .unwrap_or_default()
                .remove(self.name())
                .map_or_else(Vec::new, |left| left.keys);
            if !keys.is_empty() {
                if round == MAX_ROUNDS {
                    return Err(StoreError::Throttled {
                        operation,
                        thing: self.name().to_owned(),
                        source: format!("{} items were left unread", keys.len()).into(),
                    });
                }
                backoff::pause(round).await;
                round += 1;
            }
        }
        Ok(items)
    }
}
