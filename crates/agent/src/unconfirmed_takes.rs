//! The takes of offered jobs that Canyon has not confirmed.

use crate::backoff::Backoff;
use crate::places::{Place, Places};
use canyon_api::agent::{JobKey, TakenJobs};
use canyon_domain::agent_job::OFFER_TIMEOUT;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Jobs whose take is not confirmed: it is still to be sent, or its answer was lost. This agent may hold them already, but
/// has started none of them.
#[derive(Default)]
pub(crate) struct UnconfirmedTakes {
    pub(crate) jobs: Vec<JobKey>,
    /// A place for each of them.
    places: Vec<Place>,
    /// How many jobs one request takes, since a request for more had no answer; `None` for all.
    at_once: Option<usize>,
    backoff: Backoff,
    /// When the next request may be sent; set after a request without an answer.
    retry_at: Option<Instant>,
}

impl UnconfirmedTakes {
    /// Adds offered jobs. New offers come first, because they expire, and the others may never have an answer.
    pub(crate) fn add(&mut self, offered: Vec<JobKey>, places: &Arc<Places>) {
        self.places.extend(offered.iter().map(|_| places.take()));
        self.jobs.splice(0..0, offered);
    }

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
        self.places.truncate(self.jobs.len());
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
        let pause = self.backoff.pause_of(pause.map(|pause| pause.min(OFFER_TIMEOUT)));
        self.retry_at = Some(Instant::now() + pause);
    }

    /// Drops the jobs that the answer names. Jobs of the request that it does not name are asked for again.
    pub(crate) fn settle(&mut self, asked: &[JobKey], answer: &TakenJobs) {
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

    /// Whether a request had no answer before.
    pub(crate) fn was_retried(&self) -> bool {
        self.retry_at.is_some()
    }
}

#[cfg(test)]
mod tests;
