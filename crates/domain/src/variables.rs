//! Variables that an organization keeps for its jobs: Terraform variables and environment variables, in the clear or
//! secret.
//!
//! A set of variables has a scope: a runner, the organization, a project or a group of projects, an environment type, or
//! an environment. A job gets the variables of every set whose scope covers its run; of two with the same key, the one
//! with the nearer scope, in the order of [`VariableScope`].

pub mod edit;
pub mod effective;
pub mod former;
pub mod job;
pub mod secret_json;
pub mod uses;

use crate::git_credentials::{GitCredential, GitCredentials, MAX_CREDENTIALS};
use crate::ids::{EnvTypeId, PrincipalId};
use crate::json::Json;
use crate::secret_reference::SecretReference;
use crate::variable_scope::VariableScope;
use former::FormerSecrets;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The most variables of one set.
pub const MAX_VARIABLES: usize = 200;
/// The largest value, in bytes of its JSON.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// The largest set, in bytes of its names and values. An item of DynamoDB has at most 400 KB, and a sealed value is a
/// third longer than the value.
pub const MAX_SET_BYTES: usize = 256 * 1024;
/// The longest name, in bytes.
const MAX_NAME: usize = 200;

/// What a variable is in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableKind {
    /// A variable of the module. A module that does not declare it does not get it.
    Terraform,
    /// A variable of OpenTofu's environment, which providers and programs of the module see.
    Environment,
}

impl VariableKind {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::Environment => "environment",
        }
    }
}

/// The kind and the name of a variable. A set has each key once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VariableKey {
    /// Its kind.
    pub kind: VariableKind,
    /// Its name.
    pub name: String,
}

/// Why a text is not the name of a variable. It continues a sentence after the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Its characters or its length.
    #[error(
        "is not a name: use 1 to 200 letters, digits and underscores (Terraform variables also hyphens), starting with a \
         letter or an underscore"
    )]
    Form,
    /// The runner sets it, or it would break a run.
    #[error(
        "cannot be set: the runner sets it itself, or it would change how the runner calls OpenTofu"
    )]
    Reserved,
    /// The environment variable that OpenTofu reads a Terraform variable from.
    #[error("names a Terraform variable: set that variable instead, without `TF_VAR_`")]
    TerraformVariable,
}

/// Environment variables that the runner sets for every module.
pub const SET_BY_RUNNER: [&str; 5] =
    ["TMPDIR", "TF_DATA_DIR", "TF_IN_AUTOMATION", "TF_INPUT", "CHECKPOINT_DISABLE"];

/// Whether a definition may set the environment variable `name` for a module. `TF_CLI_ARGS` could add options such as
/// `-lock=false` to every command, and `TF_WORKSPACE` selects another state than the one that Canyon knows. Names that
/// begin with `CANYON_` are Canyon's own.
pub fn may_be_set(name: &str) -> bool {
    !name.starts_with("TF_CLI_ARGS") && name != "TF_WORKSPACE" && !name.starts_with("CANYON_")
}

impl VariableKey {
    /// The key with these parts.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if a variable of this kind cannot have the name.
    pub fn new(kind: VariableKind, name: &str) -> Result<Self, InvalidName> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_part = |c: char| is_letter(c) || (kind == VariableKind::Terraform && c == '-');
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts || name.len() > MAX_NAME || !name.chars().all(is_part) {
            return Err(InvalidName::Form);
        }
        if name.starts_with("TF_VAR_") {
            return Err(InvalidName::TerraformVariable);
        }
        let may_be_set = || may_be_set(name) && !SET_BY_RUNNER.contains(&name);
        if kind == VariableKind::Environment && !may_be_set() {
            return Err(InvalidName::Reserved);
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl fmt::Display for VariableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.as_str(), self.name)
    }
}

/// A variable's value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableValue {
    /// In the clear. An environment variable has a text.
    Plain(Json),
    /// The JSON of a secret value, sealed with the master key for this set and key.
    Sealed(String),
    /// Where a job reads the secret value.
    Reference(SecretReference),
}

impl VariableValue {
    /// Whether it is a secret.
    pub fn is_secret(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Sealed(_) | Self::Reference(_) => true,
        }
    }
}

impl fmt::Debug for VariableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(value) => f.debug_tuple("Plain").field(value).finish(),
            Self::Sealed(_) => f.write_str("Sealed(***)"),
            Self::Reference(of) => f.debug_tuple("Reference").field(of).finish(),
        }
    }
}

/// A variable of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its value.
    pub value: VariableValue,
    /// Its purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it was last set.
    pub updated_at: Timestamp,
    /// The principal that set it.
    pub updated_by: PrincipalId,
}

/// The variables of one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSet {
    /// What they apply to.
    pub scope: VariableScope,
    /// The type of the environment, if the scope is one.
    pub env_type: Option<EnvTypeId>,
    /// The variables.
    pub variables: BTreeMap<VariableKey, Variable>,
    /// The credentials for git repositories, which are kept with the variables so that a claim reads both at once.
    pub git_credentials: GitCredentials,
    /// Former values of its secrets.
    pub former_secrets: FormerSecrets,
    /// When the first was set.
    pub created_at: Timestamp,
    /// When one was last changed.
    pub updated_at: Timestamp,
    /// Increases with every write; 0 before the first.
    pub version: u64,
}

impl VariableSet {
    /// A set without variables, which is not stored.
    pub fn empty(scope: VariableScope, env_type: Option<EnvTypeId>, now: Timestamp) -> Self {
        Self {
            scope,
            env_type,
            variables: BTreeMap::new(),
            git_credentials: GitCredentials::new(),
            former_secrets: FormerSecrets::default(),
            created_at: now,
            updated_at: now,
            version: 0,
        }
    }

    /// The context in which the value of `key` is sealed. A value that was copied to another organization, scope or name
    /// does not open there.
    pub fn sealing_context(
        org: crate::ids::OrgUuid,
        scope: &VariableScope,
        key: &VariableKey,
    ) -> String {
        format!("variable#{org}#{scope}#{key}")
    }

    /// Why the set is too large, if it is. It continues a sentence after the path.
    pub fn excess(&self) -> Option<String> {
        if self.variables.len() > MAX_VARIABLES {
            let given = self.variables.len();
            return Some(format!(
                "would have {given} variables; at most {MAX_VARIABLES} are allowed"
            ));
        }
        if self.git_credentials.len() > MAX_CREDENTIALS {
            let given = self.git_credentials.len();
            return Some(format!(
                "would have {given} git credentials; at most {MAX_CREDENTIALS} are allowed"
            ));
        }
        let size = |(key, variable): (&VariableKey, &Variable)| {
            let value = match &variable.value {
                VariableValue::Plain(value) => value.to_string().len(),
                VariableValue::Sealed(sealed) => sealed.len() / 4 * 3,
                VariableValue::Reference(of) => of.locator.len(),
            };
            key.name.len() + value + variable.description.as_ref().map_or(0, String::len)
        };
        let size_of_credential = |one: &GitCredential| one.sealed.len() / 4 * 3;
        let bytes = self.variables.iter().map(size).sum::<usize>()
            + self.git_credentials.values().map(size_of_credential).sum::<usize>();
        (bytes > MAX_SET_BYTES).then(|| {
            format!("would have {} KiB; at most {} are allowed", bytes / 1024, MAX_SET_BYTES / 1024)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_its_kind() {
        use VariableKind::{Environment, Terraform};
        for (kind, name) in [
            (Terraform, "region"),
            (Terraform, "_a-b"),
            (Environment, "AWS_REGION"),
            (Environment, "TF_LOG"),
            (Environment, "TF_TOKEN_registry_example_com"),
        ] {
            assert_eq!(VariableKey::new(kind, name).unwrap().name, name);
        }
        let long = "a".repeat(201);
        for (kind, name, fault) in [
            (Terraform, "", InvalidName::Form),
            (Terraform, "1a", InvalidName::Form),
            (Terraform, "a.b", InvalidName::Form),
            (Terraform, "é", InvalidName::Form),
            (Terraform, long.as_str(), InvalidName::Form),
            (Environment, "A-B", InvalidName::Form),
            (Environment, "A=B", InvalidName::Form),
            (Environment, "TF_VAR_region", InvalidName::TerraformVariable),
            (Terraform, "TF_VAR_region", InvalidName::TerraformVariable),
            (Environment, "TF_CLI_ARGS_plan", InvalidName::Reserved),
            (Environment, "TF_WORKSPACE", InvalidName::Reserved),
            (Environment, "CANYON_API_URL", InvalidName::Reserved),
            (Environment, "TF_DATA_DIR", InvalidName::Reserved),
        ] {
            assert_eq!(VariableKey::new(kind, name), Err(fault), "{name:?}");
        }
    }

    #[test]
    fn a_set_has_limits() {
        let key = |n: usize| VariableKey::new(VariableKind::Terraform, &format!("v{n}")).unwrap();
        let variable = |bytes: usize| Variable {
            value: VariableValue::Plain("x".repeat(bytes).into()),
            description: None,
            updated_at: Timestamp::UNIX_EPOCH,
            updated_by: PrincipalId(uuid::Uuid::nil()),
        };
        let mut set = VariableSet::empty(VariableScope::Organization, None, Timestamp::UNIX_EPOCH);
        set.variables = (0..200).map(|n| (key(n), variable(1000))).collect();
        assert_eq!(set.excess(), None);
        set.variables.insert(key(200), variable(1));
        assert!(set.excess().unwrap().contains("201 variables"));
        set.variables = (0..4).map(|n| (key(n), variable(64 * 1024 - 10))).collect();
        assert_eq!(set.excess(), None);
        set.variables.insert(key(5), variable(1000));
        assert!(set.excess().unwrap().contains("256 KiB; at most 256"));
    }
}
