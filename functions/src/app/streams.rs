//! The streams of a run: pieces in, bytes out.
//!
//! A stream is a sequence of blobs, each named by the offset of its first byte and written once. A runner continues
//! at the offset that the answer to its last report returned. So a repeated piece is detected, and no byte is written
//! twice or skipped. Attempts of one deployment continue one stream.

use super::App;
use super::permissions::of_caller;
use super::runs::MAX_CHUNK;
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use canyon_api::attempt::{Chunk, Offsets, Stream};
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::logs_removal::LogsRemoval;
use canyon_domain::principal::{Principal, Role};
use canyon_identity::bearer::AttemptRef;
use canyon_store::StoreError;
use canyon_store::blob_keys;
use canyon_store::blobs::Put;
use canyon_store::streams::{MAX_OFFSET, MAX_STREAM, StreamRef};
use std::time::Duration;

/// The most bytes of a stream in one answer: a Lambda's answer has at most 6 MB.
const MAX_PART: u64 = 1024 * 1024;

/// The most pieces of a stream in one answer. Each is a request to the object store, and may be as short as one byte.
const MAX_PIECES: usize = 256;

/// The last line of a log that reached [`MAX_STREAM`].
const LOG_IS_CUT: &str =
    "\ncanyon: the log is longer than 1 GiB. Canyon does not keep the rest; the run goes on.\n";

/// The same for the events, whose lines are JSON.
const EVENTS_ARE_CUT: &str = concat!(
    "\n{\"@level\":\"warn\",\"@module\":\"canyon\",\"type\":\"log\",\"@message\":\"",
    "the events are longer than 1 GiB. Canyon does not keep the rest; the run goes on.\"}\n"
);

/// How many stored pieces a repeated piece may overlap: the number of answers that were lost in a row. Each costs two
/// requests to the object store, and may be as short as one byte.
const MAX_REPEATED: usize = 16;

/// Why a piece was not stored.
pub(crate) enum ChunkError {
    /// Its data is malformed.
    Data(&'static str),
    /// Its offset is beyond the largest stream.
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

fn logs_removed(id: DeploymentId, removal: &LogsRemoval) -> String {
    format!(
        "the log of deployment {id} was removed at {:.0} by the retention of {} days after its end; `canyon get retention` \
         shows how long this organization keeps logs",
        removal.at, removal.days
    )
}

fn stream_ref(org: OrgUuid, deployment: DeploymentId, stream: Stream) -> StreamRef {
    let stream = match stream {
        Stream::Log => blob_keys::Stream::Log,
        Stream::Events => blob_keys::Stream::Events,
    };
    StreamRef { org, deployment, stream }
}

impl App {
    /// Stores one piece, and returns the next offset of its stream. Bytes beyond [`MAX_STREAM`] are acknowledged and
    /// dropped: a run neither waits nor fails because of its output.
    pub(crate) async fn store_chunk(
        &self,
        of: AttemptRef,
        chunk: &Chunk,
    ) -> Result<u64, ChunkError> {
        let mut data = STANDARD
            .decode(&chunk.data)
            .map_err(|_| ChunkError::Data("it is not standard base64"))?;
        if data.is_empty() || data.len() > MAX_CHUNK {
            return Err(ChunkError::Data("a piece has 1 byte to 128 KiB"));
        }
        if chunk.offset > MAX_OFFSET {
            return Err(ChunkError::Offset("it is beyond the largest log"));
        }
        let end = chunk.offset + data.len() as u64;
        let stream = stream_ref(of.org, of.deployment, chunk.stream);
        if end <= MAX_STREAM {
            return self.store_piece(stream, chunk.offset, data.into()).await;
        }
        if chunk.offset <= MAX_STREAM {
            let room = usize::try_from(MAX_STREAM - chunk.offset).unwrap_or(usize::MAX);
            data.truncate(room);
            if !data.is_empty() {
                let stored = self.store_piece(stream, chunk.offset, data.into()).await?;
                if stored < MAX_STREAM {
                    return Ok(stored);
                }
            }
            self.close_stream(stream).await.map_err(ChunkError::Store)?;
        }
        Ok(end)
    }

    /// Stores the line that ends a stream of [`MAX_STREAM`] bytes. An encrypted log gets none, because it cannot
    /// contain plain text.
    async fn close_stream(&self, stream: StreamRef) -> Result<(), StoreError> {
        let line = match stream.stream {
            blob_keys::Stream::Log => LOG_IS_CUT,
            blob_keys::Stream::Events => EVENTS_ARE_CUT,
        };
        // The frames of an encrypted log begin with their length, whose first byte is 0.
        let begin = self.blobs.get_range(&stream.key(0), 0..1).await?;
        if begin.is_none_or(|begin| begin.as_ref() != [0]) {
            self.blobs.put_if_absent(&stream.key(MAX_STREAM), line.into()).await?;
        }
        Ok(())
    }

    async fn store_piece(
        &self,
        stream: StreamRef,
        mut offset: u64,
        mut rest: Bytes,
    ) -> Result<u64, ChunkError> {
        let end = offset + rest.len() as u64;
        for _ in 0..MAX_REPEATED {
            let key = stream.key(offset);
            let put = self.blobs.put_if_absent(&key, rest.clone()).await;
            if put.map_err(ChunkError::Store)? == Put::Stored {
                return Ok(end);
            }
            // The piece was sent again, because its answer was lost. The stored piece may be shorter than this one. A
            // runner that sends its result does not return to send the rest.
            let stored = self.blobs.get(&key).await.map_err(ChunkError::Store)?;
            let begun =
                stored.filter(|stored| rest.len() > stored.len() && rest.starts_with(stored));
            let Some(begun) = begun else { break };
            offset += begun.len() as u64;
            rest = rest.split_off(begun.len());
        }
        // More pieces overlap than are compared one by one. Store this one after the end: the runner does not repeat
        // a result.
        let stored = self.blobs.stream_end(stream).await.map_err(ChunkError::Store)?;
        if (offset..end).contains(&stored) {
            let known = usize::try_from(stored - offset).unwrap_or(usize::MAX);
            let put = self
                .blobs
                .put_if_absent(&stream.key(stored), rest.slice(known.min(rest.len())..))
                .await;
            if put.map_err(ChunkError::Store)? == Put::Stored {
                return Ok(end);
            }
        }
        Ok(stored)
    }

    /// The next offset of each stream of a deployment.
    pub(crate) async fn stream_ends(
        &self,
        org: OrgUuid,
        id: DeploymentId,
    ) -> Result<Offsets, StoreError> {
        Ok(Offsets {
            log: self.blobs.stream_end(stream_ref(org, id, Stream::Log)).await?,
            events: self.blobs.stream_end(stream_ref(org, id, Stream::Events)).await?,
        })
    }

    /// The bytes of a stream from `offset` on: at most about [`MAX_PART`] bytes and [`MAX_PIECES`] pieces.
    pub(crate) async fn stream_part(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        stream: Stream,
        offset: u64,
    ) -> Result<Bytes, StoreError> {
        let stream = stream_ref(org, id, stream);
        let mut pieces = self.blobs.pieces_from(stream, offset, MAX_PIECES).await?;
        let (most, mut end) = (offset.saturating_add(MAX_PART), offset);
        pieces.retain(|piece| {
            let is_next = (piece.offset..piece.end()).contains(&end) && end < most;
            end = if is_next { piece.end() } else { end };
            is_next
        });
        let mut part = BytesMut::new();
        let mut at = offset;
        for (piece, bytes) in pieces.iter().zip(self.blobs.bytes_of(stream, &pieces).await?) {
            let Some(bytes) = bytes else { break };
            let skip = usize::try_from(at - piece.offset).unwrap_or(usize::MAX).min(bytes.len());
            part.extend_from_slice(&bytes[skip..]);
            at = piece.end();
        }
        Ok(part.freeze())
    }

    /// The same, after a wait of at most `wait` for new bytes, if `by` may read the deployment.
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
        let read = async || -> Result<Option<Part>, AppError> {
            // Read the state first: no byte is written after the end, so the stream is then complete.
            let found = waiting.deployment(&self.table).await?;
            let deployment = of_caller(by, Role::Viewer, id, found)?;
            if let Some(removal) = &deployment.logs_removed {
                return Err(AppError::missing(logs_removed(id, removal)));
            }
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
            self.bounded_wait(by, wait, async |wait| waiting.until(wait, read).await).await?;
        let nothing = Part { bytes: Bytes::new(), next_offset: offset, complete: false };
        Ok(found.unwrap_or(nothing))
    }
}
