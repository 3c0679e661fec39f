//! Drift of environments.

use crate::plan::PlannedAction;
use canyon_domain::drift::{self, DriftKind, DriftStatus};
use canyon_domain::inventory::Environment;
use canyon_domain::resource::CheckStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Whether an environment differs from what was deployed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drift {
    /// The project of the environment.
    pub project_id: String,
    /// The environment.
    pub env_id: String,
    /// `unknown` before the first check, and after a deployment that has failed; `in_sync`: a deployment of the same thing would
    /// change nothing; `drifted`: it would; `failed`: the last check has failed.
    #[schema(value_type = String, example = "drifted")]
    pub status: DriftStatus,
    /// Since when it is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// When the last check ended that found something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<Timestamp>,
    /// That check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<Uuid>,
    /// The check that waits or runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checking: Option<Uuid>,
    /// Until when drift leads to no deployment: two deployments within 24 hours have undone it. A time that has passed says
    /// nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reconcile_suspended_until: Option<Timestamp>,
    /// How many resources the state has.
    pub num_resources: u32,
    /// How many of them differ, without those that the environment ignores.
    pub num_drifted: u32,
    /// How many differ that the environment ignores.
    pub num_ignored: u32,
}

impl From<&Environment> for Drift {
    fn from(of: &Environment) -> Self {
        let known = of.drift.as_deref().cloned().unwrap_or_default();
        Self {
            project_id: of.project_id.to_string(),
            env_id: of.id.to_string(),
            status: known.status,
            since: known.since,
            checked_at: known.checked_at,
            deployment_id: known.check.map(|id| id.0),
            checking: known.checking.map(|id| id.0),
            reconcile_suspended_until: known.suspended_until(),
            num_resources: known.found.num_resources,
            num_drifted: known.found.num_drifted,
            num_ignored: known.found.num_ignored,
        }
    }
}

/// The drift of one environment in detail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftDetails {
    /// The overview.
    #[serde(flatten)]
    pub drift: Drift,
    /// What the last check has found; at most 500.
    pub changes: Vec<DriftedResource>,
    /// Whether there are more.
    pub truncated: bool,
    /// Resources of container jobs whose last check has found that they differ. `status` is about the module alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifted_resources: Vec<DriftedContainer>,
    /// The last checks, the newest first; at most 30.
    pub history: Vec<DriftCheck>,
}

/// A resource that differs. It never has a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftedResource {
    /// Its address.
    #[schema(example = "module.cdn.aws_s3_bucket.logs")]
    pub address: String,
    /// What a deployment of the same thing would do to it.
    pub action: PlannedAction,
    /// `outside`: it was changed outside of Canyon; `configuration`: what the module reads has changed, such as a data source or a
    /// variable.
    #[schema(value_type = String, example = "outside")]
    pub kind: DriftKind,
    /// The attributes that differ; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// Whether a rule of the environment's `drift_ignore` covers it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
}

/// A resource of a container job that is not as its last deployment has left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftedContainer {
    /// The name of the resource.
    #[schema(example = "s3.default#photos")]
    pub resource: String,
    /// The check that has found it.
    pub deployment_id: Uuid,
    /// Its end.
    #[schema(value_type = String, format = DateTime)]
    pub checked_at: Timestamp,
}

impl DriftedContainer {
    /// The resources of an environment whose last check has found that they differ.
    pub fn all_of(environment: &Environment) -> Vec<Self> {
        let drifted = environment.resources.iter().filter_map(|resource| {
            let check = resource.last_check.filter(|check| check.status == CheckStatus::Drifted)?;
            let resource = resource.name.to_string();
            Some(Self { resource, deployment_id: check.by.0, checked_at: check.at })
        });
        drifted.collect()
    }
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftCheck {
    /// Its deployment.
    pub deployment_id: Uuid,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// The status of its deployment.
    pub status: String,
    /// A message about that status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How many resources it has found that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_drifted: Option<u32>,
}

/// What a runner has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftReportBody {
    /// How many resources the state has.
    pub num_resources: u32,
    /// How many of them differ.
    pub num_drifted: u32,
    /// Those that differ; at most 500.
    #[serde(default)]
    pub changes: Vec<DriftedResource>,
}

/// A rule by which differences count for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IgnoreRule {
    /// The resources: an address in which `*` stands for any text.
    #[schema(example = "module.cdn.*")]
    pub address: String,
    /// The attributes. Without one, every difference of such a resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
}

impl From<drift::IgnoreRule> for IgnoreRule {
    fn from(of: drift::IgnoreRule) -> Self {
        Self { address: of.address, attributes: of.attributes }
    }
}

impl From<IgnoreRule> for drift::IgnoreRule {
    fn from(of: IgnoreRule) -> Self {
        Self { address: of.address, attributes: of.attributes }
    }
}

/// The filters of `listDrift`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DriftQuery {
    /// Only environments with this status: `unknown`, `in_sync`, `drifted` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only environments of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}
