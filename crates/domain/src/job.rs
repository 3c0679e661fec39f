//! The task of a job: the part of a deployment that only its runner needs.

use crate::container::ContainerTask;
use crate::deployment::Mode;
use crate::environment_state::StateFacts;
use crate::git_credentials::JobGitCredential;
use crate::git_credentials::secret::GitSecret;
use crate::ids::{DeploymentId, EnvId, EnvTypeId, EnvUuid, ProjectId};
pub use crate::inputs::Inputs;
use crate::job_identity::JobIdentity;
use crate::module_source::ModuleSource;
use crate::module_task::ModuleTask;
use crate::plan_options::PlanOptions;
use crate::plan_task::PlanTask;
use crate::policy::JobPolicy;
use crate::secret_variables::SecretVariables;
use crate::state_command::StateCommand;
use crate::unfinished_run::UnfinishedRun;
use crate::unwritten_state::UnwrittenState;
use crate::variable_scope::VariableScope;
use crate::variables::job::{JobVariable, StoredVariable};
use crate::variables::secret_json::SecretJson;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The complete request of a deployment. It is in the object store from the acceptance on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The module to run.
    pub module: Module,
    /// The secret inputs by name, sealed (`inputs::sealing_context`); a job gets them opened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sealed_inputs: BTreeMap<String, String>,
    /// `age` public keys to encrypt the outputs to ([`crate::age_recipients`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_outputs_recipient: Option<String>,
    /// The same for the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_logs_recipient: Option<String>,
    /// The log level of the runner itself.
    #[serde(default)]
    pub log_level: LogLevel,
    /// Options of the plan.
    #[serde(default, skip_serializing_if = "PlanOptions::is_default")]
    pub options: PlanOptions,
    /// With [`Mode::State`]: the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_command: Option<StateCommand>,
    /// The resource that the module makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ModuleTask>,
    /// The container job, in place of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerTask>,
}

/// A module and the values of its variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its source.
    pub source: ModuleSource,
    /// With [`ModuleSource::Inline`]: the text of `main.tf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_code: Option<String>,
    /// Values of its variables, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: Inputs,
}

/// The log level of a runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Each step.
    #[default]
    Info,
    /// Possible problems.
    Warn,
    /// Errors.
    Error,
}

/// Everything that the runner which has claimed an attempt needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The deployment.
    pub deployment_id: DeploymentId,
    /// The attempt.
    pub attempt: u32,
    /// Its fence, which the runner sends with the result.
    pub fence: u64,
    /// The project.
    pub project_id: ProjectId,
    /// The environment.
    pub env_id: EnvId,
    /// The environment's uuid.
    pub env_uuid: EnvUuid,
    /// The environment's type. A Canyon of an earlier version does not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type_id: Option<EnvTypeId>,
    /// What to do.
    pub mode: Mode,
    /// Whether to stop after the plan.
    pub plan_only: bool,
    /// The module and its inputs.
    pub bundle: Bundle,
    /// The content of `backend.tf.json`.
    pub backend: Value,
    /// The program to run.
    pub executable: Executable,
    /// Variables to set for it.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
    /// The variables of the runner's own environment that contain secrets.
    #[serde(default, skip_serializing_if = "SecretVariables::is_empty")]
    pub secret_variables: SecretVariables,
    /// The variables that the organization keeps for the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<JobVariable>,
    /// The variables whose values the runner reads in secret stores, with the job's own identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored_variables: Vec<StoredVariable>,
    /// Secrets that earlier runs may have left in the state: the runner masks them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_secrets: Vec<SecretJson>,
    /// The credentials for git repositories that the organization keeps for the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_credentials: Vec<JobGitCredential>,
    /// What it must find in the state storage.
    #[serde(default)]
    pub state: StateTask,
    /// Maximum number of resources that the plan may delete or replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deletions: Option<u32>,
    /// The plan that it keeps, or applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanTask>,
    /// What it judges its plan by, before people review it and before it is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<JobPolicy>,
    /// Its identity at clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Grace period of a stop, in seconds.
    pub stop_seconds: u32,
}

/// The newest format of a [`Job`] that this version writes and understands. Format 2 compares and moves states and
/// limits deletions, format 3 looks for a state that could not be written, format 4 waits for what an unfinished run
/// left, format 5 has variables, format 6 has git credentials and options of the plan, format 7 has variables of
/// secret stores, and format 8 has commands on the state: programs of earlier versions would run such a job and leave that out.
/// Format 9 has variables of a runner, whose scope programs of earlier versions cannot parse. Format 10 has git credentials
/// that are the job's identity at a cloud, and modules of OCI registries.
/// Format 11 has container jobs, format 12 those with secrets or a source, and format 13 those that check their resource, or what
/// their program will need, and modules with files. Format 14 applies a kept plan, or lets people
/// review one: programs of earlier versions would make one of their own, and apply it. Format 15 checks for
/// drift. Format 16 judges plans by a policy: programs of earlier versions would apply a plan that the policy denies.
pub const FORMAT: u32 = 16;

impl Job {
    /// The oldest format that a program must understand to do everything that this job requires.
    pub fn required_format(&self) -> u32 {
        if self.policy.is_some() {
            return 16;
        }
        if self.mode == Mode::Drift {
            return 15;
        }
        if matches!(self.plan, Some(PlanTask::Apply { .. } | PlanTask::Review { .. })) {
            return 14;
        }
        if let Some(ContainerTask { job, checks, .. }) = &self.bundle.container {
            if self.plan_only || *checks {
                return 13;
            }
            return if job.source.is_some() || job.secrets().next().is_some() { 12 } else { 11 };
        }
        if self.bundle.resource.as_ref().is_some_and(|task| !task.files.is_empty()) {
            return 13;
        }
        // If the state may have been moved or lost, a program that does not compare would create a second
        // one.
        let StateTask { move_from, uncertain, vacant, accepted, .. } = &self.state;
        let is_guarded = move_from.is_some() || *uncertain || *vacant || *accepted;
        let mut secrets = self.git_credentials.iter().map(|one| &one.secret);
        let by_identity = secrets.any(|secret| matches!(secret, GitSecret::CloudIdentity { .. }));
        if by_identity || matches!(self.bundle.module.source, ModuleSource::Oci(_)) {
            return 10;
        }
        let of_kept = self.variables.iter().map(|one| &one.from);
        let mut from = of_kept.chain(self.stored_variables.iter().map(|one| &one.from));
        if from.any(|scope| matches!(scope, VariableScope::Runner(_))) {
            return 9;
        }
        if self.bundle.state_command.is_some() {
            return 8;
        }
        if !self.stored_variables.is_empty() {
            return 7;
        }
        if !self.git_credentials.is_empty() || !self.bundle.options.is_default() {
            return 6;
        }
        if !self.variables.is_empty() {
            return 5;
        }
        if self.state.unfinished.is_some_and(|run| run.unsalvaged) {
            return 4;
        }
        match (&self.state.unwritten, is_guarded || self.max_deletions.is_some()) {
            (Some(_), _) => 3,
            (None, true) => 2,
            (None, false) => 1,
        }
    }
}

/// The state handling of a job before its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "programs of other versions read each by its name"
)]
pub struct StateTask {
    /// Where the state is, for messages.
    #[serde(rename = "place", default)]
    pub location: String,
    /// The state that the last run left there. Any other state ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<StateFacts>,
    /// A run has begun to apply since, and has not reported what it left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// A state must exist, although its facts are not known: a run that succeeded has written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_exist: bool,
    /// The last run that began to apply ended without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<UnfinishedRun>,
    /// The last apply could not write this state: any other ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<UnwrittenState>,
    /// A state with resources is not the environment's: it has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vacant: bool,
    /// An administrator has accepted whatever state is there, unless it was moved away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The state must first be moved here from another storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_from: Option<FormerStateLocation>,
}

/// The storage from which a state must be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerStateLocation {
    /// Where it is, for messages.
    #[serde(rename = "place")]
    pub location: String,
    /// The content of `backend.tf.json` for it.
    pub backend: Value,
}

/// The program that runs modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executable {
    /// `tofu` if it is on the `PATH`, else `terraform`.
    #[default]
    Any,
    /// OpenTofu.
    Tofu,
    /// Terraform.
    Terraform,
}

/// Maximum length of an inline module, in bytes.
pub const MAX_SOURCE_CODE: usize = 128 * 1024;

/// Why a module cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidModule {
    /// The field, below `module`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Module {
    /// A module that declares nothing.
    pub fn empty() -> Self {
        Self {
            source: ModuleSource::Inline,
            source_code: Some(String::new()),
            inputs: Inputs::default(),
        }
    }

    /// Validates what the types do not guarantee.
    ///
    /// # Errors
    ///
    /// [`InvalidModule`] if the source text is missing, too long or not allowed, an input's name cannot be a
    /// variable's, or an input is nested too deeply.
    pub fn check(&self) -> Result<(), InvalidModule> {
        let refuse = |field: &str, reason: &str| {
            Err(InvalidModule { field: field.to_owned(), reason: reason.to_owned() })
        };
        match (&self.source, &self.source_code) {
            (ModuleSource::Inline, None) => {
                return refuse("source_code", "`source: inline` needs the text of main.tf here");
            }
            (ModuleSource::Inline, Some(code)) if code.len() > MAX_SOURCE_CODE => {
                return refuse("source_code", "longer than 128 KiB; upload an archive instead");
            }
            (
                ModuleSource::Archive { .. } | ModuleSource::Git(_) | ModuleSource::Oci(_),
                Some(_),
            ) => {
                return refuse("source_code", "only `source: inline` takes it");
            }
            (ModuleSource::Inline, Some(_)) | (_, None) => {}
        }
        if let Some((name, _)) =
            self.inputs.iter().find(|(_, value)| value.depth() > MAX_INPUT_DEPTH)
        {
            return refuse(
                &format!("inputs[{:?}]", name.chars().take(60).collect::<String>()),
                "nested more than 64 levels deep, which JSON parsers refuse",
            );
        }
        match self.inputs.keys().find(|name| !is_variable_name(name)) {
            Some(name) => Err(InvalidModule {
                field: format!("inputs[{:?}]", name.chars().take(60).collect::<String>()),
                reason: NO_VARIABLE_NAME.to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// Why a text is not a variable's name.
pub const NO_VARIABLE_NAME: &str = "is no name of a variable: those have letters, digits, `_` and `-`, and start with a letter or `_`";

/// Maximum nesting of an input. It is sent within other objects, and JSON parsers stop at 128 levels
/// (`serde_json`).
const MAX_INPUT_DEPTH: usize = 64;

/// Whether a variable of a module can have the name.
pub fn is_variable_name(name: &str) -> bool {
    name.len() <= 200
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
