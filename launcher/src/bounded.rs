//! A dispatcher that always answers.
//!
//! Every request to a platform has a limit of its own, which says better what was asked. These are for
//! what has none, or makes many requests: a deployment ends by its deadlines only if whoever looks
//! comes to the end of his look.

use async_trait::async_trait;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Remains, Started, Steps, StopMode, TailStream,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use std::sync::Arc;
use std::time::Duration;

/// For a look, a stop, a removal. One request has 15 s, and 20 s with its repeats. Two of these fit
/// into one sweep of 55 s, so that also there what is not answered is written down.
const CALL: Duration = Duration::from_secs(20);
/// For a start: a turn at the platform's pace, and several requests.
const START: Duration = Duration::from_secs(45);
/// For a piece of the output: the request for it has a minute.
const TAIL: Duration = Duration::from_secs(70);
/// For the list of a runner's jobs. Whoever holds up one look must not hold up the others.
const LIST: Duration = Duration::from_secs(10);

/// Ends what its platform does not answer, as after a lost answer: it may have been done.
pub(crate) struct Bounded(pub(crate) Arc<dyn Dispatcher>);

#[async_trait]
impl Dispatcher for Bounded {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        in_time(START, "the start", self.0.start(launch)).await?
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        let answer = in_time(CALL, "a look at the job", self.0.observe(job)).await;
        answer.unwrap_or_else(|error| Observation::Unknown(error.to_string()))
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        in_time(CALL, "the stop", self.0.stop(job, how)).await?
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        in_time(TAIL, "the job's output", self.0.tail(job, stream, offset)).await?
    }

    async fn forget(&self, job: &JobRef) -> Remains {
        match in_time(CALL, "the removal of the job", self.0.forget(job)).await {
            Ok(remains) => remains,
            Err(error) => {
                tracing::warn!(%error, ?job, "cannot clear the job away");
                Remains::Job
            }
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        in_time(LIST, "the list of the runner's jobs", self.0.jobs()).await?
    }

    async fn absence(&self) -> Option<String> {
        let answer = in_time(CALL, "who is there", self.0.absence()).await;
        answer.unwrap_or_else(|error| {
            // What nobody takes up waits, and that is no loss.
            tracing::warn!(%error, "cannot tell whether anybody would take a job up");
            None
        })
    }

    /// Who asks for a check says how long it may take: what was reported by then counts.
    async fn check(&self, steps: &Steps) {
        self.0.check(steps).await;
    }
}

async fn in_time<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = T>,
) -> Result<T, DispatchError> {
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let message = format!("{what} was not answered within {} s", limit.as_secs());
        DispatchError::unknown(FailureClass::Lost, message)
    })
}
