//! Runners: where and how jobs run, and where their state is stored.
//!
//! A definition is parsed once, and every fault is reported. Serialization returns exactly what was given: no
//! default is added. Secrets are the exception: they are never serialized.
//! [`RunnerDefinition::split_secrets`] takes them out to be stored separately, so a stored definition has
//! none, and is read by [`RunnerDefinition::parse_stored`].

pub mod agent_target;
pub mod agents;
pub mod aks;
pub mod allowed_images;
pub mod certificate;
pub(crate) mod check_step;
pub mod configuration;
pub mod container_limits;
pub mod container_size;
pub mod docker;
pub mod ecs;
pub mod eks;
mod fargate_size;
pub(crate) mod fields;
pub mod gke;
pub mod job_identity;
pub mod job_roles;
mod kind;
pub mod kubernetes;
pub mod local;
pub mod named_role;
mod patch;
pub(crate) mod patterns;
pub mod profile;
pub(crate) mod properties;
pub(crate) mod published;
pub(crate) mod schema;
mod secrets;
pub(crate) mod shape;
pub mod size;
pub mod state_storage;
pub mod string_enum;
pub(crate) mod tagged_object;
pub mod timeouts;
pub mod trust;

pub use configuration::{RunnerConfiguration, RunnerType};
pub use kind::{JobPlace, LaunchedBy};
pub use timeouts::Timeouts;

use crate::to_json::to_json;
use crate::{
    field_error::{FieldError, FieldErrors},
    state_storage::{StateStorage, StorageType},
};
use agents::AgentSettings;
use fields::Fields;
use patterns::DESCRIPTION;
use serde_json::{Map, Value, json};
use size::nests_deeper_than;

/// Maximum nesting of objects and lists in a definition; the pod template has no fixed form.
pub const MAX_DEPTH: usize = 64;

pub(crate) const CONFIGURATION: &str = "runner_configuration";
const STORAGE: &str = "state_storage_configuration";

/// The definition of a runner, without its name.
#[derive(Clone, Debug)]
pub struct RunnerDefinition {
    /// A description for users.
    pub description: Option<String>,
    /// Where and how its jobs run.
    pub configuration: RunnerConfiguration,
    /// Where the state of its environments is stored.
    pub state_storage: StateStorage,
    /// Values that the published API accepts and that cannot work: no job starts with them.
    warnings: Vec<FieldError>,
}

impl RunnerDefinition {
    /// Parses a request: `description`, `runner_configuration` and `state_storage_configuration`.
    ///
    /// # Errors
    /// Every fault with its path.
    pub fn parse(value: Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let Some(definition) = Self::read(value, &mut errors) else { return Err(errors) };
        let mut definition = definition.with_warnings_of(errors)?;
        let missing = definition.missing_secrets();
        definition.warnings.extend(missing.into_iter().map(missing_secret));
        Ok(definition)
    }

    /// Parses what [`Self::to_value`] wrote, in which secrets may be missing. A value that only an earlier
    /// version accepted is a warning: it is not used, and can be changed.
    ///
    /// # Errors
    /// Every fault with its path, if too little can be read to form a definition.
    pub fn parse_stored(value: Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        match Self::read(value, &mut errors) {
            Some(definition) => definition.with_warnings_of(errors.into_warnings()),
            None => Err(errors),
        }
    }

    /// Adds the warnings that were found, if there are no faults.
    fn with_warnings_of(mut self, found: FieldErrors) -> Result<Self, FieldErrors> {
        self.warnings = found.warnings().to_vec();
        if found.has_unlisted_warnings() {
            let reason = "has more warnings than are listed".to_owned();
            self.warnings.push(FieldError { path: String::new(), reason });
        }
        found.into_result(self)
    }

    /// The values that cannot work although the published API accepts them, with paths and reasons. For a
    /// stored definition, without warnings about its secrets.
    pub fn warnings(&self) -> &[FieldError] {
        &self.warnings
    }

    /// Whether Canyon can still watch and stop running jobs: no warning is about the cluster or the access to it. A warning
    /// that is not listed may be about these.
    pub fn can_be_observed(&self) -> bool {
        const LOCATION_FIELDS: [&str; 5] = [
            "runner_configuration.cluster",
            "runner_configuration.auth",
            "runner_configuration.job.cluster",
            "runner_configuration.job.namespace",
            "runner_configuration.job.region",
        ];
        let is_location = |warning: &FieldError| {
            warning.path.is_empty()
                || LOCATION_FIELDS.iter().any(|part| warning.path.starts_with(part))
        };
        !self.warnings.iter().any(is_location)
    }

    /// The definition, if it has no warning: a value that cannot work might also lead to another target than
    /// intended, so no job starts with it.
    ///
    /// # Errors
    /// Every warning, as a fault.
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
        value.insert(CONFIGURATION.to_owned(), to_json(&self.configuration));
        value.insert(STORAGE.to_owned(), to_json(&self.state_storage));
        Value::Object(value)
    }

    /// The type of the runner.
    pub fn runner_type(&self) -> RunnerType {
        self.configuration.runner_type()
    }

    /// The identity of the platform that its jobs run on, if the states of its environments are stored there
    /// too: on the machine's disk, or in the cluster.
    pub fn state_platform(&self) -> Option<Value> {
        self.storage_type().is_on_job_platform().then(|| self.platform_identity())
    }

    /// The identity of the platform that its jobs run on: the fields of the definition that name it, without
    /// those that describe the access to it.
    pub fn platform_identity(&self) -> Value {
        let agents = self.configuration.agent_settings().map(AgentSettings::platform_identity);
        json!({ "cluster": self.cluster_name(), "agents": agents })
    }

    /// Whether it finds the jobs that `other` has launched: they differ in nothing that says where jobs run, or how that
    /// place is reached.
    pub fn finds_jobs_of(&self, other: &Self) -> bool {
        self.way_to_jobs() == other.way_to_jobs()
    }

    /// The configuration without what concerns only the jobs to come.
    fn way_to_jobs(&self) -> Value {
        const OF_JOBS_TO_COME: [&str; 9] = [
            "allowed_images",
            "cpu",
            "environment",
            "identity",
            "image",
            "memory",
            "memory_limit",
            "secrets",
            "timeouts",
        ];
        let mut configuration = to_json(&self.configuration);
        if let Some(members) = configuration.as_object_mut()
            && let Some(mut job) = members.remove("job")
        {
            if let Some(job) = job.as_object_mut() {
                job.retain(|name, _| !OF_JOBS_TO_COME.contains(&name.as_str()));
            }
            if job.as_object().is_some_and(|job| !job.is_empty()) {
                members.insert("job".to_owned(), job);
            }
        }
        configuration
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
        let cluster = to_json(&self.configuration).get_mut("cluster")?.take();
        let Value::Object(mut members) = cluster else { return None };
        // Clusters of two AWS accounts may have the same name.
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

    /// The effective timeouts of its jobs, with defaults.
    pub fn timeouts(&self) -> Timeouts {
        self.configuration.timeouts()
    }

    /// Whether an agent launches its jobs.
    pub fn needs_agent(&self) -> bool {
        self.configuration.agent_settings().is_some()
    }

    /// Whether an agent can launch its jobs, if a deployment requests it.
    pub fn may_have_agent(&self) -> bool {
        self.runner_type().may_have_agent()
    }

    /// Whether Canyon launches its jobs itself.
    pub fn is_direct(&self) -> bool {
        !self.needs_agent()
    }

    /// Whether its jobs run on Canyon's own machine, which only `canyon local` has.
    pub fn is_on_own_machine(&self) -> bool {
        let place = self.runner_type().job_place();
        self.is_direct() && matches!(place, JobPlace::Docker | JobPlace::Machine)
    }
}

/// The fault or warning of a required secret that is missing.
pub fn missing_secret(path: String) -> FieldError {
    let reason = "is required, unless another kind of `auth` is given".to_owned();
    FieldError { path, reason }
}

#[cfg(test)]
mod agents_tests;
#[cfg(test)]
mod tests;
