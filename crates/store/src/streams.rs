//! The pieces of a stream of a deployment's runs: where the stream ends, and which pieces hold what a reader asks for.
//!
//! A look reads the names of few pieces, however long the stream is. An object store lists names from any key on, but only
//! in ascending order.

use crate::StoreError;
use crate::blob_keys::{BlobKey, BlobPrefix, Stream};
use crate::blobs::Blobs;
use bytes::Bytes;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use futures::stream::{self, StreamExt, TryStreamExt};

/// Most bytes that Canyon keeps of a stream of a deployment, over all its attempts.
pub const MAX_STREAM: u64 = 1024 * 1024 * 1024;

/// Largest offset of a piece: offsets have 16 digits in the names of blobs.
pub const MAX_OFFSET: u64 = 1_000_000_000_000_000;

/// Most bytes of a piece. Pieces that the launcher salvages are that large; those of runners are smaller.
const MAX_PIECE: u64 = 1024 * 1024;

/// How many bytes before an offset the first search for the piece that holds it begins. Where a program prints line by
/// line, pieces are small.
const NEAR: u64 = 16 * 1024;

/// How many names one request to the object store lists. S3 has no larger answers.
const PAGE: usize = 1_000;

/// How many pieces are read at once.
const READS: usize = 16;

/// Names a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef {
    /// The organization.
    pub org: OrgUuid,
    /// The deployment.
    pub deployment: DeploymentId,
    /// Its log or its events.
    pub stream: Stream,
}

/// A piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its first byte in the stream.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Piece {
    /// Offset of the next piece.
    pub fn end(self) -> u64 {
        self.offset + self.size
    }
}

impl StreamRef {
    /// The key of the piece that begins at `offset`.
    pub fn key(self, offset: u64) -> BlobKey {
        BlobKey::chunk(self.org, self.deployment, self.stream, offset)
    }
}

impl Blobs {
    /// Where a stream ends; 0 if there is none. The number of requests grows with the logarithm of the stream's length.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn stream_end(&self, of: StreamRef) -> Result<u64, StoreError> {
        // The search has passed every piece that begins before `from`. No piece begins at `beyond` or later, unless a
        // runner has stored it since.
        let (mut from, mut end, mut beyond, mut step) = (0, 0, None::<u64>, 0);
        let full = self.names_of_a_request();
        loop {
            let at = (from + step).min(MAX_OFFSET);
            let page = self.pieces(of, at).await?;
            match (page.first(), page.last()) {
                (Some(first), Some(last)) => {
                    end = last.end();
                    if page.len() < full {
                        return Ok(end);
                    }
                    from = last.offset + 1;
                    let span = from - first.offset;
                    step = match beyond {
                        None => (step * 2).max(span),
                        Some(beyond) => beyond.saturating_sub(from) / 2,
                    };
                }
                _ if step == 0 => return Ok(end),
                _ => (beyond, step) = (Some(at), step / 2),
            }
        }
    }

    /// The pieces that hold the bytes of a stream from `offset` on, in order, at most `most`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn pieces_from(
        &self,
        of: StreamRef,
        offset: u64,
        most: usize,
    ) -> Result<Vec<Piece>, StoreError> {
        let mut reach = NEAR;
        loop {
            let begin = offset.saturating_sub(reach);
            let mut found = self.pieces_around(of, begin, offset, most).await?;
            match found.iter().rposition(|piece| piece.offset <= offset) {
                Some(place) => drop(found.drain(..place)),
                None if begin > 0 && reach < MAX_PIECE => {
                    reach *= 8;
                    continue;
                }
                None => {}
            }
            found.truncate(most);
            return Ok(found);
        }
    }

    /// The last pieces of a stream that begin at `from` or later, in order: at most `count`, with at most `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn last_pieces(
        &self,
        of: StreamRef,
        from: u64,
        bytes: u64,
        count: usize,
    ) -> Result<Vec<Piece>, StoreError> {
        let end = self.stream_end(of).await?;
        let mut reach = end.saturating_sub(from).min(bytes);
        loop {
            let begin = end.saturating_sub(reach);
            // One more than wanted shows whether there are too many, and the first one may begin before.
            let mut found = self.pieces_from(of, begin, count + 2).await?;
            found.retain(|piece| piece.offset >= begin);
            if found.len() <= count {
                return Ok(found);
            }
            reach /= 2;
        }
    }

    /// The pieces that begin at `begin` or later: all before `offset`, and at least `most` behind it, if the stream has so
    /// many.
    async fn pieces_around(
        &self,
        of: StreamRef,
        begin: u64,
        offset: u64,
        most: usize,
    ) -> Result<Vec<Piece>, StoreError> {
        let (mut found, mut at) = (Vec::new(), begin);
        loop {
            let page = self.pieces(of, at).await?;
            let is_last = page.len() < self.names_of_a_request();
            found.extend(page);
            let behind = found.iter().rev().take_while(|piece| piece.offset > offset).count();
            match found.last() {
                Some(last) if !is_last && behind < most => at = last.offset + 1,
                _ => return Ok(found),
            }
        }
    }

    /// The bytes of these pieces, in order. A piece that does not exist any more has none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn bytes_of(
        &self,
        of: StreamRef,
        pieces: &[Piece],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let keys: Vec<_> = pieces.iter().map(|piece| of.key(piece.offset)).collect();
        let read = |key: BlobKey| async move { self.get(&key).await };
        stream::iter(keys).map(read).buffered(READS).try_collect().await
    }

    /// How many names one request lists. A folder lists all of them each time.
    fn names_of_a_request(&self) -> usize {
        if self.lists_in_order() { PAGE } else { usize::MAX }
    }

    /// The first pieces that begin at `at` or later: one request.
    async fn pieces(&self, of: StreamRef, at: u64) -> Result<Vec<Piece>, StoreError> {
        let prefix = BlobPrefix::chunks(of.org, of.deployment, of.stream);
        let after = at.checked_sub(1).map(|before| of.key(before));
        let found = self.list_at_most(&prefix, after.as_ref(), self.names_of_a_request()).await?;
        let piece = |(key, size): (BlobKey, u64)| Some(Piece { offset: key.chunk_offset()?, size });
        Ok(found.into_iter().filter_map(piece).collect())
    }
}
