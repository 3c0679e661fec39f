//! The environment variables of a job that contain secrets, derived from the runner's definition.
//!
//! The definition names where a secret is stored and never its value. So the runner receives the names with
//! its claim, and masks the values of these variables in its own environment.

use crate::pod_template::CONTAINER;
use crate::runner::RunnerDefinition;
use crate::runner::ecs::EcsJob;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The names of variables that contain secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretVariables {
    /// Variables that the definition names individually.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// Prefixes of variables: a pod's `envFrom` sets a variable for each key of a Secret, and the definition
    /// does not list the keys. Without a `prefix` it is the empty text.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prefixes: BTreeSet<String>,
    /// Exceptions: variables whose value the definition gives in clear or takes from a source other than a
    /// Secret.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub open: BTreeSet<String>,
}

impl SecretVariables {
    /// The secret variables of `definition`.
    pub fn of(definition: &RunnerDefinition) -> Self {
        let configuration = &definition.configuration;
        if let Some(job) = configuration.ecs_job() {
            Self::of_ecs(job)
        } else {
            // Definitions of processes and of containers on Docker hosts give all values in clear.
            let template = configuration.kubernetes_job().and_then(|job| job.pod_template.as_ref());
            template.map(Self::of_pod).unwrap_or_default()
        }
    }

    fn of_ecs(job: &EcsJob) -> Self {
        let names = job.secrets.iter().flat_map(|secrets| secrets.keys().cloned()).collect();
        Self { names, ..Self::default() }
    }

    fn of_pod(template: &Map<String, Value>) -> Self {
        let list = |container: &Value, field: &str| {
            container[field].as_array().cloned().unwrap_or_default()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = template.get("spec").map(|spec| list(spec, "containers"));
        let mut secrets = Self::default();
        let is_runner = |container: &&Value| container["name"] == CONTAINER;
        for container in containers.iter().flatten().filter(is_runner) {
            for variable in list(container, "env") {
                let from_secret = variable["valueFrom"]["secretKeyRef"].is_object();
                let kind = if from_secret { &mut secrets.names } else { &mut secrets.open };
                kind.insert(text(&variable["name"]));
            }
            let sources = list(container, "envFrom");
            let of_secrets = sources.iter().filter(|source| source["secretRef"].is_object());
            secrets.prefixes.extend(of_secrets.map(|source| text(&source["prefix"])));
        }
        if secrets.prefixes.is_empty() {
            secrets.open.clear();
        }
        secrets
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Whether the variable `name` contains a secret.
    pub fn contains(&self, name: &str) -> bool {
        let has_prefix = || self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        self.names.contains(name) || !self.open.contains(name) && has_prefix()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(runner: &Value) -> SecretVariables {
        let definition = json!({
            "runner_configuration": runner,
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        });
        SecretVariables::of(&RunnerDefinition::parse_stored(definition).unwrap())
    }

    fn of_pod(container: &Value) -> SecretVariables {
        let mut runner = json!({ "name": "canyon-runner" });
        runner.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        of(&json!({ "type": "kubernetes-agent", "job": {
            "namespace": "jobs", "service_account": "canyon",
            "pod_template": { "spec": { "containers": [runner] } },
        }}))
    }

    fn holds(secrets: &SecretVariables, names: [&str; 4]) -> [bool; 4] {
        names.map(|name| secrets.contains(name))
    }

    #[test]
    fn a_variable_that_a_pod_takes_from_a_secret_is_listed_by_its_name() {
        let secrets = of_pod(&json!({ "env": [
            { "name": "DB", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
            { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            { "name": "REGION", "value": "eu" },
        ]}));
        let names = ["DB", "NODE", "REGION", "X"];
        assert_eq!(holds(&secrets, names), [true, false, false, false]);
        assert_eq!(json!(secrets), json!({ "names": ["DB"] }));
    }

    #[test]
    fn with_a_whole_secret_every_variable_is_secret_that_the_definition_does_not_set_otherwise() {
        let env = json!([{ "name": "REGION", "value": "eu" }]);
        let whole = of_pod(&json!({ "env": env, "envFrom": [{ "secretRef": { "name": "s" } }] }));
        assert_eq!(holds(&whole, ["DB", "REGION", "", "X"]), [true, false, true, true]);
        let prefixed = of_pod(&json!({ "envFrom": [
            { "secretRef": { "name": "s" }, "prefix": "DB_" },
            { "configMapRef": { "name": "c" }, "prefix": "C_" },
        ]}));
        assert_eq!(holds(&prefixed, ["DB_A", "C_A", "DB", "X"]), [true, false, false, false]);
    }

    #[test]
    fn the_secrets_of_a_task_are_its_secret_variables() {
        let arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:a-AbCdEf";
        let secrets = of(&json!({ "type": "ecs-agent", "job": {
            "execution_role_arn": "arn:aws:iam::123456789012:role/pull",
            "environment": { "REGION": "eu" }, "secrets": { "DB": arn },
        }}));
        assert_eq!(holds(&secrets, ["DB", "REGION", "", "X"]), [true, false, false, false]);
    }

    #[test]
    fn a_job_of_another_version_has_none() {
        assert_eq!(
            serde_json::from_value::<SecretVariables>(json!({})).unwrap(),
            SecretVariables::default()
        );
        assert!(of(&json!({ "type": "docker-agent" })).is_empty());
    }
}
