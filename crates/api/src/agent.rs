//! Agents, and the protocol by which they get work.
//!
//! An agent opens a session and then polls for work with [`Poll`]. It takes offered jobs with
//! [`TakeJobs`], starts only the jobs that the answer contains, and reports their state with
//! [`Reports`]. Each path contains the session's number: once an agent has a newer session,
//! requests of the older one get 409.

mod view;

pub use view::{AdoptQuery, AgentQuery, AgentUpdateBody, AgentView, SessionView};

use canyon_domain::agent::Adoption;
use canyon_domain::agent_job::{DesiredState, JobSpec};
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::ids::{DeploymentId, RunnerId, RunnerUuid};
use canyon_domain::runner::RunnerType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// The protocol version of this library.
pub const PROTOCOL: u32 = 1;
/// The oldest protocol version that the server accepts: an agent may be two versions behind.
pub const OLDEST_PROTOCOL: u32 = 1;
/// Longest wait of one [`Poll`], in seconds: gateways end requests after 29.
pub const MAX_WAIT_SECONDS: u32 = 25;
/// Audience of the tokens that an agent signs with its own key, before the organization's name.
pub const KEY_AUDIENCE: &str = "canyon:";
/// Longest lifetime of a token that an agent signs with its own key, in seconds.
pub const KEY_TOKEN_LIFETIME_SECONDS: i64 = 60;

/// Claims of a JWT (`EdDSA`, RFC 8037) that an agent signs with its own key. Its `kid` is the
/// SHA-256 of the key's 32 bytes, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyClaims {
    /// The agent.
    pub sub: String,
    /// [`KEY_AUDIENCE`] and the organization's name.
    pub aud: String,
    /// Time of issue, in seconds since 1970 by Canyon's clock.
    pub iat: i64,
    /// Expiry, at most [`KEY_TOKEN_LIFETIME_SECONDS`] later.
    pub exp: i64,
    /// Unique for each token.
    pub jti: Uuid,
}

/// Opens a session of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenSession {
    /// Random id of this process. The same id again repeats the request.
    #[schema(max_length = 100)]
    pub instance: String,
    /// Version of the program.
    #[schema(max_length = 100)]
    pub version: String,
    /// The newest protocol version that the agent supports.
    pub protocol: u32,
    /// The types of runners whose jobs it launches.
    #[schema(value_type = Vec<String>, max_items = 16)]
    pub serves: Vec<RunnerType>,
    /// Id of the place where its jobs run: the cluster, account or engine.
    #[schema(max_length = 300)]
    #[serde(rename = "place")]
    pub platform_id: String,
    /// Labels that it reports.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The one runner that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub runner: Option<RunnerId>,
    /// Whether it takes jobs of runners that name no agents. Default: yes if `runner` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
    /// Whether it launches only deployments that name it, and does not return after it has stopped.
    /// Needs `runner`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Whether it serves other organizations too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Most jobs that it runs at once, in all organizations together.
    #[schema(minimum = 1, maximum = 10_000)]
    pub concurrency: u32,
    /// Another process of its name has superseded it, and it takes over only after that process has
    /// stopped. Until then the request is refused (409, `session_superseded`). A process sends
    /// `standby` only if the refusal that superseded it had the detail `standby`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
    /// Its public key, PEM, if it authenticates with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub public_key: Option<String>,
    /// The jobs that it finds in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<JobKey>,
}

/// Identifies a job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct JobKey {
    /// Uuid of the runner.
    #[schema(value_type = String, format = Uuid)]
    pub runner: RunnerUuid,
    /// The deployment.
    #[schema(value_type = String, format = Uuid)]
    pub deployment: DeploymentId,
    /// The attempt.
    pub attempt: u32,
}

/// The answer to [`OpenSession`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionOpened {
    /// Number of the session; absent until an administrator adopts the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Whether the agent may work.
    #[schema(value_type = String)]
    pub state: Adoption,
    /// The protocol version to use.
    pub protocol: u32,
    /// Warnings for the agent's operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Time until the next request, in milliseconds.
    pub pause_ms: u64,
    /// Jobs of this place that the agent must continue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldJob>,
    /// Further such jobs, if there are many: the answers to its polls contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_later: Vec<JobKey>,
    /// Orphaned jobs among those that it found. It must stop and forget them.
    #[serde(rename = "strays", default, skip_serializing_if = "Vec::is_empty")]
    pub orphaned: Vec<JobKey>,
}

/// A job that an agent must continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldJob {
    /// The job.
    pub job: JobKey,
    /// What to run.
    #[schema(value_type = Object)]
    #[serde(rename = "order")]
    pub spec: JobSpec,
    /// Name of the job on its platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The state that Canyon wants the job in.
    #[schema(value_type = String)]
    #[serde(rename = "wish")]
    pub desired: DesiredState,
}

/// Polls for work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Poll {
    /// Number of jobs that it runs.
    pub running: u32,
    /// Whether it is draining: it finishes its jobs and takes no further ones.
    #[serde(default)]
    pub draining: bool,
    /// How long the request may wait for work, up to [`MAX_WAIT_SECONDS`] seconds.
    #[schema(maximum = 25)]
    pub wait_seconds: u32,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub last_error: Option<String>,
}

/// The answer to [`Poll`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Work {
    /// Offered jobs; the agent must take them within [`OFFER_TIMEOUT`](canyon_domain::agent_job::OFFER_TIMEOUT).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<JobKey>,
    /// Wanted states of its jobs.
    #[serde(rename = "wishes", default, skip_serializing_if = "Vec::is_empty")]
    pub desired_states: Vec<JobDesiredState>,
    /// Requested parts of the output of its jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails: Vec<TailRequest>,
    /// Jobs of this place that the agent must continue; repeated until a report of the agent shows
    /// that it has received them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldJob>,
    /// Time until the next poll, in milliseconds.
    #[serde(default)]
    pub pause_ms: u64,
}

/// The wanted state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobWish)]
pub struct JobDesiredState {
    /// The job.
    pub job: JobKey,
    /// The wanted state.
    #[schema(value_type = String)]
    #[serde(rename = "wish")]
    pub desired: DesiredState,
}

/// A request for a part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailRequest {
    /// The job.
    pub job: JobKey,
    /// Id of this request.
    pub id: u64,
    /// `log` or `events`.
    pub stream: String,
    /// Offset of the first byte.
    pub offset: u64,
}

/// Takes offered jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakeJobs {
    /// The jobs; at most 100.
    pub jobs: Vec<JobKey>,
}

/// The answer to [`TakeJobs`].
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct TakenJobs {
    /// Jobs to start now.
    pub taken: Vec<TakenJob>,
    /// Jobs that the agent must not start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedJob>,
}

/// A job to start.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TakenJob {
    /// The job.
    pub job: JobKey,
    /// What to run.
    #[schema(value_type = Object)]
    #[serde(rename = "order")]
    pub spec: JobSpec,
    /// Variables that its runner needs before its claim. They contain the claim code, which is
    /// valid once.
    pub environment: BTreeMap<String, String>,
}

/// A job that is not assigned to this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedJob {
    /// The job.
    pub job: JobKey,
    /// The reason.
    pub reason: String,
}

/// Reports about jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reports {
    /// The reports; at most 100.
    pub reports: Vec<JobReport>,
}

/// A report about one job. An absent field has not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobReport {
    /// The job.
    pub job: JobKey,
    /// The state that the agent observes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub observation: Option<Observation>,
    /// Name of the job on its platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub handle: Option<String>,
    /// The wanted state that the agent has applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub done: Option<DesiredState>,
    /// The requested part of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailAnswer>,
    /// SHA-256 of the image that its container runs, as 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub image_digest: Option<Commit>,
}

impl JobReport {
    /// A report on `job` without anything to say.
    pub fn new(job: JobKey) -> Self {
        Self { job, observation: None, handle: None, done: None, tail: None, image_digest: None }
    }
}

/// A part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailAnswer {
    /// Id of the request.
    pub id: u64,
    /// The bytes in base64, or the reason why there are none.
    #[serde(flatten)]
    pub bytes: TailBytes,
}

/// See [`TailAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TailBytes {
    /// In base64; at most 64 KiB of bytes.
    Bytes(String),
    /// The platform did not return the output.
    Failed(String),
}

/// The answer to [`Reports`]: jobs that are no longer assigned to this session. The agent must
/// leave them alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportsTaken {
    /// The jobs, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedJob>,
}
