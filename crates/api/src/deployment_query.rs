//! The query parameters of requests about deployments.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

/// Filters of the list of deployments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeploymentQuery {
    /// Only deployments of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Only deployments of this environment; needs `project_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
    /// Only deployments with this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(queued|launching|running|cancelling|succeeded|failed|cancelled)$")]
    pub status: Option<String>,
    /// Only deployments that have ended (`true`), or that have not (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<bool>,
    /// Only `plan`, `deploy`, `destroy`, `rollback` or `state`. A deployment that stops after its plan is a `plan` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(plan|deploy|destroy|rollback|state)$")]
    pub mode: Option<String>,
    /// Only deployments for this resource, such as `s3#photos`; needs `env_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Only deployments that were accepted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
}

/// Filters of the list of last deployments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LastDeploymentQuery {
    /// Only environments of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Only environments with this id, of each project or of `project_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
    /// With `true`, the last deployment of each environment that was to apply or to destroy something, and no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_change_only: Option<bool>,
}

/// How long to wait for the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Seconds, 2 to 25; default 25. A longer time is reduced to 25; then repeat the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<i64>, minimum = 2, maximum = 4_294_967_295i64)]
    pub timeout_in_seconds: Option<u32>,
}

/// Which part of a stream to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// `log` (text for people, the default) or `events` (OpenTofu's `-json` lines).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(log|events)$")]
    pub stream: Option<String>,
    /// Bytes to skip; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Seconds to wait for new bytes if there are none, at most 25; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}
