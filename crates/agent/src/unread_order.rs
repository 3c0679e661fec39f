//! What stands in for the platform of a job whose order this agent cannot read: one of a newer Canyon, or of another
//! kind.

use async_trait::async_trait;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Remains, Started, StopMode, TailStream,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};

/// Such a job.
pub(crate) enum UnreadOrder {
    /// It was just taken: it never began, for this reason.
    NeverStarted(Failure),
    /// It was started by somebody who could read it. That it is gone would be a lie.
    Held(String),
}

impl UnreadOrder {
    fn refusal(&self) -> DispatchError {
        let reason = match self {
            Self::NeverStarted(failure) => &failure.message,
            Self::Held(reason) => reason,
        };
        DispatchError::refused(FailureClass::Config, reason.clone())
    }
}

#[async_trait]
impl Dispatcher for UnreadOrder {
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

    async fn forget(&self, _: &JobRef) -> Remains {
        match self {
            Self::NeverStarted(_) => Remains::Nothing,
            Self::Held(_) => Remains::Job,
        }
    }
}
