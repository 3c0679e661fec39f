//! Agents, and how they ask for work.
//!
//! An agent opens a session, and then asks for work again and again with [`Poll`]. It takes what it is offered
//! with [`TakeJobs`], and only then starts it; what becomes of it, it says with [`Reports`]. The
//! session's number is in each path: a newer session of the same agent refuses the older (409).

mod view;

pub use view::{AdoptQuery, AgentQuery, AgentUpdateBody, AgentView, SessionView};

use canyon_domain::agent::Adoption;
use canyon_domain::agent_job::{JobOrder, Wish};
use canyon_domain::deadline::Observation;
use canyon_domain::ids::{DeploymentId, RunnerId, RunnerUuid};
use canyon_domain::runner::RunnerType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// The version of the protocol that this library speaks.
pub const PROTOCOL: u32 = 1;
/// The oldest that the server still speaks: an agent may be two versions behind.
pub const OLDEST_PROTOCOL: u32 = 1;
/// Longest wait of one [`Poll`], in seconds: gateways cut requests after 29.
pub const MAX_WAIT: u32 = 25;
/// Audience of the tokens that an agent signs with its own key, before the organization's name.
pub const KEY_AUDIENCE: &str = "canyon:";
/// The most that a token signed by an agent's own key may live, in seconds.
pub const KEY_TOKEN_LIFE: i64 = 60;

/// What a JWT (`EdDSA`, RFC 8037) by an agent's own key says. Its `kid` is the SHA-256 of the key's 32 bytes, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyClaims {
    /// The agent.
    pub sub: String,
    /// [`KEY_AUDIENCE`] and the organization's name.
    pub aud: String,
    /// When it was made, in seconds since 1970 by Canyon's clock.
    pub iat: i64,
    /// When it ends, at most [`KEY_TOKEN_LIFE`] later.
    pub exp: i64,
    /// Differs from token to token.
    pub jti: Uuid,
}

/// An agent begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenSession {
    /// What this process drew for itself: the same again repeats the opening.
    #[schema(max_length = 100)]
    pub instance: String,
    /// Version of the program.
    #[schema(max_length = 100)]
    pub version: String,
    /// The newest version of the protocol that it speaks.
    pub protocol: u32,
    /// The types of runners whose jobs it launches.
    #[schema(value_type = Vec<String>, max_items = 16)]
    pub serves: Vec<RunnerType>,
    /// Where its jobs run: the cluster, account or engine, by an id of its own.
    #[schema(max_length = 300)]
    pub place: String,
    /// What it says about itself.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The one runner that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub runner: Option<RunnerId>,
    /// Whether it takes the jobs of runners that name no agents; unless given, it does if `runner` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
    /// Whether it launches only deployments that name it, and is never back once it has gone. Needs `runner`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// How many jobs it runs at once.
    #[schema(minimum = 1, maximum = 10_000)]
    pub concurrency: u32,
    /// It was superseded by another process of its name, and is to speak for the agent only once that one is gone. Until
    /// then the opening is refused (409, `session_superseded`). A process sends it only if the refusal that superseded
    /// it had the detail `standby`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
    /// Its public key, PEM, if it signs in by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub public_key: Option<String>,
    /// The jobs that it finds in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<JobKey>,
}

/// Names a job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub struct JobKey {
    /// Which life of the runner.
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
    /// Its number; absent while nobody has adopted the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Whether the agent may work.
    #[schema(value_type = String)]
    pub state: Adoption,
    /// The version of the protocol to speak.
    pub protocol: u32,
    /// What its operator should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How long to wait before asking again, in milliseconds.
    pub pause_ms: u64,
    /// Jobs of this place that it goes on with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldJob>,
    /// Further ones, where there are many: the answers to its polls tell what they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_later: Vec<JobKey>,
    /// Of those that it found: nobody waits for them any more. They are to be stopped and forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<JobKey>,
}

/// A job that an agent goes on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldJob {
    /// Which.
    pub job: JobKey,
    /// What it is.
    #[schema(value_type = Object)]
    pub order: JobOrder,
    /// How the platform names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What Canyon wants of it.
    #[schema(value_type = String)]
    pub wish: Wish,
}

/// An agent asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Poll {
    /// How many jobs it runs.
    pub running: u32,
    /// It finishes what it runs and takes nothing further.
    #[serde(default)]
    pub draining: bool,
    /// How long it would wait for work, up to [`MAX_WAIT`] seconds.
    #[schema(maximum = 25)]
    pub wait_seconds: u32,
    /// What last went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub last_error: Option<String>,
}

/// The answer to [`Poll`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Work {
    /// Jobs to take, within [`OFFER`](canyon_domain::agent_job::OFFER).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<JobKey>,
    /// What Canyon wants of jobs that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wishes: Vec<JobWish>,
    /// Pieces of output that somebody asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails: Vec<TailRequest>,
    /// Jobs of this place that it goes on with: told again until a report, of whatever, shows that it heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldJob>,
    /// How long to wait before asking again, in milliseconds.
    #[serde(default)]
    pub pause_ms: u64,
}

/// What Canyon wants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobWish {
    /// Which.
    pub job: JobKey,
    /// What.
    #[schema(value_type = String)]
    pub wish: Wish,
}

/// Somebody asks for a piece of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailRequest {
    /// Which.
    pub job: JobKey,
    /// Tells this request from others.
    pub id: u64,
    /// `log` or `events`.
    pub stream: String,
    /// Where it begins, in bytes.
    pub offset: u64,
}

/// An agent takes what it was offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakeJobs {
    /// Which; at most 100.
    pub jobs: Vec<JobKey>,
}

/// The answer to [`TakeJobs`].
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct TakenJobs {
    /// To be started now.
    pub taken: Vec<TakenJob>,
    /// Not to be started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedJob>,
}

/// A job to start.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TakenJob {
    /// Which.
    pub job: JobKey,
    /// What it is.
    #[schema(value_type = Object)]
    pub order: JobOrder,
    /// What its runner must know before its claim; the claim code is among it, which is good once.
    pub environment: BTreeMap<String, String>,
}

/// A job that is not this agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedJob {
    /// Which.
    pub job: JobKey,
    /// Why.
    pub reason: String,
}

/// What became of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reports {
    /// At most 100.
    pub reports: Vec<JobReport>,
}

/// What became of one job. What is absent has not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobReport {
    /// Which.
    pub job: JobKey,
    /// What the agent sees of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub observation: Option<Observation>,
    /// How the platform names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub handle: Option<String>,
    /// The wish that it has carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub done: Option<Wish>,
    /// The piece of output that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailAnswer>,
}

/// A piece of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailAnswer {
    /// The request's.
    pub id: u64,
    /// The bytes in base64, or why there are none.
    #[serde(flatten)]
    pub bytes: TailBytes,
}

/// See [`TailAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TailBytes {
    /// In base64; at most 64 KiB of bytes.
    Bytes(String),
    /// The platform could not be asked.
    Failed(String),
}

/// The answer to [`Reports`]: what is not this session's any more. It must be left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportsTaken {
    /// Which, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedJob>,
}
