//! The published protocol of remote runners: a program with a runner's key polls and gets
//! instructions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// An instruction for the program that polls for a remote runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum RemoteRunnerMessage {
    /// Create a Job. If a Job of that name exists, it is this one.
    CreateJob(RemoteRunnerMessageCreateJob),
    /// Check whether a Job exists, and report if it failed or is stuck.
    CheckJobStatus(RemoteRunnerMessageCheckJobStatus),
    /// Delete a Job and its pods, with their grace period. Not in the published protocol: the
    /// runner in the job is notified of a cancel too, so a program that does not know this message
    /// only delays the cancel.
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
    /// Token of a report that the Job failed, in the header `X-Deployment-Token`.
    pub deployment_token: String,
}

/// A Job to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoteRunnerMessageCheckJobStatus {
    /// The name of the Job.
    #[schema(example = "canyon-0198c1de7a3c7d20b5f4a1c2d3e4f506-1")]
    pub job_id: String,
    /// Its namespace.
    #[schema(example = "canyon-jobs")]
    pub namespace: String,
    /// Token of a report that the Job failed, in the header `X-Deployment-Token`.
    pub deployment_token: String,
    /// From this time on, the Job is stuck if none of its pods runs or has completed.
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
    /// Token of a report that the Job has ended, in the header `X-Deployment-Token`.
    pub deployment_token: String,
}

/// Options of a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PollRequestsQuery {
    /// How long to wait for a message, in seconds; default 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}
