//! Pages of lists, and the opaque cursors between them.
//!
//! A cursor holds a position only; the partition that it is a position in is made anew from the
//! caller's organization at each request. So a cursor that was taken, guessed or changed leads
//! nowhere but to another position in the caller's own list. It also holds a hash of the list's
//! name, so that a cursor of another list is refused instead of giving a page of nonsense.

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

/// Which part of a list is wanted.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The most items, 1 to 100.
    pub limit: u32,
    /// Where the last page ended.
    pub after: Option<Cursor>,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// Its items.
    pub items: Vec<T>,
    /// Where it ended, if more follows.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// The same page of other items.
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

/// The cursor is damaged, or of another list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page token is not one of this list; start again without it")]
pub struct ForeignCursor;

impl Cursor {
    /// After the item whose sort key is `position`.
    pub(crate) fn after(position: impl Into<String>) -> Self {
        Self { position: position.into(), is_left_out: false }
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

    /// Whether it names an item that the list leaves out, which its reader may not be allowed to know.
    pub fn names_what_is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Reads a cursor of the list `list`.
    ///
    /// # Errors
    ///
    /// [`ForeignCursor`] when it is damaged or of another list.
    pub fn decode(list: &str, token: &str) -> Result<Self, ForeignCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| ForeignCursor)?;
        let (head, position) = bytes.split_at_checked(8).ok_or(ForeignCursor)?;
        let position = std::str::from_utf8(position).map_err(|_| ForeignCursor)?;
        let usable = head == tag(list, position) && !position.is_empty() && position.len() <= 300;
        if usable { Ok(Self::after(position)) } else { Err(ForeignCursor) }
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
    /// Only sort keys that begin so.
    pub(crate) prefix: Option<&'a str>,
    /// Newest (greatest sort key) first.
    pub(crate) descending: bool,
}

/// The most items that one request of [`Table::page`] or [`Table::all`] looks at.
const MAX_BITE: i32 = 1_000;

/// The most requests for one page. Each reads 1 MB at most.
const MAX_BITES: u32 = 4;

impl Table {
    /// A page of a partition, read consistently, of those items that `keep` wants: one read unit
    /// for each 4 KB read, wanted or not. Reads on until the page is full or as large as may be, the list is at its end, or
    /// [`MAX_BITES`] requests were made: so a page may be short, or empty, although more follows.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        partition: Partition<'_>,
        request: &PageRequest,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Page<T>, StoreError> {
        let (operation, prefix) = (partition.operation, partition.prefix);
        let wanted = request.limit.clamp(1, 100) as usize;
        // One more than wanted tells whether more follows. If `keep` leaves out so much that this
        // was not enough, few items are wanted among many, and small bites would be many requests.
        let mut bite = i32::try_from(wanted + 1).unwrap_or(MAX_BITE);
        // DynamoDB refuses a start outside of the prefix, where only a forged cursor leads.
        let inside = |cursor: &Cursor| prefix.is_none_or(|p| cursor.position.starts_with(p));
        let mut after = request.after.clone().filter(inside);
        let mut items = Vec::new();
        // The next page begins behind the last item of this one: a cursor tells of nothing that is left out.
        let mut last = None;
        for _ in 0..MAX_BITES {
            let mut query = self.query_of(&partition, bite);
            let looked_at = std::mem::replace(&mut bite, MAX_BITE);
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
            let cut = !at_end && output.scanned_count < looked_at;
            for item in output.items.unwrap_or_default() {
                let position = sort_key(&item);
                let value = from_item(operation, item)?;
                if !keep(&value) {
                    after = Some(Cursor { position, is_left_out: true });
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
            // DynamoDB reads 1 MB at most. A hundred large items could be more than Lambda can
            // answer (6 MB), so what is large comes in shorter pages.
            if cut && !items.is_empty() {
                return Ok(Page { items, next: last });
            }
        }
        Ok(Page { items, next: last.or(after) })
    }

    /// The whole of a partition, read consistently, in its order, but at most `max` items: one read
    /// unit for each 4 KB.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        partition: Partition<'_>,
        max: usize,
    ) -> Result<Vec<T>, StoreError> {
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let query = self.query_of(&partition, MAX_BITE).set_exclusive_start_key(start);
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

    /// Asks for `limit` items of a partition, from its beginning.
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
        assert_eq!(Cursor::decode("projects", &token), Err(ForeignCursor));
        assert_eq!(Cursor::decode("runners?type=local", &token), Err(ForeignCursor));
        for damaged in ["", "AAAA", "%%%", &token[1..], &format!("{token}A")] {
            assert_eq!(Cursor::decode("runners", damaged), Err(ForeignCursor), "{damaged}");
        }
    }
}
