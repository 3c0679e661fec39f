//! What every kind of compute can do for a job.

use crate::check::Steps;
use crate::error::DispatchError;
use async_trait::async_trait;
use canyon_domain::{
    deadline::Observation,
    ids::{DeploymentId, EnvId, ProjectId},
};
use jiff::Timestamp;
#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// The most that one [`Dispatcher::tail`] returns, in bytes.
pub const TAIL_LIMIT: u64 = 1024 * 1024;

/// Names the job of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobRef {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt's number.
    pub attempt: u32,
    /// The platform's own name of the job, where that does not follow from the other two.
    pub handle: Option<String>,
}

/// A job to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its name.
    pub job: JobRef,
    /// What the runner must know before it has claimed its attempt: where the API is, which
    /// attempt is meant, and the claim code. Anybody who may look at the job on its platform can
    /// read this, so nothing else belongs here.
    pub environment: BTreeMap<String, SecretString>,
    /// Where it deploys to, for people who look at the job on its platform.
    pub project: ProjectId,
    /// See `project`.
    pub env: EnvId,
    /// When the attempt was written, or taken up by an agent. A platform that forgets what it started
    /// is not asked again long after that.
    pub launched_at: Timestamp,
}

/// Makes the runner write its log on its standard output too, which is all that a platform keeps of a
/// container that was killed. `canyon-runner` reads it (`settings.rs`): neither crate may depend on
/// the other.
#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
const LOG_TO_STDOUT: &str = "CANYON_LOG_TO_STDOUT";

#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
impl Launch {
    /// The variables of a job that runs in a container. Every kind whose jobs are containers takes
    /// these, and the kind `local` takes [`Launch::environment`]: it reads the log from the job's folder.
    pub(crate) fn container_environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.environment.iter();
        let given = given.map(|(name, value)| (name.as_str(), value.expose_secret()));
        given.chain([(LOG_TO_STDOUT, "1")])
    }
}

/// The answer to a start, with the platform's name of the job if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// This call started it.
    Now(Option<String>),
    /// An earlier call had; it may have ended since.
    Already(Option<String>),
}

/// How to stop a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Ask it, once, however often this is called: a second signal makes OpenTofu exit without
    /// saving its state.
    Graceful,
    /// End every process of it now.
    Kill,
}

/// One of the streams of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStream {
    /// What people read.
    Log,
    /// OpenTofu's `-json` output, a line for each event.
    Events,
}

/// What there is of a job after [`Dispatcher::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing that anybody should come back for.
    Nothing,
    /// It lives: forget it later.
    Job,
}

/// A kind of compute. Every function may be called again at any time, also by two launchers at
/// once.
#[async_trait]
pub trait Dispatcher: Send + Sync {
    /// Starts the job, unless an earlier call has.
    ///
    /// # Errors
    ///
    /// Says whether the job may have been started all the same.
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError>;

    /// Looks whether the job lives. One that was never started is gone; where lists lag behind, not
    /// before the platform has been asked for a while.
    async fn observe(&self, job: &JobRef) -> Observation;

    /// Stops the job and does not wait for its end. To stop what is gone succeeds.
    ///
    /// # Errors
    ///
    /// If the platform could not be told.
    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError>;

    /// What the platform still has of the job's output from `offset` on, at most [`TAIL_LIMIT`]
    /// bytes: for a job that died before it could send it. Empty at the end, and when nothing is
    /// left.
    ///
    /// # Errors
    ///
    /// If the platform could not be asked.
    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError>;

    /// The attempt's end is recorded, so what is left of a dead job may go. Does nothing while it
    /// lives, and nothing when nothing is left. What cannot be cleared away is said in the log, and
    /// counts as nothing: no repetition would help.
    async fn forget(&self, job: &JobRef) -> Remains;

    /// All jobs of the runner that the platform still has, dead or alive, for the search of those
    /// that nobody waits for. Empty for kinds that find such jobs by themselves.
    ///
    /// # Errors
    ///
    /// If the platform could not be asked.
    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        Ok(Vec::new())
    }

    /// Why nobody would take up what is started now, where somebody else than Canyon does that, and is not
    /// there. What is started all the same waits.
    async fn absence(&self) -> Option<String> {
        None
    }

    /// Tries what a launch needs, one step after the other, and reports each. Starts nothing and
    /// leaves nothing behind that a launch would not. The step `definition` is already reported.
    async fn check(&self, steps: &Steps) {
        // A kind without steps of its own.
        let _ = steps;
    }
}
