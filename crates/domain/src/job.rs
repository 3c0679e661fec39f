//! What a job is to do: the part of a deployment that only its runner needs.

use crate::deployment::Mode;
use crate::ids::{DeploymentId, EnvId, EnvUuid, ProjectId};
use crate::job_identity::JobIdentity;
use crate::module_source::ModuleSource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What was asked for, as it was asked for. It lies in the blob store from the acceptance on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The module to run.
    pub module: Module,
    /// `age` public key to encrypt the outputs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_outputs_recipient: Option<String>,
    /// `age` public key to encrypt the logs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_logs_recipient: Option<String>,
    /// How much the runner itself says.
    #[serde(default)]
    pub log_level: LogLevel,
}

/// A module and the values of its variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Where it comes from.
    pub source: ModuleSource,
    /// With [`ModuleSource::Inline`]: the text of `main.tf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_code: Option<String>,
    /// Values of its variables, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// How much a runner says in its own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Each step.
    #[default]
    Info,
    /// What may go wrong.
    Warn,
    /// What went wrong.
    Error,
}

/// Everything that the runner which has claimed an attempt needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The deployment.
    pub deployment_id: DeploymentId,
    /// The attempt.
    pub attempt: u32,
    /// Its fence, to be sent with the result.
    pub fence: u64,
    /// The project.
    pub project_id: ProjectId,
    /// The environment.
    pub env_id: EnvId,
    /// Which life of the environment.
    pub env_uuid: EnvUuid,
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
    /// Whom it is at the clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Seconds that it may take to stop.
    pub stop_seconds: u32,
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

/// The most that a module may bring inline, in bytes.
pub const MAX_SOURCE_CODE: usize = 128 * 1024;

/// Why a module cannot be run; the first part is the field's path below `module`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidModule {
    /// The field, below `module`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Module {
    /// Checks what the types alone do not say.
    ///
    /// # Errors
    ///
    /// [`InvalidModule`] when the source text is missing, too long or out of place, or when an
    /// input's name cannot be a variable's.
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
            (ModuleSource::Archive { .. } | ModuleSource::Git(_), Some(_)) => {
                return refuse("source_code", "only `source: inline` takes it");
            }
            (ModuleSource::Inline, Some(_)) | (_, None) => {}
        }
        if let Some((name, _)) =
            self.inputs.iter().find(|(_, value)| depth(value) > MAX_INPUT_DEPTH)
        {
            return refuse(
                &format!("inputs[{:?}]", name.chars().take(60).collect::<String>()),
                "nested more than 64 levels deep; JSON readers on the way refuse that",
            );
        }
        match self.inputs.keys().find(|name| !is_variable_name(name)) {
            Some(name) => Err(InvalidModule {
                field: format!("inputs[{:?}]", name.chars().take(60).collect::<String>()),
                reason: "an OpenTofu variable's name has letters, digits, `_` and `-`, and starts \
                         with a letter or `_`"
                    .to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// How deep an input may be nested. It travels within other objects, and a reader of JSON gives up at 128
/// levels (`serde_json`).
const MAX_INPUT_DEPTH: usize = 64;

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

fn is_variable_name(name: &str) -> bool {
    name.len() <= 200
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(source: &str, code: Option<&str>, input: &str) -> Module {
        let inputs = Map::from_iter([(input.to_owned(), Value::Null)]);
        Module { source: source.parse().unwrap(), source_code: code.map(str::to_owned), inputs }
    }

    #[test]
    fn a_module_brings_its_text_exactly_when_it_is_inline() {
        let git = "git::https://git.example.com/a.git";
        assert_eq!(module("inline", Some(""), "a").check(), Ok(()));
        assert_eq!(module(git, None, "a").check(), Ok(()));
        assert_eq!(module("inline", None, "a").check().unwrap_err().field, "source_code");
        assert_eq!(module(git, Some(""), "a").check().unwrap_err().field, "source_code");
        let long = "#".repeat(MAX_SOURCE_CODE + 1);
        assert_eq!(module("inline", Some(&long), "a").check().unwrap_err().field, "source_code");
    }

    #[test]
    fn an_input_is_not_deeper_than_readers_of_json_go() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let check = |levels| {
            let mut module = module("inline", Some(""), "a");
            module.inputs.insert("a".to_owned(), nested(levels));
            module.check()
        };
        assert_eq!(check(64), Ok(()));
        assert_eq!(check(65).unwrap_err().field, "inputs[\"a\"]");
    }

    #[test]
    fn an_input_is_named_like_a_variable() {
        for name in ["", "1a", "a b", "a=b", "-chdir", "a\n", "../x"] {
            assert!(module("inline", Some(""), name).check().is_err(), "{name:?}");
        }
    }
}
