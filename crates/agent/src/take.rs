//! Takes offered jobs, and retries until the answer is known.

use crate::agent_loop::AgentLoop;
use crate::connection::ConnectionError;
use crate::job_name::job_name;
use crate::next::Next;
use canyon_api::agent::{JobKey, TakeJobs};

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
        let was_retried = self.unconfirmed.was_retried();
        self.unconfirmed.settle(&body.jobs, &answer);
        let is_refused = !answer.refused.is_empty();
        for refused in answer.refused {
            tracing::info!(job = %job_name(&refused.job), reason = refused.reason, "not taken");
        }
        self.status.add_taken(answer.taken.len());
        for taken in answer.taken.into_iter().filter(|taken| body.jobs.contains(&taken.job)) {
            tracing::info!(job = %job_name(&taken.job), runner = %taken.spec.runner_id, "taken");
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
