//! Policies over plans, and what they say of one.

use canyon_domain::module_source::Digest;
use canyon_domain::policy::{self, DEFAULT_TIMEOUT, Findings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What each plan in the environments of a type is judged by: modules in Rego (version 1) with the rules `deny` and `warn` in the
/// package `canyon`. The input is the JSON of `tofu show -json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The text of each module, by its name, such as `databases.rego`. 1 to 10 modules, together at most 64 KiB.
    pub modules: BTreeMap<String, String>,
    /// For how long the policy may be evaluated. Longer, and the run ends with `POLICY_TIMEOUT`.
    #[serde(default = "default_timeout")]
    #[schema(minimum = 1, maximum = 60, default = 10)]
    pub timeout_seconds: u32,
}

fn default_timeout() -> u32 {
    DEFAULT_TIMEOUT
}

impl From<Policy> for policy::Policy {
    fn from(Policy { modules, timeout_seconds }: Policy) -> Self {
        Self { modules, timeout_seconds }
    }
}

impl From<policy::Policy> for Policy {
    fn from(policy::Policy { modules, timeout_seconds }: policy::Policy) -> Self {
        Self { modules, timeout_seconds }
    }
}

/// What a run reports of the judgement of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyReportBody {
    /// SHA-256 of the policy.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub digest: Digest,
    /// Why the plan must not be applied; the first 50, each at most 500 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub denied: Vec<String>,
    /// What the requester should know; likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub warnings: Vec<String>,
    /// How many messages deny the plan. With an encrypted log, the messages are there alone.
    pub num_denied: u32,
    /// How many warnings there are.
    pub num_warnings: u32,
}

impl PolicyReportBody {
    /// The report of what the policy with this digest says.
    pub fn new(digest: Digest, findings: Findings) -> Self {
        let Findings { denied, warnings, num_denied, num_warnings } = findings;
        Self { digest, denied, warnings, num_denied, num_warnings }
    }

    /// What it reports, within the limits.
    pub fn findings(&self) -> Findings {
        let Self { denied, warnings, num_denied, num_warnings, .. } = self.clone();
        Findings { denied, warnings, num_denied, num_warnings }.limited()
    }
}

/// What the policy of the environment's type says of the plan of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentPolicy {
    /// SHA-256 of the policy.
    pub digest: String,
    /// Why the plan was not applied. Lists of deployments have the first 4 KiB of messages.
    pub denied: Vec<String>,
    /// What the requester should know.
    pub warnings: Vec<String>,
    /// How many messages deny the plan, also those that are not listed.
    pub num_denied: u32,
    /// The same of the warnings.
    pub num_warnings: u32,
}

impl DeploymentPolicy {
    /// The answer about what the policy with this digest says.
    pub fn new(digest: &Digest, findings: Findings) -> Self {
        let Findings { denied, warnings, num_denied, num_warnings } = findings;
        Self { digest: digest.to_string(), denied, warnings, num_denied, num_warnings }
    }
}
