//! The published protocol of remote runners: whoever has the key of a runner polls, and is told what to do.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// What whoever polls for a remote runner is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum RemoteRunnerMessage {
    /// Create a Job. A Job of that name which is there already is this one.
    CreateJob(RemoteRunnerMessageCreateJob),
    /// See whether a Job is there, and say so if it failed or is stuck.
    CheckJobStatus(RemoteRunnerMessageCheckJobStatus),
    /// Delete a Job and its pods, leaving them their time to end. Not in the published protocol: the runner in the
    /// job hears of a cancel too, so what does not know this message loses time alone.
    CancelJob(RemoteRunnerMessageCancelJob),
}

/// A Job to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemoteRunnerMessageCreateJob {
    /// The name of the Job.
    #[schema(example = "canyon-0198c1de7a3c7d20b5f4a1c2d3e4f506-1")]
    pub job_id: String,
    /// Its namespace.
    #[schema(example = "canyon-jobs")]
    pub namespace: String,
    /// The Job, of `batch/v1`.
    #[schema(value_type = Object)]
    pub configuration: Value,
    /// To be shown, as `X-Deployment-Token`, by whoever says that the Job failed.
    pub deployment_token: String,
}

/// A Job to look after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoteRunnerMessageCheckJobStatus {
    /// The name of the Job.
    #[schema(example = "canyon-0198c1de7a3c7d20b5f4a1c2d3e4f506-1")]
    pub job_id: String,
    /// Its namespace.
    #[schema(example = "canyon-jobs")]
    pub namespace: String,
    /// To be shown, as `X-Deployment-Token`, by whoever says that the Job failed.
    pub deployment_token: String,
    /// From then on the Job is stuck if it has no pod that runs or has completed.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// A Job to delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoteRunnerMessageCancelJob {
    /// The name of the Job.
    #[schema(example = "canyon-0198c1de7a3c7d20b5f4a1c2d3e4f506-1")]
    pub job_id: String,
    /// Its namespace.
    #[schema(example = "canyon-jobs")]
    pub namespace: String,
    /// To be shown, as `X-Deployment-Token`, by whoever says that the Job has ended.
    pub deployment_token: String,
}

/// How to poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PollRequestsQuery {
    /// How long to wait for a message, in seconds; 25 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}
