//! Runners: where and how jobs run, and where their state lies.
//!
//! A definition is parsed once, with every fault named, and serialized back to exactly what was
//! given: no default is written into it. Secrets are the exception. They never leave through
//! serialization; [`RunnerDefinition::split_secrets`] takes them out to be stored apart, so what
//! comes back from the table has none, and is read by [`RunnerDefinition::parse_stored`].

pub mod agent_target;
pub mod agents;
pub mod aks;
pub mod certificate;
pub mod configuration;
pub mod ecs;
pub mod eks;
mod fargate_size;
pub(crate) mod fields;
pub mod gke;
pub mod kubernetes;
pub mod local;
mod patch;
pub(crate) mod patterns;
pub mod profile;
pub(crate) mod published;
mod secrets;
pub mod size;
pub mod timeouts;
pub mod word;

pub use configuration::{RunnerConfiguration, RunnerType};
pub use timeouts::Timeouts;

use crate::{
    field_error::{FieldError, FieldErrors},
    state_storage::{StateStorage, StorageType},
};
use agents::AgentSettings;
use fields::{Fields, nests_deeper_than};
use patterns::DESCRIPTION;
use serde_json::{Map, Value, json};

/// How deep objects and lists may nest in a definition; the pod template is free in form.
pub const MAX_DEPTH: usize = 64;

const CONFIGURATION: &str = "runner_configuration";
const STORAGE: &str = "state_storage_configuration";

/// What a runner is, apart from its name.
#[derive(Clone, Debug)]
pub struct RunnerDefinition {
    /// What people say about it.
    pub description: Option<String>,
    /// Where and how its jobs run.
    pub configuration: RunnerConfiguration,
    /// Where the state of its environments lies.
    pub state_storage: StateStorage,
    /// What the published API accepts in it and what cannot work: no job starts with it.
    warnings: Vec<FieldError>,
}

impl RunnerDefinition {
    /// Reads what someone sent: `description`, `runner_configuration` and
    /// `state_storage_configuration`.
    ///
    /// # Errors
    /// Every fault with its path.
    pub fn parse(value: Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let Some(definition) = Self::read(value, &mut errors) else { return Err(errors) };
        let mut definition = definition.judged(errors)?;
        let missing = definition.missing_secrets();
        definition.warnings.extend(missing.into_iter().map(missing_secret));
        Ok(definition)
    }

    /// Reads what [`Self::to_value`] wrote: the same, but that secrets may be missing. What an earlier version took and this
    /// one does not is a warning: nothing is done with it, and it can be changed.
    ///
    /// # Errors
    /// Every fault with its path, if so little of it can be read that it is no definition.
    pub fn parse_stored(value: Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        match Self::read(value, &mut errors) {
            Some(definition) => definition.judged(errors.leniently()),
            None => Err(errors),
        }
    }

    /// With the warnings among what was found, if that is no more.
    fn judged(mut self, found: FieldErrors) -> Result<Self, FieldErrors> {
        self.warnings = found.warnings().to_vec();
        if found.has_unlisted_warnings() {
            let reason = "has more warnings than are listed".to_owned();
            self.warnings.push(FieldError { path: String::new(), reason });
        }
        found.into_result(self)
    }

    /// The paths and reasons of what cannot work in it, although the published API accepts it. Of a stored one, without
    /// what is said of its secrets.
    pub fn warnings(&self) -> &[FieldError] {
        &self.warnings
    }

    /// Whether Canyon can still watch and stop running jobs: no warning is about the cluster or the access to it. A warning
    /// that is not listed may be about these.
    pub fn can_be_watched(&self) -> bool {
        const WAY: [&str; 5] = [
            "runner_configuration.cluster",
            "runner_configuration.auth",
            "runner_configuration.job.cluster",
            "runner_configuration.job.namespace",
            "runner_configuration.job.region",
        ];
        let is_on_it = |warning: &FieldError| {
            warning.path.is_empty() || WAY.iter().any(|part| warning.path.starts_with(part))
        };
        !self.warnings.iter().any(is_on_it)
    }

    /// The same, where a warning is a fault: what cannot work might also lead elsewhere than it was meant to, so no job
    /// starts with it.
    ///
    /// # Errors
    /// Every warning.
    pub fn usable(self) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        for warning in &self.warnings {
            faults.add(&warning.path, &warning.reason);
        }
        faults.into_result(self)
    }

    /// `None` only with at least one fault noted.
    fn read(value: Value, errors: &mut FieldErrors) -> Option<Self> {
        if nests_deeper_than(MAX_DEPTH, &value) {
            errors.add("", format!("nests more than {MAX_DEPTH} objects and lists"));
            return None;
        }
        let parts = Fields::read(value, "", errors, |fields| {
            let description = fields.text("description", &DESCRIPTION);
            let parts = [CONFIGURATION, STORAGE].map(|name| {
                let part = fields.take(name);
                if part.is_none() {
                    fields.fault(name, "is required");
                }
                part
            });
            (description, parts)
        });
        let (description, [configuration, storage]) = parts?;
        let configuration =
            configuration.and_then(|value| RunnerConfiguration::read(value, CONFIGURATION, errors));
        let state_storage = storage.and_then(|value| StateStorage::read(value, STORAGE, errors));
        let definition = Self {
            description,
            configuration: configuration?,
            state_storage: state_storage?,
            warnings: Vec::new(),
        };
        if let Some(refusal) = definition.storage_type().refusal_for(definition.runner_type()) {
            errors.add(format!("{STORAGE}.type"), format!("does not fit: {refusal}"));
        }
        size::check(&definition.to_value(), errors);
        Some(definition)
    }

    /// The definition as it was given, without secrets.
    pub fn to_value(&self) -> Value {
        let mut value = Map::new();
        if let Some(description) = &self.description {
            value.insert("description".to_owned(), Value::String(description.clone()));
        }
        value.insert(CONFIGURATION.to_owned(), plain(&self.configuration));
        value.insert(STORAGE.to_owned(), plain(&self.state_storage));
        Value::Object(value)
    }

    /// The type of the runner.
    pub fn runner_type(&self) -> RunnerType {
        self.configuration.runner_type()
    }

    /// Where its jobs run, if the states of its environments lie there too: on the disk of the machine, or in the
    /// cluster.
    pub fn state_site(&self) -> Option<Value> {
        self.storage_type().is_where_jobs_run().then(|| self.site())
    }

    /// Where its jobs run: what names that place in the definition, without how Canyon gets there.
    pub fn site(&self) -> Value {
        let agents = self.configuration.agent_settings().map(AgentSettings::site);
        json!({ "cluster": self.cluster_name(), "agents": agents })
    }

    fn cluster_name(&self) -> Option<Value> {
        const NAMES: [&str; 7] = [
            "cluster_data",
            "name",
            "project_id",
            "location",
            "region",
            "resource_group",
            "subscription_id",
        ];
        let cluster = plain(&self.configuration).get_mut("cluster")?.take();
        let Value::Object(mut members) = cluster else { return None };
        // Clusters of two AWS accounts may have one name.
        let role = members.get("auth").and_then(|auth| auth.get("role_arn")?.as_str());
        let account = role.and_then(|arn| arn.split(':').nth(4)).map(Value::from);
        members.retain(|name, _| NAMES.contains(&name.as_str()));
        if let Some(Value::Object(data)) = members.get_mut("cluster_data") {
            data.retain(|name, _| name == "server");
        }
        members.extend(account.map(|account| ("account".to_owned(), account)));
        Some(Value::Object(members))
    }

    /// The type of its state storage.
    pub fn storage_type(&self) -> StorageType {
        self.state_storage.storage_type()
    }

    /// The limits of time that hold for its jobs, with the defaults filled in.
    pub fn timeouts(&self) -> Timeouts {
        self.configuration.timeouts()
    }

    /// Whether an agent launches its jobs.
    pub fn needs_agent(&self) -> bool {
        self.configuration.agent_settings().is_some()
    }

    /// Whether an agent can launch its jobs, if one is asked to.
    pub fn may_have_agent(&self) -> bool {
        self.runner_type().may_have_agent()
    }

    /// Whether Canyon launches its jobs itself.
    pub fn is_direct(&self) -> bool {
        !self.needs_agent()
    }
}

/// What is said of a secret that is needed and not there.
pub fn missing_secret(path: String) -> FieldError {
    let reason = "is required, unless another kind of `auth` is given".to_owned();
    FieldError { path, reason }
}

/// `part` as JSON. Only maps with keys that are not text, or a failing `Serialize`, could make this
/// fail; the types of a definition have neither.
fn plain(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

#[cfg(test)]
mod agents_tests;
#[cfg(test)]
mod tests;
