//! What a dead job had not sent: the end of its log, and the resources that it may have left
//! behind.

use crate::orphaned_resources::{OrphanedResource, Remains, remains};
use crate::{LaunchError, Launcher, last_job};
use canyon_dispatch::{Dispatcher, JobRef, TailStream};
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::Phase;
use canyon_store::StoreError;
use canyon_store::blob_keys::{BlobKey, Stream};
use canyon_store::deployment_lists::Due;
use canyon_store::streams::{MAX_STREAM, StreamRef};
use std::sync::Arc;

/// The maximum number of bytes that is fetched from one stream after a job's death.
const MAX_SALVAGE: u64 = 16 * 1024 * 1024;
/// The maximum number of bytes of shipped events in which the launcher looks for orphaned resources, and of pieces that
/// hold them. Of more events it reads the last ones.
const MAX_EVENTS: (u64, usize) = (16 * 1024 * 1024, 10_000);

impl Launcher {
    /// Stores the rest of a dead job's log, and records the resources whose creation it had begun
    /// and that its state may not contain, or that OpenTofu could not write the state.
    pub(crate) async fn salvage(
        &self,
        due: Due,
        deployment: &mut Deployment,
        dispatcher: &Arc<dyn Dispatcher>,
    ) -> Result<(), LaunchError> {
        let Some(job) = last_job(deployment) else { return Ok(()) };
        let Some(attempt) = deployment.open_attempt() else { return Ok(()) };
        let Some(claim) = &attempt.claim else { return Ok(()) };
        let (log_from, events_from) = claim.streams_from;
        let reached = attempt.phase;
        self.ship_log(due, &job, dispatcher, log_from).await?;
        if reached < Phase::Apply {
            return Ok(());
        }
        let events = self.events(due, &job, dispatcher, events_from).await?;
        let Remains { orphans, state_unwritten } = remains(&events);
        // The run itself knows more of that state, if its report of it has arrived.
        let is_reported = deployment.open_attempt().is_some_and(|of| of.unwritten.is_some());
        if state_unwritten && !is_reported {
            deployment.could_not_write_state(job.attempt, None);
        }
        if !orphans.is_empty() {
            self.keep_orphans(due, &job, &orphans).await?;
            deployment.kept.orphans = u32::try_from(orphans.len()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// The runner masks and seals its log before it writes it, so the rest can be stored unchanged.
    /// The runner masks events only when it sends them, so the launcher reads them here and does
    /// not store them.
    async fn ship_log(
        &self,
        due: Due,
        job: &JobRef,
        dispatcher: &Arc<dyn Dispatcher>,
        from: u64,
    ) -> Result<(), LaunchError> {
        let log = StreamRef { org: due.org, deployment: due.id, stream: Stream::Log };
        let mut end = self.blobs.stream_end(log).await?.max(from);
        // Canyon keeps no more of a log.
        while end - from < MAX_SALVAGE && end < MAX_STREAM {
            let mut tail = match dispatcher.tail(job, TailStream::Log, end - from).await {
                Ok(tail) if !tail.is_empty() => tail,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, deployment = %due.id, "the end of the job's log is lost");
                    break;
                }
            };
            tail.truncate(usize::try_from(MAX_STREAM - end).unwrap_or(usize::MAX));
            let key = log.key(end);
            end += tail.len() as u64;
            self.blobs.put_if_absent(&key, tail.into()).await?;
        }
        Ok(())
    }

    /// The events of this attempt: first those that the runner sent, then those that the platform
    /// still has. An event may be in both, which does no harm: [`remains`] gives the same result for
    /// repeated events.
    async fn events(
        &self,
        due: Due,
        job: &JobRef,
        dispatcher: &Arc<dyn Dispatcher>,
        from: u64,
    ) -> Result<Vec<u8>, LaunchError> {
        let mut events = self.shipped_events(due, from).await?;
        // The last line that the runner sent may be incomplete.
        events.push(b'\n');
        let mut position = 0;
        while position < MAX_SALVAGE {
            match dispatcher.tail(job, TailStream::Events, position).await {
                Ok(tail) if !tail.is_empty() => {
                    position += tail.len() as u64;
                    events.extend(tail);
                }
                Ok(_) | Err(_) => break,
            }
        }
        Ok(events)
    }

    /// The events that the runner of this attempt has sent. Of more than [`MAX_EVENTS`] the last ones: a resource whose
    /// creation a dead run had begun and not completed is mostly among them.
    async fn shipped_events(&self, due: Due, from: u64) -> Result<Vec<u8>, StoreError> {
        let stream = StreamRef { org: due.org, deployment: due.id, stream: Stream::Events };
        let (bytes, count) = MAX_EVENTS;
        let pieces = self.blobs.last_pieces(stream, from, bytes, count).await?;
        let found = self.blobs.bytes_of(stream, &pieces).await?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        Ok(found.concat())
    }

    async fn keep_orphans(
        &self,
        due: Due,
        job: &JobRef,
        orphans: &[OrphanedResource],
    ) -> Result<(), LaunchError> {
        let key = BlobKey::orphans(due.org, due.id, job.attempt);
        let bytes = serde_json::to_vec(orphans)
            .map_err(|source| StoreError::corrupt("store orphans", key.to_string(), source))?;
        self.blobs.put_if_absent(&key, bytes.into()).await?;
        Ok(())
    }
}
