//! The streams of a run: pieces in, bytes out.
//!
//! A stream is a row of blobs, each named by the offset of its first byte and written once. A
//! runner goes on where the answer to its last report said, so a repeated piece is found to be
//! there, and nothing is written twice or skipped. Attempts of one deployment continue one stream.

use super::App;
use super::permissions::of_caller;
use super::runs::MAX_CHUNK;
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use canyon_api::attempt::{Chunk, Offsets, Stream};
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::principal::{Principal, Role};
use canyon_identity::bearer::AttemptRef;
use canyon_store::StoreError;
use canyon_store::blob_keys::{self, BlobKey, BlobPrefix};
use canyon_store::blobs::Put;
use std::time::Duration;

/// The most bytes of a stream in one answer: a Lambda's answer has at most 6 MB.
const MAX_PART: usize = 1024 * 1024;

/// The last place where a piece may begin: offsets have 16 digits in the names of blobs.
const MAX_OFFSET: u64 = 1_000_000_000_000_000;

/// How many stored pieces one that is sent again may repeat: as many as answers were lost in a row. Each costs two
/// requests to the object store, and a piece of one byte is allowed.
const MAX_REPEATED: usize = 16;

/// Why a piece was not stored.
pub(crate) enum ChunkError {
    /// Its data is not what it should be.
    Data(&'static str),
    /// It begins where no stream comes.
    Offset(&'static str),
    /// The object store failed.
    Store(StoreError),
}

/// A part of a stream.
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) next_offset: u64,
    pub(crate) complete: bool,
}

fn kind(stream: Stream) -> blob_keys::Stream {
    match stream {
        Stream::Log => blob_keys::Stream::Log,
        Stream::Events => blob_keys::Stream::Events,
    }
}

impl App {
    /// Stores one piece, and returns where its stream goes on.
    pub(crate) async fn store_chunk(
        &self,
        of: AttemptRef,
        chunk: &Chunk,
    ) -> Result<u64, ChunkError> {
        let data = STANDARD
            .decode(&chunk.data)
            .map_err(|_| ChunkError::Data("it is not standard base64"))?;
        if data.is_empty() || data.len() > MAX_CHUNK {
            return Err(ChunkError::Data("a piece has 1 byte to 128 KiB"));
        }
        if chunk.offset > MAX_OFFSET {
            return Err(ChunkError::Offset("it is beyond any log"));
        }
        let end = chunk.offset + data.len() as u64;
        let (mut offset, mut rest) = (chunk.offset, Bytes::from(data));
        for _ in 0..MAX_REPEATED {
            let key = BlobKey::chunk(of.org, of.deployment, kind(chunk.stream), offset);
            let put = self.blobs.put_if_absent(&key, rest.clone()).await;
            if put.map_err(ChunkError::Store)? == Put::Stored {
                return Ok(end);
            }
            // Sent again, because its answer was lost. What was stored then may be shorter than what is sent now, and
            // whoever brings a result does not come back with the rest.
            let stored = self.blobs.get(&key).await.map_err(ChunkError::Store)?;
            let begun =
                stored.filter(|stored| rest.len() > stored.len() && rest.starts_with(stored));
            let Some(begun) = begun else { break };
            offset += begun.len() as u64;
            rest = rest.split_off(begun.len());
        }
        // More was stored than is looked at one by one. What lies behind it is stored all the same: a result is not brought again.
        let stored = self.stream_end(of.org, of.deployment, chunk.stream).await;
        let stored = stored.map_err(ChunkError::Store)?;
        if (offset..end).contains(&stored) {
            let known = usize::try_from(stored - offset).unwrap_or(usize::MAX);
            let key = BlobKey::chunk(of.org, of.deployment, kind(chunk.stream), stored);
            let put = self.blobs.put_if_absent(&key, rest.slice(known.min(rest.len())..)).await;
            if put.map_err(ChunkError::Store)? == Put::Stored {
                return Ok(end);
            }
        }
        Ok(stored)
    }

    async fn stream_end(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        stream: Stream,
    ) -> Result<u64, StoreError> {
        let chunks = self.blobs.list(&BlobPrefix::chunks(org, id, kind(stream)), None).await?;
        let last = chunks.last().and_then(|(key, size)| Some(key.chunk_offset()? + size));
        Ok(last.unwrap_or(0))
    }

    /// Where each stream of a deployment ends now.
    pub(crate) async fn stream_ends(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<Offsets, StoreError> {
        Ok(Offsets {
            log: self.stream_end(org, id, Stream::Log).await?,
            events: self.stream_end(org, id, Stream::Events).await?,
        })
    }

    /// The bytes of a stream from `offset` on, at most [`MAX_PART`] of them.
    pub(crate) async fn stream_part(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        stream: Stream,
        offset: u64,
    ) -> Result<Bytes, StoreError> {
        let chunks = self.blobs.list(&BlobPrefix::chunks(org, id, kind(stream)), None).await?;
        let mut part = BytesMut::new();
        let mut at = offset;
        for (key, size) in chunks {
            let Some(start) = key.chunk_offset() else { continue };
            if start + size <= at {
                continue;
            }
            if start > at || part.len() >= MAX_PART {
                break;
            }
            let Some(bytes) = self.blobs.get(&key).await? else { break };
            let skip = usize::try_from(at - start).unwrap_or(usize::MAX).min(bytes.len());
            part.extend_from_slice(&bytes[skip..]);
            at = start + size;
        }
        Ok(part.freeze())
    }

    /// The same, waiting up to `wait` for something to come, if `by` may read the deployment.
    pub(crate) async fn follow(
        &self,
        by: &Principal,
        id: DeploymentId,
        stream: Stream,
        offset: u64,
        wait: Duration,
    ) -> Result<Part, AppError> {
        let org = by.org;
        let waiting = self.changes.wait_for(by, org, id);
        let look = async || -> Result<Option<Part>, AppError> {
            // The state first: whatever is written after an end was read belongs to no one.
            let found = waiting.deployment(&self.table).await?;
            let deployment = of_caller(by, Role::Viewer, id, found)?;
            let bytes = self.stream_part(org, id, stream, offset).await?;
            let ended = deployment.status.is_terminal();
            if bytes.is_empty() && !ended {
                return Ok(None);
            }
            let complete = ended && bytes.is_empty();
            let next_offset = offset + bytes.len() as u64;
            Ok(Some(Part { bytes, next_offset, complete }))
        };
        let found =
            self.bounded_wait(by, wait, async |wait| waiting.until(wait, look).await).await?;
        let nothing = Part { bytes: Bytes::new(), next_offset: offset, complete: false };
        Ok(found.unwrap_or(nothing))
    }
}
