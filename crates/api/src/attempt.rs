//! What a runner and the API say to each other.
//!
//! The runner starts with a claim code, which is good for one claim. It gets a token for this one
//! attempt, which dies with it. Every answer may be 409: then the attempt is over, and the runner
//! exits at once without touching anything further.

use crate::deployment::{Orphan, Output};
use crate::error::ErrorBody;
use canyon_domain::failure::{Failure, Phase};
use canyon_domain::job::Job;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Header that carries an attempt's token on the published paths; `Authorization: Bearer` works on
/// every path.
pub const DEPLOYMENT_TOKEN: &str = "x-deployment-token";

/// Header of a claim: the newest format of jobs that the runner understands
/// ([`canyon_domain::job::FORMAT`]). Without it, 1. It is a header because the body takes no field that an earlier
/// Canyon does not know.
pub const JOB_FORMAT: &str = "canyon-job-format";

/// Header of the answer to a result: of which attempt Canyon has taken it, as [`result_of`] writes
/// it. The body stays empty (204), as published.
pub const RESULT_OF: &str = "canyon-result-of";

/// The value of [`RESULT_OF`]: the deployment's id and the attempt's number, such as
/// `0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000/1`.
pub fn result_of(deployment: impl std::fmt::Display, number: u32) -> String {
    format!("{deployment}/{number}")
}

/// Header of every answer to a runner: for which attempt it is, by the token that came with the request, as [`result_of`]
/// writes it. An answer without it, or for another attempt, is not the one that the runner asked for.
pub const ANSWER_OF: &str = "canyon-answer-of";

/// A runner claims its attempt. The claim code goes into `Authorization: Bearer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    /// A random text that this runner process drew for itself, so that it may repeat a claim whose
    /// answer was lost.
    #[schema(min_length = 16, max_length = 64)]
    pub claimant: String,
    /// The name of the machine, pod or task that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 253)]
    pub host: Option<String>,
    /// The newest format of jobs that the runner understands, as in the header [`JOB_FORMAT`], which a proxy may take out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_format: Option<u32>,
}

/// What the winner gets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// Token for everything else. It dies with the attempt, or after 10 minutes of silence.
    pub token: String,
    /// What the module may read Canyon with: good for nothing else, and dies with the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_token: Option<String>,
    /// What to do.
    #[schema(value_type = Object)]
    pub job: Job,
    /// Where each stream goes on; an earlier attempt may have written to it.
    pub offsets: Offsets,
    /// Seconds between two reports when there is nothing to ship.
    pub report_seconds: u32,
}

/// Bytes in each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offsets {
    /// In the log that people read.
    pub log: u64,
    /// In the stream of OpenTofu's `-json` lines.
    pub events: u64,
}

/// A sign of life, with what was written since the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportBody {
    /// How far the run has come.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// With the phase `apply`: the plan leaves resources behind that no state will list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgets: bool,
    /// What was written. The first 16 pieces are stored; the `offsets` of the answer say from where to send the rest again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Which stream.
    pub stream: Stream,
    /// Where it begins.
    pub offset: u64,
    /// Standard base64 of its bytes, at most 128 KiB of them.
    pub data: String,
}

/// A stream of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// What people read.
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
    /// The phase that was reported, and that Canyon knows of now.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Whether the run shall stop: save the state, free the lock, send a result.
    pub stop: bool,
    /// With `stop`: why. The class is `cancelled`, or `timeout` if a deadline has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub stop_reason: Option<Failure>,
    /// Where each stream goes on of which the report had a piece; 0 for another.
    pub offsets: Offsets,
}

/// A lock on the state that is in the run's way, as OpenTofu describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeLockBody {
    /// The lock's id.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Who holds it: `user@host`.
    #[schema(max_length = 511)]
    pub who: String,
    /// Since when, by its holder's clock.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// What for, such as `OperationTypeApply`.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub operation: String,
    /// The id of a living process on the holder's host that is no job's and may hold the lock, if
    /// the runner is on that host and sees one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<u32>,
}

/// What is to be done about a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JudgeLockAnswer {
    /// The id of the lock.
    pub id: String,
    /// The verdict.
    pub verdict: LockVerdict,
    /// Why, in words; with `break`, the proof that the holder is dead.
    pub reason: String,
}

/// What is to be done about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockVerdict {
    /// Its holder is proved dead: free it, by its id.
    Break,
    /// Canyon's own attempt may hold it, and is not proved dead yet: ask again.
    Wait,
    /// It is somebody else's: leave it.
    Keep,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentResultsUpdateBody {
    /// `success` or `failure`.
    pub status: ResultStatus,
    /// Standard base64 of all outputs, encrypted to the deployment's recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// How many resources there are and were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf_resource_counts: Option<TfResourceCounts>,
    /// Accepted for compatibility, and not kept: there is no resource graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub metadata: Option<Value>,
    /// The phase in which the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub phase: Option<Phase>,
    /// The run has announced that it applies, and did not begin: nothing was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untouched: bool,
    /// The class of the failure; `user` without it. `cancelled` when the run stopped on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
    /// Outputs in clear. Sensitive ones have no value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plain_outputs: BTreeMap<String, Output>,
    /// Resources that may exist although the state does not know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Orphan>,
    /// What the run saw of its state at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReportBody>,
    /// How many resources the plan would have deleted or replaced, when that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_deletions: Option<u32>,
    /// The last pieces of the streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
}

/// What a run saw of its state at its end.
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
    /// SHA-256 of all their addresses, in their order, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether the run has moved it here from the former storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// Whether the run has begun to apply, and there may be something that the state does not list: its apply was
    /// killed, the state could not be written, or a destroy run left something behind (`lifecycle { destroy = false }`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The addresses of the resources, at most [`MAX_ADDRESSES`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// The most addresses of resources that a [`StateReportBody`] names.
pub const MAX_ADDRESSES: usize = 500;

/// Whether a run succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// It did what it was to do.
    Success,
    /// It did not.
    Failure,
}

/// How many resources a run had to do with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TfResourceCounts {
    /// In the state when it ended; absent if the state could not be read then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_resources: Option<u32>,
    /// Created.
    pub num_resources_added: u32,
    /// Destroyed.
    pub num_resources_removed: u32,
    /// Changed in place.
    pub num_resources_changed: u32,
}
