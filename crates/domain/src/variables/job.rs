//! The variables that a runner receives with its job.

use super::VariableKind;
use super::secret_json::SecretJson;
use crate::json::Json;
use crate::secret_reference::SecretReference;
use crate::secret_store::StoreConfiguration;
use crate::variable_scope::VariableScope;
use serde::{Deserialize, Serialize};

/// A variable of a job, with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVariable {
    /// Its kind.
    pub kind: VariableKind,
    /// Its name.
    pub name: String,
    /// The value. An environment variable has a text.
    pub value: SecretJson,
    /// Whether the runner masks the value in everything that leaves the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The scope of its set, for messages.
    pub from: VariableScope,
    /// Whether it is a secret input of the deployment, in no set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_input: bool,
}

/// A variable of a job whose value the runner reads in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVariable {
    /// Its kind.
    pub kind: VariableKind,
    /// Its name.
    pub name: String,
    /// Where the value is.
    pub reference: SecretReference,
    /// The store.
    pub store: StoreConfiguration,
    /// The scope of its set, for messages.
    pub from: VariableScope,
}

impl JobVariable {
    /// Name and value, if it is an environment variable.
    pub fn environment(&self) -> Option<(&str, &str)> {
        match (self.kind, self.value.expose()) {
            (VariableKind::Environment, Json::String(text)) => Some((&self.name, text)),
            (VariableKind::Environment | VariableKind::Terraform, _) => None,
        }
    }
}
