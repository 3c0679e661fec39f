//! What a dead job had not sent: the end of its log, and the resources that it may have left
//! behind.

use crate::orphaned_resources::{OrphanedResource, Remains, remains};
use crate::{LaunchError, Launcher};
use canyon_dispatch::{DispatchError, Dispatcher, JobRef, TailStream};
use canyon_domain::attempt::Salvage;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::Phase;
use canyon_domain::lifecycle::LEASE;
use canyon_store::StoreError;
use canyon_store::blob_keys::{BlobKey, Stream};
use canyon_store::deployment_lists::Due;
use canyon_store::streams::{MAX_STREAM, StreamRef};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The maximum number of bytes of a log that is fetched after a job's death.
const MAX_SALVAGE: u64 = 16 * 1024 * 1024;
/// The maximum number of bytes of events in which the launcher looks for orphaned resources, and of shipped pieces that
/// hold them. Of more events it reads the last ones: a resource whose creation a dead run had begun and not completed
/// is mostly among them.
const MAX_EVENTS: (u64, usize) = (16 * 1024 * 1024, 10_000);
/// Limits of fetching the events and then the rest of the log. The job's end is written in the same reconciliation, and
/// the functions `launcher` and `sweep` run for at most 55 s.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(20);
const LOG_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the launcher asks for a part of the events that the platform does not return, and the pause before that.
const EVENTS_TRIES: u32 = 3;
const EVENTS_PAUSE: Duration = Duration::from_secs(1);

/// What the platform has of a dead job's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The launcher has read them, or the job has changed nothing.
    Read,
    /// Nothing: it has removed them, or never had any.
    Nothing,
    /// It did not return them: a later call may read them.
    Unreadable,
}

impl Launcher {
    /// Reads what the dead job of attempt `number` left: records the resources whose creation it had begun and that its
    /// state may not contain, and that OpenTofu could not write the state; stores the rest of its log.
    ///
    /// If the platform has no events, those that the runner sent suffice if it has sent a report a moment before its job
    /// was gone. Otherwise the attempt is not [salvaged](Salvage). A runner that was changed since the launch
    /// (`is_same_runner` is false) may search another platform: that it has no events there says nothing.
    pub(crate) async fn salvage(
        &self,
        due: Due,
        deployment: &mut Deployment,
        number: u32,
        dispatcher: &Arc<dyn Dispatcher>,
        is_same_runner: bool,
    ) -> Result<Evidence, LaunchError> {
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == number);
        let Some((attempt, claim)) = attempt.and_then(|of| Some((of, of.claim.as_ref()?))) else {
            return Ok(Evidence::Read);
        };
        let is_late = attempt.ended.is_some();
        let gone_at = attempt.job_gone_at.unwrap_or_else(|| self.clock.now());
        // If Canyon ended the attempt itself, its runner had been silent.
        let has_ended_first = attempt.ended.as_ref().is_some_and(|ended| ended.at < gone_at);
        let was_reporting = !has_ended_first && gone_at < claim.heartbeat_at + LEASE;
        let job = JobRef { deployment: due.id, attempt: number, handle: attempt.handle.clone() };
        let (log_from, events_from) = claim.streams_from;
        let mut evidence = Evidence::Read;
        // The events first: they say what may be abandoned, and the time is limited.
        if deployment.kind().facts().has_state && attempt.phase >= Phase::Apply {
            let reported = attempt.unwritten.clone();
            let mut events = self.shipped_events(due, events_from).await?;
            evidence = add_events_of_platform(&mut events, &job, dispatcher).await;
            if evidence == Evidence::Nothing && !is_same_runner {
                evidence = Evidence::Unreadable;
            }
            // An object is written once: a late list of orphans must be whole.
            let is_late = is_late && evidence != Evidence::Unreadable;
            self.keep_remains(due, deployment, number, is_late, remains(&events, due.id, reported))
                .await?;
            let salvage = match evidence {
                // It creates nothing that could be in no state.
                _ if !deployment.mode.creates() => Salvage::Done,
                Evidence::Unreadable => Salvage::Pending,
                Evidence::Nothing if !was_reporting => Salvage::Impossible,
                Evidence::Nothing | Evidence::Read => Salvage::Done,
            };
            deployment.set_salvage(number, salvage, self.clock.now());
        }
        match timeout(LOG_TIMEOUT, self.ship_log(due, &job, dispatcher, log_from)).await {
            Ok(shipped) => shipped?,
            Err(_) => {
                tracing::warn!(deployment = %due.id, "fetching the rest of the job's log takes too long");
            }
        }
        Ok(evidence)
    }

    async fn keep_remains(
        &self,
        due: Due,
        deployment: &mut Deployment,
        number: u32,
        is_late: bool,
        found: Remains,
    ) -> Result<(), LaunchError> {
        match found.unwritten {
            Some(state) => _ = deployment.could_not_write_state(number, state.facts),
            None => deployment.wrote_state(number),
        }
        if !found.orphans.is_empty() || (is_late && deployment.kept.orphans > 0) {
            let key = if is_late { BlobKey::late_orphans } else { BlobKey::orphans };
            self.keep_orphans(&key(due.org, due.id, number), &found.orphans).await?;
            deployment.kept.late_orphans = is_late;
        }
        deployment.kept.orphans = u32::try_from(found.orphans.len()).unwrap_or(u32::MAX);
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

    /// The events that the runner of this attempt has sent.
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
        key: &BlobKey,
        orphans: &[OrphanedResource],
    ) -> Result<(), LaunchError> {
        let bytes = serde_json::to_vec(orphans)
            .map_err(|source| StoreError::corrupt("store orphans", key.to_string(), source))?;
        self.blobs.put_if_absent(key, bytes.into()).await?;
        Ok(())
    }
}

/// Adds the events that the platform still has to those that the runner has `sent`. An event may be in both, which does no
/// harm: [`remains`] gives the same result for repeated events.
async fn add_events_of_platform(
    sent: &mut Vec<u8>,
    job: &JobRef,
    dispatcher: &Arc<dyn Dispatcher>,
) -> Evidence {
    let failure = match timeout(EVENTS_TIMEOUT, events_of_platform(job, dispatcher)).await {
        Ok(Ok(rest)) if rest.is_empty() => return Evidence::Nothing,
        Ok(Ok(rest)) => {
            // The last line that the runner sent may be incomplete.
            sent.push(b'\n');
            sent.extend(rest);
            return Evidence::Read;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not within {} s", EVENTS_TIMEOUT.as_secs()),
    };
    tracing::warn!(error = failure, deployment = %job.deployment, "cannot read the events of the dead job");
    Evidence::Unreadable
}

/// The events that the platform has of a job.
async fn events_of_platform(
    job: &JobRef,
    dispatcher: &Arc<dyn Dispatcher>,
) -> Result<Vec<u8>, DispatchError> {
    let most = usize::try_from(MAX_EVENTS.0).unwrap_or(usize::MAX);
    let (mut events, mut position, mut failures) = (Vec::new(), 0, 0);
    loop {
        match dispatcher.tail(job, TailStream::Events, position).await {
            Ok(part) if part.is_empty() => return Ok(events),
            Ok(part) => {
                (position, failures) = (position + part.len() as u64, 0);
                events.extend(part);
                // Twice as much as is kept, so that not every part moves all others.
                if events.len() >= 2 * most {
                    events.drain(..events.len() - most);
                }
            }
            Err(error) => {
                failures += 1;
                if failures == EVENTS_TRIES {
                    return Err(error);
                }
                tokio::time::sleep(EVENTS_PAUSE).await;
            }
        }
    }
}
