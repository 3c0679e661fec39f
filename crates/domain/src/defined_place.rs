//! The place that a resource definition gives its job, as changes of a runner.

use crate::field_error::FieldErrors;
use crate::ids::RunnerId;
use crate::merge_patch::merge_patch;
use crate::runner::{CONFIGURATION, JobPlace, RunnerDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a job keeps of its runner's `job` in a cluster, if the runner itself has none.
const KEPT_OUTSIDE_CLUSTERS: [&str; 3] = ["allowed_images", "identity", "timeouts"];

/// The changes of a runner for the jobs of a definition. A deployment keeps them: its job is found there as long as it lives,
/// whatever becomes of the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedPlace {
    /// The runner, if it is another than that of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// `type` and `cluster`, which replace those of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Map<String, Value>>,
    /// What is merged into the runner's `job`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub job: Map<String, Value>,
}

impl DefinedPlace {
    /// The runner with the changes.
    ///
    /// # Errors
    ///
    /// Every fault, by its path below `runner_configuration`.
    pub fn applied_to(&self, runner: &RunnerDefinition) -> Result<RunnerDefinition, FieldErrors> {
        let mut whole = runner.to_value();
        let configuration = &mut whole[CONFIGURATION];
        if let Some(cluster) = &self.cluster {
            let mut job = configuration["job"].take();
            if runner.runner_type().job_place() != JobPlace::Cluster
                && let Value::Object(members) = &mut job
            {
                members.retain(|name, _| KEPT_OUTSIDE_CLUSTERS.contains(&name.as_str()));
            }
            *configuration = Value::Object(cluster.clone());
            configuration["job"] = job;
        }
        if !self.job.is_empty() {
            merge_patch(&mut configuration["job"], Value::Object(self.job.clone()));
        }
        RunnerDefinition::parse_stored(whole)
            .and_then(RunnerDefinition::usable)
            .map_err(|faults| faults.below(CONFIGURATION))
    }

    /// The cluster that it names, as `TYPE NAME`.
    pub fn cluster_name(&self) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let name = text(cluster.get("cluster")?.get("name"))?;
        Some(format!("{} {name}", text(cluster.get("type"))?))
    }

    /// The place, unless it changes nothing of `runner`, the environment's own.
    ///
    /// # Errors
    ///
    /// As [`Self::applied_to`].
    pub fn beside(self, runner: &RunnerDefinition) -> Result<Option<Self>, FieldErrors> {
        let applied = self.applied_to(runner)?;
        let is_other = self.runner.is_some() || applied.to_value() != runner.to_value();
        Ok(is_other.then_some(self))
    }
}
