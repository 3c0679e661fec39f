//! Kept plans.

use crate::policy::DeploymentPolicy;
use canyon_domain::json::Json;
use canyon_domain::kept_plan::PlanSummary;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The format of [`Plan`].
pub const PLAN_FORMAT: u32 = 1;

/// A page of a kept plan: what it would change, what is destroyed first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// SHA-256 of what is applied: OpenTofu's plan file, with the files that planning has made in the module's folder.
    pub plan_digest: String,
    /// The format of this answer: 1.
    pub format: u32,
    /// How much the whole plan changes.
    pub summary: PlanCounts,
    /// What the policy of the environment's type says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<DeploymentPolicy>>,
    /// The changed resources of this page.
    pub resources: Vec<PlannedResource>,
    /// The changed outputs of this page.
    pub outputs: Vec<PlannedOutput>,
    /// In place of `resources` and `outputs`, if the deployment's log is encrypted to recipients: standard base64 of an `age`
    /// file with a JSON object that has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<String>,
    /// The `page` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// The query of `getDeploymentPlan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PlanQuery {
    /// The page, from 0 on; `next` of the page before.
    #[serde(default)]
    #[param(maximum = 63)]
    pub page: Option<u32>,
}

/// How many resources a plan changes, by what it does to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanCounts {
    /// Created.
    pub add: u32,
    /// Updated in place.
    pub change: u32,
    /// Destroyed and created again.
    pub replace: u32,
    /// Destroyed.
    pub remove: u32,
    /// Taken into the state, also with changes.
    pub import: u32,
    /// Given another address, also with changes.
    #[serde(rename = "move")]
    pub moved: u32,
    /// Removed from the state and not destroyed.
    pub forget: u32,
    /// Changed outside of OpenTofu since the last apply.
    pub drift: u32,
}

impl From<PlanSummary> for PlanCounts {
    fn from(of: PlanSummary) -> Self {
        let PlanSummary { add, change, replace, remove, import, moved, forget, drift } = of;
        Self { add, change, replace, remove, import, moved, forget, drift }
    }
}

impl From<PlanCounts> for PlanSummary {
    fn from(of: PlanCounts) -> Self {
        let PlanCounts { add, change, replace, remove, import, moved, forget, drift } = of;
        Self { add, change, replace, remove, import, moved, forget, drift }
    }
}

/// A page as its runner stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPage {
    /// The resources.
    pub resources: Vec<PlannedResource>,
    /// The outputs.
    pub outputs: Vec<PlannedOutput>,
}

/// What a plan does to a resource or an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// Destroys it and creates it again.
    Replace,
    /// Destroys it.
    Delete,
    /// Removes it from the state, and leaves the resource itself.
    Forget,
    /// Updates it in place.
    Update,
    /// Creates it.
    Create,
    /// Takes it into the state, and changes nothing of it.
    Import,
    /// Gives it another address, and changes nothing of it.
    Move,
    /// Nothing: it was only changed outside of OpenTofu.
    None,
}

impl PlannedAction {
    /// Whether the resource does not survive.
    pub fn is_destructive(self) -> bool {
        matches!(self, Self::Replace | Self::Delete)
    }
}

/// A resource that a plan changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedResource {
    /// Its address.
    pub address: String,
    /// Its type, such as `aws_s3_bucket`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name in the module.
    pub name: String,
    /// What the plan does.
    pub action: PlannedAction,
    /// Why, in OpenTofu's word, such as `replace_because_cannot_update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its address so far, if that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_address: Option<String>,
    /// The id under which it is imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_id: Option<String>,
    /// An object of an earlier replacement that was not destroyed yet, by this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// The new object is created before the old one is destroyed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub creates_first: bool,
    /// It was changed or deleted outside of OpenTofu since the last apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drifted: bool,
    /// The attributes that change, at most 200.
    pub attributes: Vec<PlannedAttribute>,
    /// More of them change than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more_attributes: bool,
}

/// An attribute that changes. A sensitive value never leaves the runner.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedAttribute {
    /// Where it is, such as `tags["team"]` or `ingress[0].port`.
    pub path: String,
    /// The value before; absent if there is none, or it is sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Json>,
    /// The value afterwards; absent if there is none, or it is sensitive or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Json>,
    /// The value before is sensitive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_sensitive: bool,
    /// The value afterwards is sensitive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_sensitive: bool,
    /// The value afterwards is known only after the apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_unknown: bool,
    /// Its change is why the resource is replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
}

/// An output that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedOutput {
    /// Its name.
    pub name: String,
    /// `create`, `update` or `delete`.
    pub action: PlannedAction,
    /// The value before; absent if there is none, or it is sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Json>,
    /// The value afterwards; absent if there is none, or it is sensitive or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Json>,
    /// It is sensitive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Its value is known only after the apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_unknown: bool,
}
