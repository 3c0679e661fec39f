//! Takes the place of the dispatcher for a job whose data this agent cannot use: the data of a newer Canyon, or of another
//! runner type.

use async_trait::async_trait;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, RemovalOutcome, Started, StopMode, TailStream,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};

/// A job whose data this agent cannot use.
pub(crate) enum UnreadableJob {
    /// The job was just taken and will never start, for this reason.
    NeverStarted(Failure),
    /// An agent that could use the data has started the job. Its state is unknown, so it must not be reported as gone.
    Held(String),
}

impl UnreadableJob {
    fn refusal(&self) -> DispatchError {
        let reason = match self {
            Self::NeverStarted(failure) => &failure.message,
            Self::Held(reason) => reason,
        };
        DispatchError::refused(FailureClass::Config, reason.clone())
    }
}

#[async_trait]
impl Dispatcher for UnreadableJob {
    async fn start(&self, _: &Launch) -> Result<Started, DispatchError> {
        Err(self.refusal())
    }

    async fn observe(&self, _: &JobRef) -> Observation {
        match self {
            Self::NeverStarted(failure) => Observation::Gone(Some(failure.clone())),
            Self::Held(reason) => Observation::Unknown(reason.clone()),
        }
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        match self {
            Self::NeverStarted(_) => Ok(()),
            Self::Held(_) => Err(self.refusal()),
        }
    }

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        match self {
            Self::NeverStarted(_) => Ok(Vec::new()),
            Self::Held(_) => Err(self.refusal()),
        }
    }

    async fn forget(&self, _: &JobRef) -> RemovalOutcome {
        match self {
            Self::NeverStarted(_) => RemovalOutcome::Removed,
            Self::Held(_) => RemovalOutcome::JobAlive,
        }
    }
}
