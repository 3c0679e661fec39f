//! Taking what is offered, asked until the answer is known.

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::work::Next;
use canyon_api::agent::{JobKey, TakeJobs};
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
        // Those that it says nothing of are offered still.
        self.in_doubt = InDoubt::default();
        for refused in answer.refused {
            tracing::info!(job = %crate::job::name(&refused.job), reason = refused.reason, "not taken");
        }
        self.status.took(answer.taken.len());
        for taken in answer.taken {
            tracing::info!(job = %crate::job::name(&taken.job), runner = %taken.order.runner_id, "taken");
            self.start(taken);
        }
        Ok(())
    }
}
