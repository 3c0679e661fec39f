//! The pieces of a stream of a deployment's runs: where it ends, and which of them hold what a reader asks for.
//!
//! A look reads the names of few pieces, however long the stream is. The object store lists names from any place on, but in
//! one direction only.

use crate::StoreError;
use crate::blob_keys::{BlobKey, BlobPrefix, Stream};
use crate::blobs::Blobs;
use canyon_domain::ids::{DeploymentId, OrgUuid};

/// The most bytes that are kept of a stream of a deployment, over all its attempts.
pub const MAX_STREAM: u64 = 1024 * 1024 * 1024;

/// The last place where a piece may begin: offsets have 16 digits in the names of blobs.
pub const MAX_OFFSET: u64 = 1_000_000_000_000_000;

/// The most bytes of a piece: of what the launcher salvages; runners ship smaller ones.
const MAX_PIECE: u64 = 1024 * 1024;

/// How far before an offset the piece that holds it is looked for at first. Pieces are small where a program prints line by
/// line.
const NEAR: u64 = 16 * 1024;

/// How many names one request to the object store lists: S3 has no larger answers.
const PAGE: usize = 1_000;

/// Which stream.
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
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

impl Piece {
    /// Where the next one begins.
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
        // Every piece that begins before `from` has been passed. None begins at `beyond` or later.
        let (mut from, mut end, mut beyond, mut step) = (0, 0, None::<u64>, 0);
        loop {
            let at = (from + step).min(MAX_OFFSET);
            let page = self.pieces(of, at).await?;
            match (page.first(), page.last()) {
                (Some(first), Some(last)) => {
                    end = last.end();
                    if page.len() < PAGE {
                        return Ok(end);
                    }
                    from = last.offset + 1;
                    let span = from - first.offset;
                    step = beyond.map_or((step * 2).max(span), |beyond| (beyond - from) / 2);
                }
                _ if step == 0 => return Ok(end),
                _ => (beyond, step) = (Some(at), step / 2),
            }
        }
    }

    /// The pieces that hold the bytes of a stream from `offset` on, in their order, at most `most` of them.
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

    /// The pieces that begin from `begin` on: all before `offset`, and behind it at least `most`, if there are so many.
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
            let is_last = page.len() < PAGE;
            found.extend(page);
            let behind = found.iter().rev().take_while(|piece| piece.offset > offset).count();
            match found.last() {
                Some(last) if !is_last && behind < most => at = last.offset + 1,
                _ => return Ok(found),
            }
        }
    }

    /// The next pieces that begin at `at` or later, at most [`PAGE`]: one request.
    async fn pieces(&self, of: StreamRef, at: u64) -> Result<Vec<Piece>, StoreError> {
        let prefix = BlobPrefix::chunks(of.org, of.deployment, of.stream);
        let after = at.checked_sub(1).map(|before| of.key(before));
        let found = self.list_at_most(&prefix, after.as_ref(), PAGE).await?;
        let piece = |(key, size): (BlobKey, u64)| Some(Piece { offset: key.chunk_offset()?, size });
        Ok(found.into_iter().filter_map(piece).collect())
    }
}
