//! Pages of lists, and the opaque cursors between them.
//!
//! A cursor holds only a position. Each request derives the partition from the caller's
//! organization. So a stolen, guessed or changed cursor leads only to another position in the
//! caller's own list. A cursor also holds a hash of the list's name, so that the API rejects a
//! cursor of another list instead of returning a meaningless page.

use crate::conditional::Item;
use crate::items::{from_item, text};
use crate::table::{PK, SK};
use crate::{StoreError, Table};
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// The part of a list that a caller requests.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Most items: 1 to 100.
    pub limit: u32,
    /// End of the previous page.
    pub after: Option<Cursor>,
}

/// Part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// Its items.
    pub items: Vec<T>,
    /// Its end, if more items follow.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Converts the items of the page.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(f).collect(), next: self.next }
    }
}

/// A position in one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    position: String,
    is_left_out: bool,
}

/// The cursor is damaged or belongs to another list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page token is not one of this list; start again without it")]
pub struct InvalidCursor;

impl Cursor {
    /// The position after the item with sort key `position`.
    pub fn after(position: impl Into<String>) -> Self {
        Self { position: position.into(), is_left_out: false }
    }

    /// The position after an item that the list may leave out. The API seals such a cursor, so that it does not name the
    /// item.
    pub(crate) fn after_left_out(position: impl Into<String>) -> Self {
        Self { position: position.into(), is_left_out: true }
    }

    /// The sort key after which the page begins.
    pub(crate) fn position(&self) -> &str {
        &self.position
    }

    /// The cursor as text. `list` names the list with all its filters.
    pub fn encode(&self, list: &str) -> String {
        let mut bytes = tag(list, &self.position).to_vec();
        bytes.extend_from_slice(self.position.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Whether the sort key in it is of an item that the list leaves out, which its reader may not be allowed to know.
    pub fn names_what_is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Parses a cursor of the list `list`.
    ///
    /// # Errors
    ///
    /// [`InvalidCursor`] if it is damaged or belongs to another list.
    pub fn decode(list: &str, token: &str) -> Result<Self, InvalidCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| InvalidCursor)?;
        let (head, position) = bytes.split_at_checked(8).ok_or(InvalidCursor)?;
        let position = std::str::from_utf8(position).map_err(|_| InvalidCursor)?;
        let usable = head == tag(list, position) && !position.is_empty() && position.len() <= 300;
        if usable { Ok(Self::after(position)) } else { Err(InvalidCursor) }
    }
}

fn tag(list: &str, position: &str) -> [u8; 8] {
    let digest = Sha256::digest(format!("{list}\0{position}"));
    let mut tag = [0; 8];
    tag.copy_from_slice(&digest[..8]);
    tag
}

/// A partition of the table, in the order of its sort keys.
#[derive(Clone, Debug)]
pub(crate) struct Partition<'a> {
    pub(crate) operation: &'static str,
    pub(crate) pk: String,
    /// Only sort keys with this prefix.
    pub(crate) prefix: Option<&'a str>,
    /// Greatest sort key first, which is newest first.
    pub(crate) descending: bool,
}

/// Most items that one request of [`Table::page`] or [`Table::all`] reads.
const MAX_QUERY_ITEMS: i32 = 1_000;

/// Most requests for one page. Each reads 1 MB at most.
const MAX_QUERIES: u32 = 4;

impl Table {
    /// A page of a partition, read consistently, filtered by `keep`: one read unit for each 4 KB
    /// read, also for what `keep` leaves out. Reads until the page is full, the response limit is
    /// reached, the list ends, or [`MAX_QUERIES`] requests are made. So a page may be short or empty although more
    /// items follow.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        partition: Partition<'_>,
        request: &PageRequest,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Page<T>, StoreError> {
        self.page_from(partition, None, request, keep).await
    }

    /// The same without the sort keys below `first`. The partition has no prefix then.
    pub(crate) async fn page_from<T: DeserializeOwned>(
        &self,
        partition: Partition<'_>,
        first: Option<&str>,
        request: &PageRequest,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Page<T>, StoreError> {
        let (operation, prefix) = (partition.operation, partition.prefix);
        let wanted = request.limit.clamp(1, 100) as usize;
        // One more than wanted shows whether more items follow. If `keep` leaves out so many that
        // this was not enough, few of many items match, and small requests would be many requests.
        let mut query_limit = i32::try_from(wanted + 1).unwrap_or(MAX_QUERY_ITEMS);
        // DynamoDB rejects a start outside of the prefix. Only a forged cursor points there.
        let inside = |cursor: &Cursor| {
            prefix.is_none_or(|p| cursor.position.starts_with(p))
                && first.is_none_or(|first| cursor.position.as_str() >= first)
        };
        let mut after = request.after.clone().filter(inside);
        let mut items = Vec::new();
        // The next page begins behind the last item of this one, so that no cursor reveals an item
        // that was left out.
        let mut last = None;
        for _ in 0..MAX_QUERIES {
            let mut query = self.query_of(&partition, query_limit);
            if let Some(first) = first {
                query = query
                    .key_condition_expression(format!("{PK} = :pk AND {SK} >= :first"))
                    .expression_attribute_values(":first", text(first));
            }
            let requested = std::mem::replace(&mut query_limit, MAX_QUERY_ITEMS);
            if let Some(cursor) = &after {
                query = query
                    .exclusive_start_key(PK, text(&partition.pk))
                    .exclusive_start_key(SK, text(cursor.position()));
            }
            let output = query
                .send()
                .await
                .map_err(|error| StoreError::sdk(operation, &partition.pk, error))?;
            let at_end = output.last_evaluated_key.is_none();
            let cut = !at_end && output.scanned_count < requested;
            for item in output.items.unwrap_or_default() {
                let position = sort_key(&item);
                let value = from_item(operation, item)?;
                if !keep(&value) {
                    after = Some(Cursor::after_left_out(position));
                    continue;
                }
                if items.len() == wanted {
                    return Ok(Page { items, next: last });
                }
                items.push(value);
                after = Some(Cursor::after(position));
                last.clone_from(&after);
            }
            if at_end {
                return Ok(Page { items, next: None });
            }
            // DynamoDB reads at most 1 MB. A hundred large items could exceed the 6 MB of a Lambda
            // response, so pages of large items are shorter.
            if cut && !items.is_empty() {
                return Ok(Page { items, next: last });
            }
        }
        Ok(Page { items, next: last.or(after) })
    }

    /// All items of a partition, read consistently, in order, but at most `max`: one read unit for
    /// each 4 KB.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        partition: Partition<'_>,
        max: usize,
    ) -> Result<Vec<T>, StoreError> {
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let query = self.query_of(&partition, MAX_QUERY_ITEMS).set_exclusive_start_key(start);
            let output = query
                .send()
                .await
                .map_err(|error| StoreError::sdk(partition.operation, &partition.pk, error))?;
            for item in output.items.unwrap_or_default() {
                items.push(from_item(partition.operation, item)?);
            }
            start = output.last_evaluated_key;
            if start.is_none() || items.len() >= max {
                items.truncate(max);
                return Ok(items);
            }
        }
    }

    /// A query for `limit` items of a partition, from its start.
    fn query_of(&self, partition: &Partition<'_>, limit: i32) -> QueryFluentBuilder {
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .consistent_read(true)
            .scan_index_forward(!partition.descending)
            .expression_attribute_values(":pk", text(&partition.pk))
            .limit(limit);
        match partition.prefix {
            Some(prefix) => query
                .key_condition_expression(format!("{PK} = :pk AND begins_with({SK}, :sk)"))
                .expression_attribute_values(":sk", text(prefix)),
            None => query.key_condition_expression(format!("{PK} = :pk")),
        }
    }
}

pub(crate) fn sort_key(item: &Item) -> String {
    match item.get(SK) {
        Some(AttributeValue::S(sk)) => sk.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_in_its_own_list_only() {
        let token = Cursor::after("my-runner").encode("runners");
        assert_eq!(Cursor::decode("runners", &token).unwrap().position(), "my-runner");
        assert_eq!(Cursor::decode("projects", &token), Err(InvalidCursor));
        assert_eq!(Cursor::decode("runners?type=local", &token), Err(InvalidCursor));
        for damaged in ["", "AAAA", "%%%", &token[1..], &format!("{token}A")] {
            assert_eq!(Cursor::decode("runners", damaged), Err(InvalidCursor), "{damaged}");
        }
    }
}
