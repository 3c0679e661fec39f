//! A dispatcher with a time limit on every call.
//!
//! Each request to a platform has its own limit, whose error names the request. The limits here are
//! for calls that have none, or that make many requests: deadlines are only enforced if each call
//! of the launcher ends.

use async_trait::async_trait;
use canyon_dispatch::{
    AgentNeed, CheckReports, DispatchError, Dispatcher, JobRef, Launch, RemovalOutcome, Started,
    StopMode, TailStream,
};
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use std::sync::Arc;
use std::time::Duration;

/// Limit of an observation, a stop or a removal. One request has 15 s, and 20 s with its retries.
/// Two of these calls fit into one sweep of 55 s, so that the sweep can also record that the
/// platform did not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit of a start, which waits for the platform's rate limiter and makes several requests.
const START_TIMEOUT: Duration = Duration::from_secs(45);
/// Limit of a chunk of the output, whose request has a minute.
const TAIL_TIMEOUT: Duration = Duration::from_secs(70);
/// Limit of the list of a runner's jobs. It is short so that one slow runner does not delay others.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Ends calls that take too long. Whether such a call took effect is unknown, as after a lost
/// response.
pub(crate) struct TimeLimited(pub(crate) Arc<dyn Dispatcher>);

#[async_trait]
impl Dispatcher for TimeLimited {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        within_limit(START_TIMEOUT, "the start", self.0.start(launch)).await?
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        let answer = within_limit(CALL_TIMEOUT, "observing the job", self.0.observe(job)).await;
        answer.unwrap_or_else(|error| Observation::Unknown(error.to_string()))
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        within_limit(CALL_TIMEOUT, "the stop", self.0.stop(job, how)).await?
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        within_limit(TAIL_TIMEOUT, "the job's output", self.0.tail(job, stream, offset)).await?
    }

    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        match within_limit(CALL_TIMEOUT, "the removal of the job", self.0.forget(job)).await {
            Ok(remains) => remains,
            Err(error) => {
                tracing::warn!(%error, ?job, "cannot remove the job");
                RemovalOutcome::JobAlive
            }
        }
    }

    async fn image_digest(&self, job: &JobRef) -> Option<Commit> {
        let answer = within_limit(CALL_TIMEOUT, "the image", self.0.image_digest(job)).await;
        answer.ok().flatten()
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        within_limit(LIST_TIMEOUT, "the list of the runner's jobs", self.0.jobs()).await?
    }

    async fn no_agent_reason(&self, need: AgentNeed) -> Option<String> {
        let answer =
            within_limit(CALL_TIMEOUT, "listing the agents", self.0.no_agent_reason(need)).await;
        answer.unwrap_or_else(|error| {
            // A job that no agent takes waits, so launching it is safe.
            tracing::warn!(%error, "cannot tell whether an agent would take a job");
            None
        })
    }

    /// The caller of a check sets its time limit: the steps reported by then count.
    async fn check(&self, reports: &CheckReports) {
        self.0.check(reports).await;
    }
}

async fn within_limit<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> Result<T, DispatchError> {
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let message = format!("{what} was not answered within {} s", limit.as_secs());
        DispatchError::unknown(FailureClass::Lost, message)
    })
}
