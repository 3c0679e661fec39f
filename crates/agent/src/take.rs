//! Takes offered jobs, and retries until the answer is known.

use crate::agent_loop::AgentLoop;
use crate::backoff::Backoff;
use crate::connection::ConnectionError;
use crate::job_name::job_name;
use crate::work::Next;
use canyon_api::agent::{JobKey, TakeJobs, TakenJobs};
use canyon_domain::agent_job::OFFER;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// Jobs whose take is not confirmed: it is still to be sent, or its answer was lost. This agent may hold them already, but
/// has started none of them.
#[derive(Default)]
pub(crate) struct UnconfirmedTakes {
    pub(crate) jobs: Vec<JobKey>,
    /// How many jobs one request takes, since a request for more had no answer; `None` for all.
    at_once: Option<usize>,
    backoff: Backoff,
    /// When the next request may be sent; set after a request without an answer.
    retry_at: Option<Instant>,
}

impl AgentLoop {
    /// Takes the unconfirmed jobs that are due, and starts those that Canyon confirms.
    ///
    /// Nothing is started before Canyon has confirmed the take. Without an answer, the request is retried later, in this
    /// session or in the next one of this process. The request is idempotent: Canyon repeats its answer, and sends the
    /// launch data of a job only to the agent that has taken it.
    pub(crate) async fn take(&mut self, session: u64) -> Result<(), Next> {
        let body = TakeJobs { jobs: self.unconfirmed.due().to_vec() };
        if body.jobs.is_empty() || self.stop.count() > 1 {
            return Ok(());
        }
        let answer = tokio::select! {
            answer = self.api.take(session, &body) => answer,
            () = self.stop.asked(2) => return Ok(()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.take_failed(&body.jobs, &error),
        };
        let was_retried = self.unconfirmed.retry_at.is_some();
        self.unconfirmed.settle(&body.jobs, &answer);
        let is_refused = !answer.refused.is_empty();
        for refused in answer.refused {
            tracing::info!(job = %job_name(&refused.job), reason = refused.reason, "not taken");
        }
        self.status.add_taken(answer.taken.len());
        for taken in answer.taken.into_iter().filter(|taken| body.jobs.contains(&taken.job)) {
            tracing::info!(job = %job_name(&taken.job), runner = %taken.order.runner_id, "taken");
            self.start(taken);
        }
        // An earlier request, whose answer was lost, may have taken a job that is refused now. The next session names the
        // jobs that this agent holds.
        if was_retried && is_refused { Err(Next::Reopen) } else { Ok(()) }
    }

    fn take_failed(&mut self, asked: &[JobKey], error: &ConnectionError) -> Result<(), Next> {
        let next = self.after_error(error);
        if error.is_about_the_body() {
            // A retry would fail too. The next session names the jobs that this agent holds.
            self.unconfirmed.keep(|job| !asked.contains(job));
            return Err(next.unwrap_or(Next::Reopen));
        }
        self.unconfirmed.failed(asked.len(), error.pause());
        next.map_or(Ok(()), Err)
    }
}

impl UnconfirmedTakes {
    /// The jobs for the next request: the first ones, or none before its time.
    pub(crate) fn due(&self) -> &[JobKey] {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return &[];
        }
        self.at_once.and_then(|most| self.jobs.get(..most)).unwrap_or(&self.jobs)
    }

    /// Drops the other jobs. Once no job is left, the pauses are reset too, because the next offer must be taken before it
    /// expires.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&JobKey) -> bool) {
        self.jobs.retain(is_kept);
        if self.jobs.is_empty() {
            *self = Self::default();
        }
    }

    /// Records that the request for the first `asked` jobs had no answer, or an answer that asks for a pause.
    pub(crate) fn failed(&mut self, asked: usize, pause: Option<Duration>) {
        // A proxy may drop the answer because it is too long, or because of one of the jobs. So the next request is for
        // fewer jobs, and for others.
        self.at_once = Some((asked / 2).max(1));
        self.jobs.rotate_left(asked);
        // The pause is bounded: if this agent holds the jobs already, their time to start runs, and new offers expire.
        let pause = self.backoff.pause_of(pause.map(|pause| pause.min(OFFER)));
        self.retry_at = Some(Instant::now() + pause);
    }

    /// Drops the jobs that the answer names. Jobs of the request that it does not name are asked for again.
    fn settle(&mut self, asked: &[JobKey], answer: &TakenJobs) {
        let taken = answer.taken.iter().map(|taken| &taken.job);
        let named: HashSet<_> = taken.chain(answer.refused.iter().map(|it| &it.job)).collect();
        self.keep(|job| !named.contains(job));
        if asked.iter().all(|job| named.contains(job)) {
            // The jobs that were not part of the request stay due at once.
            self.backoff.reset();
            self.at_once = self.at_once.map(|most| most * 2);
        } else {
            self.retry_at = Some(Instant::now() + self.backoff.pause());
        }
    }
}

#[cfg(test)]
mod tests;
