//! What a dead job had not sent: the end of its log, and the resources that it may have left
//! behind.

use crate::orphaned_resources::{OrphanedResource, Remains, remains};
use crate::{LaunchError, Launcher, last_job};
use canyon_dispatch::{Dispatcher, JobRef, TailStream};
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::Phase;
use canyon_store::StoreError;
use canyon_store::blob_keys::{BlobKey, BlobPrefix, Stream};
use canyon_store::deployment_lists::Due;
use std::sync::Arc;

/// The maximum number of bytes that is fetched from one stream after a job's death.
const MAX_SALVAGE: u64 = 16 * 1024 * 1024;

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
        let mut end = self.log_end(due).await?.max(from);
        while end - from < MAX_SALVAGE {
            let tail = match dispatcher.tail(job, TailStream::Log, end - from).await {
                Ok(tail) if !tail.is_empty() => tail,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, deployment = %due.id, "the end of the job's log is lost");
                    break;
                }
            };
            let key = BlobKey::chunk(due.org, due.id, Stream::Log, end);
            end += tail.len() as u64;
            self.blobs.put_if_absent(&key, tail.into()).await?;
        }
        Ok(())
    }

    async fn log_end(&self, due: Due) -> Result<u64, StoreError> {
        let prefix = BlobPrefix::chunks(due.org, due.id, Stream::Log);
        let chunks = self.blobs.list(&prefix, None).await?;
        Ok(chunks.last().and_then(|(key, size)| Some(key.chunk_offset()? + size)).unwrap_or(0))
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
        let mut events = Vec::new();
        let prefix = BlobPrefix::chunks(due.org, due.id, Stream::Events);
        for (key, _) in self.blobs.list(&prefix, None).await? {
            if key.chunk_offset().is_some_and(|offset| offset >= from)
                && let Some(bytes) = self.blobs.get(&key).await?
            {
                events.extend_from_slice(&bytes);
            }
        }
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
