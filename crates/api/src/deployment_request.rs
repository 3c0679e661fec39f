//! A request to deploy.

use crate::state_command::StateCommandBody;
use canyon_domain::deployment::Priority;
use canyon_domain::job::{Inputs, LogLevel, Module};
use canyon_domain::variables::secret_json::SecretJson;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// A request to deploy to an environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentCreateBody {
    /// `deploy`, `destroy`, `rollback`, `apply` or `state`; `plan_only` is the older form of `deploy` with
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
    /// The module to run. Without it, `destroy` destroys what the last deployment created, and `state` uses that
    /// deployment's module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ModuleBody>)]
    pub module: Option<Module>,
    /// The container job to run, in place of a module. With `destroy`, without it: the job that has created `resource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub container: Option<Value>,
    /// The resource of the environment that the container job creates, updates or destroys: `TYPE`, `TYPE#ID` or
    /// `TYPE.CLASS#ID`. Default: `container.default#main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 150, example = "s3#photos")]
    pub resource: Option<String>,
    /// The inputs of `resource`, if a resource definition says what runs for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<Map<String, Value>>,
    /// Secret values of the module's variables, by name. They are stored sealed, shown to no caller, and masked in logs. A
    /// rollback, and a `destroy` without a module, use those of the deployment that they repeat or destroy.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "canyon_domain::variables::secret_json::by_name"
    )]
    #[schema(value_type = Option<Object>)]
    pub secret_inputs: BTreeMap<String, SecretJson>,
    /// The workloads of the environment. Only an empty manifest is supported; modules define what
    /// to deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub manifest: Option<Value>,
    /// With `rollback`: the deployment of this environment to repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to_deployment_id: Option<Uuid>,
    /// With `apply`: the deployment of this environment whose kept plan to apply. Exactly that plan is applied: if the state has
    /// changed since, OpenTofu refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_deployment_id: Option<Uuid>,
    /// With `state`: the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_command: Option<StateCommandBody>,
    /// `age` public key to encrypt all outputs to, or up to 10, with commas between them: each secret key alone then reads
    /// them. Without it, sensitive outputs are not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^age[a-z0-9]+(,age[a-z0-9]+){0,9}$", max_length = 2000)]
    pub encrypted_outputs_recipient: Option<String>,
    /// `age` public key to encrypt the logs to, or up to 10, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^age[a-z0-9]+(,age[a-z0-9]+){0,9}$", max_length = 2000)]
    pub encrypted_logs_recipient: Option<String>,
    /// Only check the request: neither store nor run it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_dry_run: bool,
    /// Priority if more deployments wait than agents can launch: `background`, `normal` (the
    /// default) or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "normal")]
    pub priority: Option<Priority>,
    /// The only agent that may launch it. It must be able to launch jobs of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "east-1")]
    pub agent: Option<String>,
    /// The named role of the runner that the run has at the clouds, instead of those of its classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 63, example = "break-glass")]
    pub role: Option<String>,
    /// Why it needs that role, in one line. Readers of the deployment see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 300)]
    pub reason: Option<String>,
    /// Level of the runner's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "info")]
    pub runner_log_level: Option<LogLevel>,
    /// Accept any state in the runner's storage, even if it is not the one that the last run left.
    /// Only for administrators.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_state: bool,
    /// End the run before its apply if its plan deletes or replaces more resources than this.
    /// Resources of the state that the provider does not find count too. The environment's
    /// `deletion_protection` may allow fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295i64, example = 0)]
    pub max_deletions: Option<u32>,
    /// Plan only these resources and modules, and what they depend on (`-target`), such as `aws_vpc.main` or
    /// `module.net["eu"]`. For exceptions: what the plan leaves out stays as it is, although the module may say otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub targets: Vec<String>,
    /// Replace these resources, although the module does not require it (`-replace`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub replace: Vec<String>,
    /// How many operations OpenTofu runs at once (`-parallelism`). Default: OpenTofu's, which is 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 256)]
    pub parallelism: Option<u16>,
    /// `required`: people must approve its plan, also where no rule asks for that. A request never asks for less than the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<RequestedApproval>,
    /// `queued`: it replaces those deployments of the same source that still wait and were requested with `queued` too. Archives
    /// and texts count as one source each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersede: Option<Supersede>,
}

impl DeploymentCreateBody {
    /// A request without options.
    pub fn new(mode: RequestedMode, project_id: &str, env_id: &str) -> Self {
        Self {
            mode,
            project_id: project_id.to_owned(),
            env_id: env_id.to_owned(),
            plan_only: None,
            module: None,
            container: None,
            resource: None,
            params: None,
            secret_inputs: BTreeMap::new(),
            manifest: None,
            rollback_to_deployment_id: None,
            plan_deployment_id: None,
            state_command: None,
            encrypted_outputs_recipient: None,
            encrypted_logs_recipient: None,
            is_dry_run: false,
            priority: None,
            agent: None,
            role: None,
            reason: None,
            runner_log_level: None,
            accept_state: false,
            max_deletions: None,
            targets: Vec::new(),
            replace: Vec::new(),
            parallelism: None,
            approval: None,
            supersede: None,
        }
    }
}

/// A module and the values of its variables.
#[derive(ToSchema)]
pub struct ModuleBody {
    /// `inline`, `sha256:<digest>[//folder]` of an uploaded archive,
    /// `git::<https|ssh|file>://...[//folder][?ref=<ref>]` or `oci://<registry>/<repository>[//folder][?tag=<tag>]`.
    pub source: String,
    /// With `inline`: the text of `main.tf`, at most 128 KiB.
    pub source_code: Option<String>,
    /// Values of its variables, by name.
    #[schema(value_type = Option<Object>)]
    pub inputs: Inputs,
}

/// What a request asks for about approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestedApproval {
    /// People must approve the plan.
    Required,
}

/// Which deployments a new one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Supersede {
    /// None, which is the default.
    None,
    /// Those that still wait.
    Queued,
}

/// The requested mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestedMode {
    /// Apply the module to the environment.
    Deploy,
    /// The older form of `deploy` with `plan_only: true`.
    PlanOnly,
    /// Destroy everything in the environment's state.
    Destroy,
    /// Repeat an earlier deployment.
    Rollback,
    /// Apply the kept plan of `plan_deployment_id`, which says whether that deploys or destroys.
    Apply,
    /// Run `state_command`.
    State,
}
