//! How long an organization keeps deployments, logs and audit records.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The retention of an organization. An absent number of days is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retention {
    /// Days from the end of a deployment until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments_days: Option<u32>,
    /// Days from the end of a deployment until its log and its events are removed. Without it they are kept as long as their
    /// deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_days: Option<u32>,
    /// Days until an audit record is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_days: Option<u32>,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to set the retention. An absent number of days is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionBody {
    /// Days from the end of a deployment until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 30, maximum = 3650)]
    pub deployments_days: Option<u32>,
    /// Days from the end of a deployment until its log and its events are removed; at most `deployments_days`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3650)]
    pub logs_days: Option<u32>,
    /// Days until an audit record is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 30, maximum = 3650)]
    pub audit_days: Option<u32>,
}

/// The retention to estimate. Without any of them the estimate is for the current setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// `deployments_days` of the retention to estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u32>, minimum = 30, maximum = 3650)]
    pub deployments_days: Option<String>,
    /// `logs_days` of the retention to estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 3650)]
    pub logs_days: Option<String>,
    /// `audit_days` of the retention to estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u32>, minimum = 30, maximum = 3650)]
    pub audit_days: Option<String>,
}

/// What an organization stores, and what a retention would remove of it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The deployments.
    pub deployments: Amount,
    /// Logs and events of deployments; the count is that of the deployments that have any.
    pub logs: LogAmount,
    /// The audit records.
    pub audit_records: Amount,
    /// The environments.
    pub environments: Amount,
    /// The retention that the estimates are for.
    pub retention: RetentionBody,
}

/// A number of stored things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// How many there are.
    pub count: u64,
    /// There may be more: not all were counted. The oldest always are.
    pub at_least: bool,
    /// How many the retention would remove now, as an estimate.
    pub removable: u64,
    /// The time of the oldest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub oldest_at: Option<Timestamp>,
}

/// The logs of deployments, with their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogAmount {
    /// How many deployments have any.
    #[serde(flatten)]
    pub amount: Amount,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes that the retention would remove now, as an estimate.
    pub removable_bytes: u64,
}
