//! Deployments.

use crate::approval::DeploymentApproval;
use crate::deployed_container::DeployedContainer;
use crate::deployed_module::DeployedModule;
pub use crate::deployment_query::{DeploymentQuery, LastDeploymentQuery, LogQuery, WaitQuery};
pub use crate::deployment_request::{
    DeploymentCreateBody, ModuleBody, RequestedApproval, RequestedMode, Supersede,
};
use crate::fallback::Fallback;
use crate::plan::PlanCounts;
use crate::policy::DeploymentPolicy;
use canyon_domain::deployment_diff::DiffType;
use canyon_domain::failure::Failure;
use canyon_domain::json::Json;
use canyon_domain::kind::Kind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A deployment. Lists leave out `manifest` and `attempts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    /// The organization.
    pub org_id: String,
    /// The project.
    pub project_id: String,
    /// The environment.
    pub env_id: String,
    /// Its id. Ids sort by the time of acceptance.
    pub id: Uuid,
    /// Time of acceptance.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Principal that requested it.
    pub created_by: Uuid,
    /// The name of that principal, if it has one: of a person, a service account, or the description of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by_name: Option<String>,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// The kind of its job: `tofu` or `container`.
    #[serde(default = "tofu")]
    pub kind: String,
    /// With `container`: the resource of the environment that the job is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// `deploy`, `destroy`, `rollback` or `state`.
    pub mode: String,
    /// Whether it stops after the plan.
    pub plan_only: bool,
    /// Whether its plan leaves out resources of the module (`targets`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// With `rollback`: the deployment that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to_deployment_id: Option<Uuid>,
    /// The deployment whose kept plan it applies, in place of a plan of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_deployment_id: Option<Uuid>,
    /// The plan that Canyon keeps of it; `getDeploymentPlan` has its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<KeptPlan>>,
    /// The approval that its plan needs before it is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<DeploymentApproval>>,
    /// What the policy of the environment's type says of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<DeploymentPolicy>>,
    /// `queued`, `launching`, `running`, `cancelling`; at the end `succeeded`, `failed` or
    /// `cancelled`.
    pub status: String,
    /// The status as text.
    pub status_message: String,
    /// Metrics of the run.
    pub metrics: DeploymentMetrics,
    /// Number of resources that the plan would delete or replace, or that the provider did not find,
    /// if that was more than allowed and ended the run before its apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_deletions: Option<u32>,
    /// The runner that serves it.
    pub runner_id: String,
    /// Why that is a fallback of the environment, not its own runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The named role of the runner that it has, if its request asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Why it needs that role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Always empty workloads; the module defines what to deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// Why it does not run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Seconds from its acceptance to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<u64>,
    /// When its log and its events were removed, because the organization keeps them no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub logs_removed_at: Option<Timestamp>,
    /// Its module; only in the answer to `getDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<DeployedModule>,
    /// With `container`: what it runs; only in the answer to `getDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<DeployedContainer>>,
    /// With `state`: its command, as a person would type it; only in the answer to `getDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_command: Option<String>,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptSummary>,
}

/// A plan that Canyon keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptPlan {
    /// SHA-256 of what is applied: OpenTofu's plan file, with the files that planning has made in the module's folder.
    pub digest: String,
    /// How much it changes.
    pub summary: PlanCounts,
    /// Until when it can be applied; absent if it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// The kind of a deployment of an earlier version.
fn tofu() -> String {
    Kind::Tofu.as_str().to_owned()
}

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentMetrics {
    /// Always 0: there is no workload graph.
    pub num_workloads: u32,
    /// Always 0: there is no resource graph.
    pub num_resource_nodes: u32,
    /// Resources in the state at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources: Option<u32>,
    /// Resources created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources_added: Option<u32>,
    /// Resources destroyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources_removed: Option<u32>,
    /// Resources changed in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources_changed: Option<u32>,
    /// Resources that may exist without being in the state; see `orphans`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources_orphaned: Option<u32>,
}

/// Why a deployment does not run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// The reason, for programs: `earlier_deployment`, `launcher`, `concurrency_limit`, `agent`, `runner` (on which the
    /// launcher can start no job at present), `approval` (of its plan) or `job` (which has not reported yet). Later versions may have more.
    #[serde(default)]
    pub code: String,
    /// The reason, for people.
    pub reason: String,
    /// Start of the wait.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The deployment that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Uuid>,
    /// Latest time of Canyon's next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
}

/// One attempt to run a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptSummary {
    /// 1 for the first.
    pub number: u32,
    /// `launching`, `running`, `stopping`, `succeeded`, `failed` or `cancelled`.
    pub status: String,
    /// The last phase: `launch`, `fetch`, `init`, `plan` or `apply`.
    pub phase: String,
    /// Time of the launch.
    #[schema(value_type = String, format = DateTime)]
    pub launched_at: Timestamp,
    /// Time of a runner's claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub claimed_at: Option<Timestamp>,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// What it fetched, if its runner has reported that: a commit; with an OCI registry, the SHA-256 of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
}

/// The answer to a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentDryRun {
    /// The runner that the deployment would use.
    pub runner_id: String,
    /// What it would run differently from what was deployed last. What changes at a cloud shows a plan only.
    pub diff: DeploymentDiff,
}

/// What one deployment runs differently from another. Each runs one thing: the module of its environment, or what makes a
/// resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentDiff {
    /// The deployment before; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_deployment_id: Option<Uuid>,
    /// The deployment; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_deployment_id: Option<Uuid>,
    /// One entry for each change.
    pub changes: Vec<DeploymentDiffChange>,
    /// How many things are added.
    pub num_added: u32,
    /// How many are changed.
    pub num_changed: u32,
    /// How many are removed.
    pub num_removed: u32,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentDiffChange {
    /// SHA-256 of its resource, in hexadecimal.
    pub id: String,
    /// The resource, such as `s3.default#photos`; `module` for the environment's module.
    pub resource: String,
    /// `added`, `removed`, `module_changed` or `params_changed`.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "module_changed")]
    pub diff_type: DiffType,
    /// The difference in words, without values of inputs.
    pub summary: String,
}

/// The query of `calculateDeploymentDiff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// The deployment of the same environment to compare with. Default: the last one before that has changed the same thing.
    #[serde(default, rename = "fromDeploymentId", skip_serializing_if = "Option::is_none")]
    pub from_deployment_id: Option<Uuid>,
}

/// All outputs, encrypted to the key that the deployment was created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentEncryptedOutputs {
    /// Standard base64 of an `age` file that holds a JSON object.
    pub raw: String,
}

/// One output of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// Whether the module declares it sensitive. If so, it has no value here.
    pub sensitive: bool,
    /// Its value: any JSON. Also absent if Canyon could not store it; the log has the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub value: Option<Json>,
    /// Its type, as OpenTofu writes it: a name such as `"number"`, or a list for a compound type.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    #[schema(value_type = Option<Value>)]
    pub kind: Option<Json>,
}

/// A resource whose creation a killed run had started: it may exist without being in the state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Orphan {
    /// Its address in the module.
    #[schema(example = "aws_s3_bucket.logs[0]")]
    pub address: String,
    /// Its id at the provider, if the provider had returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Header of a part of a log: offset of the next part.
pub const NEXT_OFFSET: &str = "canyon-next-offset";
/// Header of a part of a log: `true` if the deployment has ended and this is the last part.
pub const LOG_COMPLETE: &str = "canyon-log-complete";
/// Header with a key that makes a request idempotent: a repeated request returns the deployment of
/// the first.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
