//! Taking what is offered, asked until the answer is known.

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::line::LineError;
use crate::work::Next;
use canyon_api::agent::{JobKey, TakeJobs, TakenJobs};
use canyon_domain::agent_job::OFFER;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// Jobs that are to be taken, or were asked for in vain: they may be this agent's by now, and none of them was started.
#[derive(Default)]
pub(crate) struct InDoubt {
    pub(crate) jobs: Vec<JobKey>,
    /// How many are asked for at once, from the first on, since no answer came for more; otherwise all.
    at_once: Option<usize>,
    backoff: Backoff,
    /// Some were asked for in vain, and none is asked for before.
    again_at: Option<Instant>,
}

impl Desk {
    /// Takes the jobs in doubt and starts them, if it is time to ask.
    ///
    /// Before it is known that they are this agent's, nothing is started. Without an answer it asks again later, in
    /// this session or the next one of this process: Canyon answers a repetition as it answered before, and who has
    /// taken a job is the only one that it tells what to start it with.
    pub(crate) async fn take(&mut self, session: u64) -> Result<(), Next> {
        let body = TakeJobs { jobs: self.in_doubt.due().to_vec() };
        if body.jobs.is_empty() || self.stop.count() > 1 {
            return Ok(());
        }
        let answer = tokio::select! {
            answer = self.line.take(session, &body) => answer,
            () = self.stop.asked(2) => return Ok(()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.asked_in_vain(&body.jobs, &error),
        };
        let was_in_doubt = self.in_doubt.again_at.is_some();
        self.in_doubt.settle(&body.jobs, &answer);
        let is_refused = !answer.refused.is_empty();
        for refused in answer.refused {
            tracing::info!(job = %crate::job::name(&refused.job), reason = refused.reason, "not taken");
        }
        self.status.took(answer.taken.len());
        for taken in answer.taken.into_iter().filter(|taken| body.jobs.contains(&taken.job)) {
            tracing::info!(job = %crate::job::name(&taken.job), runner = %taken.order.runner_id, "taken");
            self.start(taken);
        }
        // What is refused now may have been taken by the word whose answer was lost. A new session tells what it holds.
        if was_in_doubt && is_refused { Err(Next::Reopen) } else { Ok(()) }
    }

    fn asked_in_vain(&mut self, asked: &[JobKey], error: &LineError) -> Result<(), Next> {
        let next = self.not_answered(error);
        if error.is_about_the_body() {
            // Never so, then. A new session tells which of them it holds.
            self.in_doubt.keep(|job| !asked.contains(job));
            return Err(next.unwrap_or(Next::Reopen));
        }
        self.in_doubt.failed(asked.len(), error.pause());
        next.map_or(Ok(()), Err)
    }
}

impl InDoubt {
    /// Those to ask for now: the first ones.
    pub(crate) fn due(&self) -> &[JobKey] {
        if self.again_at.is_some_and(|at| Instant::now() < at) {
            return &[];
        }
        self.at_once.and_then(|most| self.jobs.get(..most)).unwrap_or(&self.jobs)
    }

    /// Forgets the others. Once nothing is in doubt, nothing is left of its pauses either: what is offered next must be
    /// taken before its offer lapses.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&JobKey) -> bool) {
        self.jobs.retain(is_kept);
        if self.jobs.is_empty() {
            *self = Self::default();
        }
    }

    /// No answer came for the first `asked`, or one that asks for a pause.
    pub(crate) fn failed(&mut self, asked: usize, pause: Option<Duration>) {
        // The answer may be too long for something on its way, and one of them may never have any: so fewer next time,
        // and others.
        self.at_once = Some((asked / 2).max(1));
        self.jobs.rotate_left(asked);
        // Of those that are this agent's by now the time to start runs, and the offers of those that join them lapse.
        let pause = self.backoff.pause_of(pause.map(|pause| pause.min(OFFER)));
        self.again_at = Some(Instant::now() + pause);
    }

    /// Forgets those that the answer tells of. Of others that were asked for nobody knows: they are asked for again.
    fn settle(&mut self, asked: &[JobKey], answer: &TakenJobs) {
        let taken = answer.taken.iter().map(|taken| &taken.job);
        let told: HashSet<_> = taken.chain(answer.refused.iter().map(|it| &it.job)).collect();
        self.keep(|job| !told.contains(job));
        if asked.iter().all(|job| told.contains(job)) {
            // Those that were not asked for are due at once: their time had come with that of the others.
            self.backoff.reset();
            self.at_once = self.at_once.map(|most| most * 2);
        } else {
            self.again_at = Some(Instant::now() + self.backoff.pause());
        }
    }
}

#[cfg(test)]
mod tests;
