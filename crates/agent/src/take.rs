//! Taking what is offered, asked until the answer is known.

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::work::Next;
use canyon_api::agent::{JobKey, TakeJobs, TakenJobs};
use std::collections::HashSet;
use tokio::time::Instant;

/// Jobs that are to be taken, or were asked for in vain: they may be this agent's by now, and none of them was started.
#[derive(Default)]
pub(crate) struct InDoubt {
    pub(crate) jobs: Vec<JobKey>,
    backoff: Backoff,
    again_at: Option<Instant>,
}

impl Desk {
    /// Takes the jobs in doubt and starts them, if it is time to ask.
    ///
    /// Before it is known that they are this agent's, nothing is started. Without an answer it asks again later, in
    /// this session or the next one of this process: Canyon answers a repetition as it answered before, and who has
    /// taken a job is the only one that it tells what to start it with.
    pub(crate) async fn take(&mut self, session: u64) -> Result<(), Next> {
        let is_early = self.in_doubt.again_at.is_some_and(|at| Instant::now() < at);
        if self.in_doubt.jobs.is_empty() || is_early || self.stop.count() > 1 {
            return Ok(());
        }
        let body = TakeJobs { jobs: self.in_doubt.jobs.clone() };
        let answer = tokio::select! {
            answer = self.line.take(session, &body) => answer,
            () = self.stop.asked(2) => return Ok(()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let next = self.not_answered(&error);
                if error.is_about_the_body() {
                    // Never so, then. A new session tells which of them it holds.
                    self.in_doubt = InDoubt::default();
                    return Err(next.unwrap_or(Next::Reopen));
                }
                let pause = self.in_doubt.backoff.pause_of(error.pause());
                self.in_doubt.again_at = Some(Instant::now() + pause);
                return next.map_or(Ok(()), Err);
            }
        };
        let was_in_doubt = self.in_doubt.again_at.is_some();
        self.in_doubt.settle(&answer);
        let is_refused = !answer.refused.is_empty();
        for refused in answer.refused {
            tracing::info!(job = %crate::job::name(&refused.job), reason = refused.reason, "not taken");
        }
        self.status.took(answer.taken.len());
        for taken in answer.taken {
            tracing::info!(job = %crate::job::name(&taken.job), runner = %taken.order.runner_id, "taken");
            self.start(taken);
        }
        // What is refused now may have been taken by the word whose answer was lost. A new session tells what it holds.
        if was_in_doubt && is_refused { Err(Next::Reopen) } else { Ok(()) }
    }
}

impl InDoubt {
    /// Forgets those that the answer tells of. Of the others nobody knows: they are asked for again.
    fn settle(&mut self, answer: &TakenJobs) {
        let taken = answer.taken.iter().map(|taken| &taken.job);
        let told: HashSet<_> = taken.chain(answer.refused.iter().map(|it| &it.job)).collect();
        self.jobs.retain(|job| !told.contains(job));
        if self.jobs.is_empty() {
            *self = Self::default();
        } else {
            self.again_at = Some(Instant::now() + self.backoff.pause());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    const ID: &str = "00000000-0000-7000-8000-000000000001";

    fn key(attempt: u32) -> Value {
        json!({ "runner": ID, "deployment": ID, "attempt": attempt })
    }

    fn told(of: &[u32]) -> TakenJobs {
        let refused = of.iter().map(|of| json!({ "job": key(*of), "reason": "withdrawn" }));
        from_value(json!({ "taken": [], "refused": refused.collect::<Vec<_>>() })).unwrap()
    }

    #[test]
    fn those_that_an_answer_does_not_tell_of_are_asked_for_again() {
        let jobs = [1, 2, 3].map(|attempt| from_value::<JobKey>(key(attempt)).unwrap());
        let mut in_doubt = InDoubt { jobs: jobs.to_vec(), ..InDoubt::default() };
        in_doubt.settle(&told(&[2]));
        assert_eq!(in_doubt.jobs, [jobs[0], jobs[2]]);
        assert!(in_doubt.again_at.is_some(), "a moment later");
        in_doubt.settle(&told(&[1, 3]));
        assert!(in_doubt.jobs.is_empty() && in_doubt.again_at.is_none());
    }
}
