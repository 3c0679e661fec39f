//! The module that makes a resource, by its definition.

use crate::resource_name::ResourceName;
use crate::run_context::{RunContext, is_template_text};
use crate::secret_reference::SecretReference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a deployment has for the module of a resource, beside the module itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleTask {
    /// The resource that the module makes.
    pub resource: ResourceName,
    /// Texts that the runner writes into the module's folder, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The variables whose values the job reads in a secret store.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, SecretReference>,
}

impl ModuleTask {
    /// Whether a run may change one of its texts.
    pub fn has_templates(&self) -> bool {
        self.files.values().any(|text| is_template_text(text))
    }

    /// Replaces the references to the run in its files.
    pub fn expand(&mut self, context: &RunContext) {
        for text in self.files.values_mut() {
            *text = context.expand_text(text);
        }
    }
}
