//! The interface to every kind of compute: what a dispatcher does with a job.

use crate::check::CheckReports;
use crate::error::DispatchError;
use async_trait::async_trait;
use canyon_domain::{
    commit::Commit,
    container::ContainerLaunch,
    deadline::Observation,
    ids::{DeploymentId, EnvId, ProjectId},
};
use jiff::Timestamp;
#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// The maximum number of bytes that one [`Dispatcher::tail`] returns.
pub const TAIL_LIMIT: u64 = 1024 * 1024;

/// Identifies the job of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobRef {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt's number.
    pub attempt: u32,
    /// The platform's own name of the job, if it does not follow from the other two.
    pub handle: Option<String>,
}

/// A request to start a job.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The job to start.
    pub job: JobRef,
    /// The variables that the runner needs before its claim: the API's address, the attempt and the
    /// claim code. Every user who may inspect the job on its platform can read them, so nothing
    /// else belongs here.
    pub environment: BTreeMap<String, SecretString>,
    /// The project that it deploys, for users who inspect the job on its platform.
    pub project: ProjectId,
    /// The environment that it deploys to; see `project`.
    pub env: EnvId,
    /// When the attempt was written, or taken by an agent. A platform that forgets what it started
    /// is not asked to repeat a start long after that.
    pub launched_at: Timestamp,
    /// A container job's image, into which the platform brings the runner program. Without it, the job runs in the
    /// runner's image.
    pub container: Option<ContainerLaunch>,
}

/// The variable that makes the runner also write its log to its standard output, which is all that
/// a platform keeps of a killed container. `canyon-runner` reads it (`settings.rs`); the name is
/// repeated here because neither crate may depend on the other.
#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
const LOG_TO_STDOUT: &str = "CANYON_LOG_TO_STDOUT";

/// The variable that names the image of a container job, for the runner program in it.
#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
pub(crate) const JOB_IMAGE: &str = "CANYON_JOB_IMAGE";

#[cfg(any(feature = "docker", feature = "ecs", feature = "kubernetes"))]
impl Launch {
    /// The variables of a job that runs in a container. Every kind whose jobs are containers uses
    /// these; the kind `local` uses [`Launch::environment`] and reads the log from the job's
    /// folder.
    pub(crate) fn container_environment(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.environment.iter();
        let given = given.map(|(name, value)| (name.as_str(), value.expose_secret()));
        given.chain([(LOG_TO_STDOUT, "1")])
    }
}

/// The outcome of a start, with the platform's name of the job if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// This call started the job.
    Now(Option<String>),
    /// An earlier call had started the job, which may have ended since.
    Already(Option<String>),
}

/// How to stop a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Send one request to stop, however often this is called: a second signal makes OpenTofu exit
    /// without saving its state.
    Graceful,
    /// End every process of the job now.
    Kill,
}

/// One of the streams of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStream {
    /// The log, for people.
    Log,
    /// OpenTofu's `-json` output, a line for each event.
    Events,
}

/// What is left of a job after [`Dispatcher::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// Nothing that a later call could remove.
    Removed,
    /// The job lives: forget it later.
    JobAlive,
}

/// What a new job needs of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentNeed {
    /// An agent that will take the job, perhaps after others have ended.
    Presence,
    /// An agent that takes the job at once.
    Room,
}

/// A kind of compute. Every function is idempotent and may be called by two launchers at once.
#[async_trait]
pub trait Dispatcher: Send + Sync {
    /// Starts the job, unless an earlier call has.
    ///
    /// # Errors
    ///
    /// If the job was not or may not have been started; [`DispatchError::on_failure`] says which.
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError>;

    /// Observes whether the job lives. A job that was never started is gone. Where a platform's
    /// lists lag behind, a job that is missing counts as gone only after some time.
    async fn observe(&self, job: &JobRef) -> Observation;

    /// Stops the job and does not wait for its end. Stopping a job that is gone succeeds.
    ///
    /// # Errors
    ///
    /// If the platform did not accept the request.
    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError>;

    /// The job's output that the platform still has, from `offset` on, at most [`TAIL_LIMIT`]
    /// bytes: for a job that died before it could send it. Empty at the end of the output, and if
    /// nothing is left.
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

    /// Removes what is left of a dead job, once the attempt's end is recorded. Does nothing while
    /// the job lives, and nothing when nothing is left. A failure that no retry would fix is
    /// logged, and counts as nothing left.
    async fn forget(&self, job: &JobRef) -> RemovalOutcome;

    /// The digest of the image that a container job runs or has run, if the platform tells it only after the start.
    async fn image_digest(&self, job: &JobRef) -> Option<Commit> {
        let _ = job;
        None
    }

    /// All jobs of the runner that the platform still has, dead or alive, from which the launcher
    /// finds orphaned ones. Empty for kinds that find orphaned jobs by themselves.
    ///
    /// # Errors
    ///
    /// If the platform could not be asked.
    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        Ok(Vec::new())
    }

    /// Why no agent fulfils `need` for a job that is started now, for kinds whose jobs agents launch. A job
    /// that is started nevertheless waits.
    async fn no_agent_reason(&self, need: AgentNeed) -> Option<String> {
        let _ = need;
        None
    }

    /// Tries what a launch needs, step by step, and reports each step. Starts no job and leaves
    /// nothing behind that a launch would not. The caller has already reported the step
    /// `definition`.
    async fn check(&self, reports: &CheckReports) {
        // The default, for a kind without steps of its own.
        let _ = reports;
    }
}
