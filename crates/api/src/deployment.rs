//! Deployments.

use canyon_domain::deployment::Priority;
use canyon_domain::failure::Failure;
use canyon_domain::job::{Inputs, LogLevel, Module};
use canyon_domain::json::Json;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A request to deploy to an environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentCreateBody {
    /// `deploy`, `destroy` or `rollback`; `plan_only` is an older way to say `deploy` with
    /// `plan_only`.
    pub mode: RequestedMode,
    /// The project.
    #[schema(example = "my-project")]
    pub project_id: String,
    /// The environment.
    #[schema(example = "development")]
    pub env_id: String,
    /// Stop after the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_only: Option<bool>,
    /// The module to run. Without it, `destroy` destroys what the last deployment made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ModuleBody>)]
    pub module: Option<Module>,
    /// The workloads of the environment. Only an empty one is served; modules say what to deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// With `rollback`: the deployment of this environment to repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to_deployment_id: Option<Uuid>,
    /// `age` public key to encrypt all outputs to. Without it sensitive outputs are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^age[a-z0-9]+$", max_length = 200)]
    pub encrypted_outputs_recipient: Option<String>,
    /// `age` public key to encrypt the logs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^age[a-z0-9]+$", max_length = 200)]
    pub encrypted_logs_recipient: Option<String>,
    /// Check the request, and neither store nor run it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_dry_run: bool,
    /// What it goes before, where more wait than agents can launch: `background`, `normal` (unless
    /// given) or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "normal")]
    pub priority: Option<Priority>,
    /// The one agent that is to launch it, of those that may launch jobs of its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "east-1")]
    pub agent: Option<String>,
    /// How much the runner says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "info")]
    pub runner_log_level: Option<LogLevel>,
    /// Take whatever state lies in the runner's storage, although it is not the one that the last run
    /// left. Only an administrator may say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_state: bool,
    /// End the run before its apply if its plan deletes or replaces more resources than this. The
    /// environment's `deletion_protection` may allow fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295i64, example = 0)]
    pub max_deletions: Option<u32>,
}

/// A module and the values of its variables.
#[derive(ToSchema)]
pub struct ModuleBody {
    /// `inline`, `sha256:<digest>[//folder]` of an uploaded archive, or
    /// `git::<https|ssh|file>://...[//folder][?ref=<ref>]`.
    pub source: String,
    /// With `inline`: the text of `main.tf`, at most 128 KiB.
    pub source_code: Option<String>,
    /// Values of its variables, by name.
    #[schema(value_type = Option<Object>)]
    pub inputs: Inputs,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestedMode {
    /// Make the environment what the module says.
    Deploy,
    /// The older way to say `deploy` with `plan_only: true`.
    PlanOnly,
    /// Destroy everything in the environment's state.
    Destroy,
    /// Deploy again what a former deployment had deployed.
    Rollback,
}

/// A deployment. Lists leave out `manifest` and `attempts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    /// The organization.
    pub org_id: String,
    /// The project.
    pub project_id: String,
    /// The environment.
    pub env_id: String,
    /// Its id; ids sort by the time of acceptance.
    pub id: Uuid,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Who asked for it.
    pub created_by: Uuid,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// `deploy`, `destroy` or `rollback`.
    pub mode: String,
    /// Whether it stops after the plan.
    pub plan_only: bool,
    /// With `rollback`: the deployment that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to_deployment_id: Option<Uuid>,
    /// `queued`, `launching`, `running`, `cancelling`; at the end `succeeded`, `failed` or
    /// `cancelled`.
    pub status: String,
    /// The status in words.
    pub status_message: String,
    /// Numbers about the run.
    pub metrics: DeploymentMetrics,
    /// How many resources the plan would have deleted or replaced, when that was more than allowed and
    /// ended the run before its apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_deletions: Option<u32>,
    /// The runner that serves it.
    pub runner_id: String,
    /// Always empty workloads; the module says what to deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// Why it does not run yet, and what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Its launches, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptSummary>,
}

/// Numbers about a run.
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
    /// Resources that may exist although the state does not know them; see `orphans`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_tf_resources_orphaned: Option<u32>,
}

/// Why a deployment does not run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// In words.
    pub reason: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The deployment that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Uuid>,
    /// When Canyon tries next, at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
}

/// One launch of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptSummary {
    /// 1 for the first.
    pub number: u32,
    /// `launching`, `running`, `stopping`, `succeeded`, `failed` or `cancelled`.
    pub status: String,
    /// How far it came: `launch`, `fetch`, `init`, `plan` or `apply`.
    pub phase: String,
    /// When it was launched.
    #[schema(value_type = String, format = DateTime)]
    pub launched_at: Timestamp,
    /// When a runner claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub claimed_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
}

/// The answer to a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentDryRun {
    /// The runner that would have served it.
    pub runner_id: String,
    /// Always without changes: there is no resource graph to compare.
    pub diff: DeploymentDiff,
}

/// The difference between two resource graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentDiff {
    /// One entry a change.
    #[schema(value_type = Vec<Object>)]
    pub changes: Vec<String>,
    /// Resources added.
    pub num_added: u32,
    /// Resources changed.
    pub num_changed: u32,
    /// Resources removed.
    pub num_removed: u32,
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
    /// Whether the module declares it sensitive; then it has no value here.
    pub sensitive: bool,
    /// Its value: anything that JSON can say. Absent too if Canyon could not keep it; the log says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub value: Option<Json>,
    /// Its type, as OpenTofu writes it: a word such as `"number"`, or a list for what has parts.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    #[schema(value_type = Option<Value>)]
    pub kind: Option<Json>,
}

/// A resource that a run had begun to create when it died: it may exist without the state knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Orphan {
    /// Its address in the module.
    #[schema(example = "aws_s3_bucket.logs[0]")]
    pub address: String,
    /// Its id at the provider, if the creation had come so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

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
}

/// How long to wait for an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Seconds, 2 to 25; 25 without it. A longer time is cut to 25; ask again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<i64>, minimum = 2, maximum = 4_294_967_295i64)]
    pub timeout_in_seconds: Option<u32>,
}

/// Which part of a stream to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// `log` (what people read, the default) or `events` (OpenTofu's `-json` lines).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(log|events)$")]
    pub stream: Option<String>,
    /// Bytes to skip; 0 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Seconds to wait for more when there is nothing yet, at most 25; 0 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}

/// Header of a part of a log: where the next part begins.
pub const NEXT_OFFSET: &str = "canyon-next-offset";
/// Header of a part of a log: `true` when the deployment has ended and nothing follows.
pub const LOG_COMPLETE: &str = "canyon-log-complete";
/// Header that makes a repeated request find the first one's deployment.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
