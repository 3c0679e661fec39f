//! The protocol between a runner and the API.
//!
//! The runner starts with a claim code, which is valid for one claim. It gets a token for this one
//! attempt, which becomes invalid with it. Every answer may be 409: then the attempt is over, and
//! the runner exits at once without further changes.

use crate::deployment::{Orphan, Output};
use crate::drift::DriftReportBody;
use crate::error::ErrorBody;
pub use crate::judged_lock::{JudgeLockAnswer, JudgeLockBody, LockDecision};
use crate::plan::PlanCounts;
use crate::policy::PolicyReportBody;
use canyon_domain::commit::Commit;
use canyon_domain::failure::{Failure, Phase};
use canyon_domain::fetched_module::FetchedModule;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::job::Job;
use canyon_domain::module_source::Digest;
use canyon_domain::variables::secret_json::{self, SecretJson};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Header that carries an attempt's token on the published paths. `Authorization: Bearer` works on
/// every path.
pub const DEPLOYMENT_TOKEN: &str = "x-deployment-token";

/// Header of a claim: the newest job format that the runner understands
/// ([`canyon_domain::job::FORMAT`]). Default: 1. It is a header because an earlier Canyon rejects
/// unknown fields of the body.
pub const JOB_FORMAT: &str = "canyon-job-format";

/// Header of a result: the environment, in the form of [`environment_of`], which Canyon then reads together with the
/// deployment. Without it Canyon finds it with the deployment. It is a header because an earlier Canyon rejects
/// unknown fields of the body.
pub const ENVIRONMENT_OF: &str = "canyon-environment";

/// The value of [`ENVIRONMENT_OF`]: the project and the environment, such as `shop/dev`.
pub fn environment_of(project: &ProjectId, env: &EnvId) -> String {
    format!("{project}/{env}")
}

/// Header of the answer to a result: the attempt whose result Canyon has accepted, in the form of
/// [`result_of`]. The body stays empty (204), as published.
pub const RESULT_OF: &str = "canyon-result-of";

/// The value of [`RESULT_OF`]: the deployment's id and the attempt's number, such as
/// `0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000/1`.
pub fn result_of(deployment: impl std::fmt::Display, number: u32) -> String {
    format!("{deployment}/{number}")
}

/// Header of every answer to a runner: the attempt of the token in the request, in the form of
/// [`result_of`]. A runner must ignore an answer without it or for another attempt.
pub const ANSWER_OF: &str = "canyon-answer-of";

/// Claims an attempt. The claim code goes into `Authorization: Bearer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    /// Random text of this runner process, with which it may repeat a claim after a lost answer.
    #[schema(min_length = 16, max_length = 64)]
    pub claimant: String,
    /// Name of the machine, pod or task of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 253)]
    pub host: Option<String>,
    /// Name of the runner's user, as in the locks that OpenTofu makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 253)]
    pub user: Option<String>,
    /// The newest job format that the runner understands, as in the header [`JOB_FORMAT`], which a proxy may remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_format: Option<u32>,
}

/// The answer to the claim that won.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// Token for all further requests. It expires with the attempt, or after 10 minutes without a
    /// request.
    pub token: String,
    /// Token with which the module may read from Canyon, and nothing else. It expires with the
    /// attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_token: Option<String>,
    /// The job to run.
    #[schema(value_type = Object)]
    pub job: Job,
    /// Where each stream continues; an earlier attempt may have written to it.
    pub offsets: Offsets,
    /// Seconds between two reports without new output.
    pub report_seconds: u32,
    /// The newest format of reports and results that Canyon understands ([`REPORT_FORMAT`]). Default: 1.
    #[serde(default = "first_format")]
    pub report_format: u32,
}

/// The newest format of reports and results: 2 has `unwritten`, 3 `fetched`, 4 `secret_outputs`, 5 `plan`, 6 `drift`,
/// 7 `policy`. A Canyon that announces an older one refuses a body with a field that it does not know.
pub const REPORT_FORMAT: u32 = 7;

fn first_format() -> u32 {
    1
}

/// Number of bytes in each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offsets {
    /// Bytes in the log for people.
    pub log: u64,
    /// Bytes in the stream of OpenTofu's `-json` lines.
    pub events: u64,
}

/// A heartbeat, with the output since the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportBody {
    /// The current phase of the run.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// With the phase `apply`: the plan removes resources from the state without destroying them,
    /// so that no state lists them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgets: bool,
    /// With the phase `apply`: OpenTofu could not write the state, and the run still tries to. A result without
    /// `unwritten` says that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenStateBody>,
    /// The module that the run has fetched; in each report from then on, because Canyon stores it with a write that it makes
    /// anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<FetchedModuleBody>,
    /// New output. The API stores the first 16 pieces. The `offsets` of the answer say from where to send the rest again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
}

/// The module that a run has fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchedModuleBody {
    /// The commit, if the source is a git repository; the SHA-256 of the manifest, if it is a package in an OCI registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")]
    pub commit: Option<Commit>,
    /// The inputs whose values Canyon shows to no one, because the module declares them sensitive or ephemeral, or does not
    /// declare them. If it is absent, or has more than 20 names, no value of an input is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_inputs: Option<Vec<String>>,
}

impl From<FetchedModuleBody> for FetchedModule {
    fn from(body: FetchedModuleBody) -> Self {
        Self::new(body.commit, body.secret_inputs)
    }
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The stream.
    pub stream: Stream,
    /// Offset of its first byte.
    pub offset: u64,
    /// Standard base64 of its bytes, at most 128 KiB of them.
    pub data: String,
}

/// A stream of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Text for people.
    Log,
    /// OpenTofu's `-json` lines.
    Events,
}

impl Stream {
    /// The name in the API and in the blob store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Events => "events",
        }
    }
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportAnswer {
    /// The reported phase, which Canyon has stored.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Whether the run must stop: save the state, release the lock, send a result.
    pub stop: bool,
    /// With `stop`: the reason. The class is `cancelled`, or `timeout` if a deadline has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub stop_reason: Option<Failure>,
    /// Where each stream continues of which the report had a part; 0 for the other.
    pub offsets: Offsets,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentResultsUpdateBody {
    /// `success` or `failure`.
    pub status: ResultStatus,
    /// Standard base64 of all outputs, encrypted to the deployment's recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Number of resources, and of changes to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf_resource_counts: Option<TfResourceCounts>,
    /// Accepted for compatibility and not stored: there is no resource graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub metadata: Option<Value>,
    /// The phase in which the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub phase: Option<Phase>,
    /// The module that the run has fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<FetchedModuleBody>,
    /// The run has announced its apply and did not start it: nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untouched: bool,
    /// The class of the failure; default `user`. `cancelled` if the run stopped on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
    /// Outputs in plaintext. Sensitive ones have no value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plain_outputs: BTreeMap<String, Output>,
    /// The values of the sensitive outputs of a resource, which Canyon seals: jobs of other resources may need them.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "secret_json::by_name"
    )]
    #[schema(value_type = Object)]
    pub secret_outputs: BTreeMap<String, SecretJson>,
    /// Resources that may exist without being in the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Orphan>,
    /// The state at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReportBody>,
    /// The run could not write the state that its apply left: the storage still has the state from before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenStateBody>,
    /// How many resources the plan would have deleted or replaced, when that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_deletions: Option<u32>,
    /// The plan whose pieces the run has stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<KeptPlanBody>,
    /// The state has changed since the plan was made that the run was to apply: nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale_plan: bool,
    /// With mode `drift`: what differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftReportBody>,
    /// What the job's policy says of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReportBody>,
    /// The last parts of the streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
}

/// The state at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateReportBody {
    /// The state's lineage.
    #[schema(min_length = 1, max_length = 128)]
    pub lineage: String,
    /// Its serial.
    pub serial: u64,
    /// Managed resource instances in it.
    pub resources: u32,
    /// SHA-256 of all their addresses in order, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether the run has moved the state here from the former storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// Whether the run has started to apply and resources may exist that the state does not list:
    /// its apply was killed, the state could not be written, or a destroy run kept a resource
    /// (`lifecycle { destroy = false }`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The addresses of the resources, at most [`MAX_ADDRESSES`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// A state that a run could not write to its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnwrittenStateBody {
    /// It; absent if OpenTofu could not save it beside the module either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReportBody>,
}

/// A plan that a run has stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptPlanBody {
    /// SHA-256 of the plan file, before its encryption.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub digest: Digest,
    /// How many parts its file has; 0 if it changes nothing.
    #[schema(maximum = 16)]
    pub parts: u32,
    /// How many pages its changes have.
    #[schema(maximum = 64)]
    pub pages: u32,
    /// Whether the pages are encrypted to the recipients of the deployment's log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// How much it changes.
    pub summary: PlanCounts,
}

/// The most addresses of resources that a [`StateReportBody`] names.
pub const MAX_ADDRESSES: usize = 500;

/// Whether a run succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// The run succeeded.
    Success,
    /// The run failed.
    Failure,
}

/// Numbers of resources in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TfResourceCounts {
    /// In the state at the end; absent if the state could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_resources: Option<u32>,
    /// Created.
    pub num_resources_added: u32,
    /// Destroyed.
    pub num_resources_removed: u32,
    /// Changed in place.
    pub num_resources_changed: u32,
}
