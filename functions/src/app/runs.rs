//! Requests of runners: claims, reports, results.
//!
//! Each request reads the deployment and is decided on its current state, or on that of at most a second before
//! (`run_token`); what it writes is conditional on that. So a token ends with its attempt, and a late request of a
//! superseded attempt changes nothing.

use super::App;
use super::results::unwritten_facts;
use super::run_token::{Proved, RunToken};
use super::streams::ChunkError;
use crate::app::error::AppError;
use canyon_api::attempt::{
    Chunk, Claimed, Offsets, REPORT_FORMAT, ReportAnswer, ReportBody, Stream,
};
use canyon_domain::attempt::{ApplyNote, Attempt, Outcome, SecretHash};
use canyon_domain::claimant::Claimant;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Job;
use canyon_domain::lifecycle::{self, Refused};
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret;

/// Seconds between two reports when there is nothing to ship.
const REPORT_SECONDS: u32 = 15;

/// The failure of a job that uses a feature which an older runner would ignore.
fn too_old(job: &Job, has: u32) -> String {
    format!(
        "the canyon-runner in the job's image is older than this Canyon, and does not know all that this job needs: format {} of jobs, \
         and it knows {has}. Use the image of this version: `job.image` of the runner",
        job.required_format()
    )
}

impl App {
    /// A runner claims an attempt with its claim code.
    ///
    /// # Errors
    ///
    /// 401 when the code is wrong; 409 when another runner has the attempt or it is over.
    pub(crate) async fn claim(
        &self,
        of: AttemptRef,
        code: &SecretHash,
        claimant: Claimant<'_>,
    ) -> Result<Claimed, AppError> {
        let keys = self.master_keys.get().await?;
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(of.org, of.deployment).await?;
            let mut deployment = found.ok_or_else(AppError::unauthorized)?;
            let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
            let attempt = attempt.ok_or_else(AppError::unauthorized)?;
            // The same claimant gets the same token: a claim that the network repeats invalidates nothing.
            let token = keys.job_token(of, attempt.fence, claimant.drawn);
            let hash = bearer::hash(token.expose_secret());
            let from = match &attempt.claim {
                Some(claim) => claim.streams_from,
                None if of.number == 1 => (0, 0),
                None => {
                    let ends = self.stream_ends(of.org, of.deployment).await?;
                    (ends.log, ends.events)
                }
            };
            let is_new = lifecycle::claim(
                &mut deployment,
                of.number,
                code,
                claimant,
                hash,
                from,
                self.now(),
            )?;
            // Read only for who has the claim code, and in one request.
            let parts = self.table.job_parts(of.org, &deployment).await?;
            if is_new {
                let ran_at = self.place_of_job(of, &deployment, parts.runner.as_ref()).await?;
                if let Some(attempt) = deployment.attempts.last_mut() {
                    attempt.ran_at = ran_at;
                }
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::Launcher).await?;
                if saved == Saved::Lost {
                    continue;
                }
            }
            let job = match Box::pin(self.job(of, &deployment, parts)).await? {
                Ok(job) => job,
                // The network may repeat a claim of a job that runs with the earlier definition.
                Err(reason) if !is_new => return Err(AppError::conflict(reason)),
                Err(reason) => {
                    return Err(Box::pin(self.end_unrunnable(of, deployment, &reason)).await?);
                }
            };
            if claimant.job_format < job.required_format() {
                let reason = too_old(&job, claimant.job_format);
                if !is_new {
                    return Err(AppError::conflict(reason));
                }
                return Err(Box::pin(self.end_unrunnable(of, deployment, &reason)).await?);
            }
            let token = token.expose_secret().to_owned();
            let read_token = Some(keys.read_token(of, job.fence).expose_secret().to_owned());
            let offsets = Offsets { log: from.0, events: from.1 };
            let report_seconds = REPORT_SECONDS;
            let report_format = REPORT_FORMAT;
            return Ok(Claimed { token, read_token, job, offsets, report_seconds, report_format });
        }
        Err(AppError::contended(of.deployment))
    }

    /// Ends an attempt whose job cannot run as requested.
    async fn end_unrunnable(
        &self,
        of: AttemptRef,
        deployment: Deployment,
        reason: &str,
    ) -> Result<AppError, AppError> {
        let outcome = Outcome::Failed(Failure::new(FailureClass::Config, reason));
        match self.end_attempt(of, deployment, None, outcome).await? {
            Saved::Yes => Ok(AppError::conflict(reason)),
            Saved::Lost => Ok(AppError::contended(of.deployment)),
        }
    }

    /// Records a heartbeat and the runner's stream pieces.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn report(
        &self,
        mut token: RunToken,
        body: &ReportBody,
    ) -> Result<ReportAnswer, AppError> {
        let of = token.of;
        for _ in 0..MAX_TRIES {
            let Proved { mut deployment, over, .. } = self.prove(&mut token).await?;
            if over {
                return Err(Refused::Superseded.into());
            }
            // Stored before the start of an apply is acknowledged, so that the log up to that point is kept.
            let offsets = self.store_chunks(of, &body.chunks).await?;
            let forgets = body.forgets
                && lifecycle::note_apply(&mut deployment, of.number, ApplyNote::Forgets)?;
            let is_unwritten = body.unwritten.as_ref().is_some_and(|unwritten| {
                deployment.could_not_write_state(of.number, unwritten_facts(unwritten))
            });
            let is_changed = forgets || is_unwritten;
            if let Some(fetched) = body.fetched.clone() {
                deployment.record_fetched(of.number, fetched.into());
            }
            if lifecycle::report(&mut deployment, of.number, body.phase, self.now())? || is_changed
            {
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::None).await?;
                if saved == Saved::Lost {
                    continue;
                }
            }
            let reason =
                |attempt: &Attempt| attempt.stop.as_ref().map(|stop| stop.as_failure(attempt));
            let stop_reason = deployment.open_attempt().and_then(reason);
            return Ok(ReportAnswer {
                phase: body.phase,
                stop: stop_reason.is_some(),
                stop_reason,
                offsets,
            });
        }
        Err(AppError::contended(of.deployment))
    }

    /// Stores the first [`MAX_CHUNKS`] pieces of streams; a stored piece stays as it is. Returns the next offset of
    /// each stream in the request, so that the runner can send the rest again.
    pub(crate) async fn store_chunks(
        &self,
        of: AttemptRef,
        chunks: &[Chunk],
    ) -> Result<Offsets, AppError> {
        let mut ends = Offsets::default();
        for (index, chunk) in chunks.iter().take(MAX_CHUNKS).enumerate() {
            let fault =
                |field, reason| AppError::invalid(format!("chunks[{index}].{field}"), reason);
            let end = self.store_chunk(of, chunk).await.map_err(|error| match error {
                ChunkError::Data(reason) => fault("data", reason),
                ChunkError::Offset(reason) => fault("offset", reason),
                ChunkError::Store(error) => error.into(),
            })?;
            match chunk.stream {
                Stream::Log => ends.log = ends.log.max(end),
                Stream::Events => ends.events = ends.events.max(end),
            }
        }
        if !chunks.is_empty() {
            self.changes.hint_of(of.deployment);
        }
        Ok(ends)
    }
}

/// The most pieces of one report that are stored. Each causes requests to the object store. A runner sends four.
pub(crate) const MAX_CHUNKS: usize = 16;

/// The most bytes of one piece. axum answers 413 for a body that is too large as a whole.
pub(crate) const MAX_CHUNK: usize = 128 * 1024;

/// The answer when an attempt's token is used for another deployment's path.
pub(crate) fn foreign_path() -> AppError {
    AppError::missing("the token is for another deployment or attempt than the path")
}
