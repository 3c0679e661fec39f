//! Approval of plans.

use crate::plan_check::{PlanCheck, PlanCheckRule};
use canyon_domain::approval::{self, ApprovalNeed, TurnHold};
use canyon_domain::provider_group::ProviderGroup;
use canyon_domain::role::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Which plans need approval, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// `never`, `destructive` (plans that destroy or replace something), `changes` (that change a resource) or `always` (that change
    /// anything).
    #[schema(value_type = String, example = "destructive")]
    pub required: ApprovalNeed,
    /// How many people must approve; 0 only if one of `checks` is mandatory.
    #[serde(default = "one")]
    #[schema(minimum = 0, maximum = 5, default = 1)]
    pub count: u8,
    /// Who may approve. Without it, each person who may deploy to the environment.
    #[serde(default)]
    pub approvers: Approvers,
    /// Whether the requester of a deployment may not approve it.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub forbid_author: bool,
    /// For how many seconds a plan waits.
    #[serde(default = "one_day")]
    #[schema(minimum = 300, maximum = 604_800, default = 86_400)]
    pub expires_seconds: u32,
    /// Whether each approval must have a comment.
    #[serde(default)]
    pub comment_required: bool,
    /// What becomes of the environment's turn while a plan waits: `turn` (its deployment keeps it, and later ones wait) or
    /// `release` (later ones run meanwhile; if they change the state, the plan is made and reviewed again). Without it, an environment has the
    /// value of its type, and a type `turn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "release")]
    pub hold: Option<TurnHold>,
    /// Services that check each plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 5)]
    pub checks: Vec<PlanCheckRule>,
}

fn one() -> u8 {
    1
}

fn yes() -> bool {
    true
}

fn one_day() -> u32 {
    86_400
}

/// Who may approve: each principal that matches one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approvers {
    /// People with one of these roles in the environment, or a higher one: `viewer`, `deployer`, `admin`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub roles: Vec<Role>,
    /// Principals by id or by name, such as a person's address. A service account may approve only if it is named here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub subjects: Vec<String>,
    /// People of these groups, each written `PROVIDER/GROUP`: the id of an identity provider, and a group for which it has a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, max_items = 50, example = json!(["okta/leads"]))]
    pub groups: Vec<ProviderGroup>,
}

impl From<ApprovalRule> for approval::ApprovalRule {
    fn from(of: ApprovalRule) -> Self {
        let ApprovalRule { required, count, approvers, forbid_author, expires_seconds, .. } = of;
        let Approvers { roles, subjects, groups } = approvers;
        Self {
            required,
            count,
            approvers: approval::Approvers { roles, subjects, groups },
            forbid_author,
            expires_seconds,
            comment_required: of.comment_required,
            hold: of.hold,
            checks: of.checks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<approval::ApprovalRule> for ApprovalRule {
    fn from(of: approval::ApprovalRule) -> Self {
        let approval::Approvers { roles, subjects, groups } = of.approvers;
        Self {
            required: of.required,
            count: of.count,
            approvers: Approvers { roles, subjects, groups },
            forbid_author: of.forbid_author,
            expires_seconds: of.expires_seconds,
            comment_required: of.comment_required,
            hold: of.hold,
            checks: of.checks.into_iter().map(Into::into).collect(),
        }
    }
}

/// The approval of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentApproval {
    /// `planning`, `awaited`, `given`, or at the end without one `not_given`.
    pub status: String,
    /// Which plans need it.
    pub required: String,
    /// How many approvals it needs.
    pub needed: u8,
    /// How many are given.
    pub given: usize,
    /// Since when the plan waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Until when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// `release` if later deployments of the environment run while it waits, and otherwise `turn`.
    #[serde(default)]
    #[schema(value_type = String)]
    pub hold: TurnHold,
    /// Whether the caller may still approve the plan; in lists and reads of deployments that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_approve: Option<bool>,
    /// The reviews of the current plan; the newest of each person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<Review>,
    /// The external checks of the current plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<PlanCheck>,
}

/// A review of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Review {
    /// The principal.
    pub by: Uuid,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Whether it approves.
    pub approves: bool,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Approves a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// The digest of the reviewed plan: 409 if it is not the current one.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub plan_digest: String,
    /// What is to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 300)]
    pub comment: Option<String>,
}

/// Rejects a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectBody {
    /// What is to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 300)]
    pub comment: Option<String>,
}
