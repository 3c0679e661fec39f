//! Runner profiles: named settings, which a runner of an agent's type selects for each deployment with its
//! `profile`.

use crate::field_error::FieldErrors;
use crate::ids::RunnerProfileId;
use crate::merge_patch::merge_patch;
use crate::runner::agents::AgentTarget;
use crate::runner::fields::Fields;
use crate::runner::{CONFIGURATION, JobPlace, RunnerDefinition, RunnerType};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A profile.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerProfile {
    /// Its name.
    pub id: RunnerProfileId,
    /// A description for users.
    pub description: Option<String>,
    /// What it changes.
    pub settings: ProfileSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with every write.
    pub version: u64,
}

/// The settings of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileSettings {
    /// Which agents launch, instead of those that the runner names.
    pub agents: Option<AgentTarget>,
    /// Merged into the runner's `job` (RFC 7396): `null` removes a setting.
    pub job: Map<String, Value>,
}

impl ProfileSettings {
    /// Parses a request, and validates it as a part of a runner of each type.
    ///
    /// # Errors
    ///
    /// Every fault with its path, for the type of runner that it fits best.
    pub fn parse(agents: Option<Value>, job: Map<String, Value>) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        let agents = match agents {
            Some(given) => Fields::read(given, "agents", &mut errors, AgentTarget::read).flatten(),
            None => None,
        };
        if job.contains_key("identity") {
            errors.add(
                "job.identity",
                "is the runner's alone: clouds trust the runner, and no profile",
            );
        }
        let settings = errors.into_result(Self { agents, job })?;
        settings.kinds().map(|_| settings)
    }

    /// The types of runners that may use it.
    ///
    /// # Errors
    ///
    /// If there is none: the faults for the type that it fits best.
    pub fn kinds(&self) -> Result<Vec<RunnerType>, FieldErrors> {
        let mut kinds = Vec::new();
        let mut fewest: Option<FieldErrors> = None;
        for (kind, example) in examples() {
            match self.merged(example) {
                Ok(_) => kinds.push(kind),
                Err(faults) => {
                    if fewest.as_ref().is_none_or(|known| distance(&faults) < distance(known)) {
                        fewest = Some(faults);
                    }
                }
            }
        }
        match fewest {
            Some(faults) if kinds.is_empty() => Err(faults),
            _ => Ok(kinds),
        }
    }

    /// The runner's definition with these settings, validated as any other.
    ///
    /// # Errors
    ///
    /// Every fault with its path.
    pub fn applied_to(
        &self,
        definition: &RunnerDefinition,
    ) -> Result<RunnerDefinition, FieldErrors> {
        self.merged(definition.to_value())
    }

    fn merged(&self, mut definition: Value) -> Result<RunnerDefinition, FieldErrors> {
        let configuration = &mut definition[CONFIGURATION];
        merge_patch(&mut configuration["job"], Value::Object(self.job.clone()));
        if let Some(agents) = &self.agents {
            configuration["agents"] = json!(agents);
        }
        let merged = RunnerDefinition::parse_stored(definition);
        merged.and_then(RunnerDefinition::usable).map_err(|faults| faults.below(CONFIGURATION))
    }
}

/// How far settings are from fitting a type: first by the number of unknown fields.
fn distance(faults: &FieldErrors) -> (usize, usize) {
    let unknown = faults.iter().filter(|fault| fault.reason.starts_with("is not a known field"));
    (unknown.count(), faults.iter().count())
}

/// Minimal runners of each type that has profiles, for the validation of settings.
fn examples() -> impl Iterator<Item = (RunnerType, Value)> {
    let always_by_agents = RunnerType::ALL.iter().copied().filter(|kind| kind.needs_agent());
    always_by_agents.map(|kind| {
        let job = match kind.job_place() {
            JobPlace::Cluster => json!({ "namespace": "canyon", "service_account": "canyon" }),
            JobPlace::Ecs => json!({
                "region": "eu-central-1", "cluster": "canyon", "subnets": ["subnet-0123456789abcdef0"],
                "execution_role_arn": "arn:aws:iam::123456789012:role/canyon",
            }),
            JobPlace::Docker | JobPlace::Machine => json!({}),
        };
        let configuration = json!({ "type": kind, "job": job });
        let storage = json!({ "type": "s3", "bucket": "canyon-state" });
        (kind, json!({ CONFIGURATION: configuration, "state_storage_configuration": storage }))
    })
}

#[cfg(test)]
#[path = "runner_profile_tests.rs"]
mod tests;
