//! The cluster owner's defaults for all jobs there. A runner's template overrides them, and the
//! same rules decide what a pod may have.

use canyon_domain::field_error::FieldErrors;
use canyon_domain::pod_template::{self, CONTAINER};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The service account of the pod with which the defaults alone are validated.
const ANY_ACCOUNT: &str = "default";

/// The defaults. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDefaults {
    /// Runner image of jobs whose template names none.
    pub image: Option<String>,
    /// The only namespace of jobs: a runner that names another is refused.
    pub namespace: Option<String>,
    /// Requests and limits of memory and CPU, in Kubernetes notation.
    pub memory_request: Option<String>,
    /// See `memory_request`.
    pub memory_limit: Option<String>,
    /// See `memory_request`.
    pub cpu_request: Option<String>,
    /// See `memory_request`.
    pub cpu_limit: Option<String>,
    /// The user that the container runs as.
    pub run_as_user: Option<i64>,
    /// See `run_as_user`.
    pub run_as_group: Option<i64>,
    /// See `run_as_user`.
    pub run_as_non_root: Option<bool>,
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Further entries of `/etc/hosts`: names by address.
    pub host_aliases: BTreeMap<String, Vec<String>>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
}

impl JobDefaults {
    /// Validates the defaults.
    ///
    /// # Errors
    ///
    /// Each field that a pod of Canyon's must not have, by its path in a pod template.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let merged = self.apply_to(pod_template::default_template(ANY_ACCOUNT))?;
        pod_template::validate(&merged, ANY_ACCOUNT).map(drop)
    }

    /// Canyon's own template, overridden by these defaults.
    pub(super) fn apply_to(&self, template: Value) -> Result<Value, FieldErrors> {
        pod_template::merge(template, &Value::Object(self.template()))
    }

    fn template(&self) -> Map<String, Value> {
        let amounts = |memory: &Option<String>, cpu: &Option<String>| {
            let given = [("memory", memory), ("cpu", cpu)];
            object(given.map(|(name, value)| (name, value.as_ref().map(|value| json!(value)))))
        };
        let resources = object([
            ("requests", amounts(&self.memory_request, &self.cpu_request)),
            ("limits", amounts(&self.memory_limit, &self.cpu_limit)),
        ]);
        let security = object([
            ("runAsUser", self.run_as_user.map(|id| json!(id))),
            ("runAsGroup", self.run_as_group.map(|id| json!(id))),
            ("runAsNonRoot", self.run_as_non_root.map(|flag| json!(flag))),
        ]);
        let container = object([("resources", resources)]).map(|mut container| {
            container["name"] = json!(CONTAINER);
            json!([container])
        });
        let aliases: Vec<_> = self
            .host_aliases
            .iter()
            .map(|(address, names)| json!({ "ip": address, "hostnames": names }))
            .collect();
        let spec = object([
            ("securityContext", security),
            ("containers", container),
            ("nodeSelector", map(&self.node_selector)),
            ("hostAliases", (!aliases.is_empty()).then(|| json!(aliases))),
        ]);
        let metadata =
            object([("annotations", map(&self.annotations)), ("labels", map(&self.labels))]);
        let parts = [("metadata", metadata), ("spec", spec)].into_iter();
        parts.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// An object of the members that have a value; `None` if none has.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Option<Value> {
    let given: Map<_, _> =
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!given.is_empty()).then_some(Value::Object(given))
}

fn map(entries: &BTreeMap<String, String>) -> Option<Value> {
    (!entries.is_empty()).then(|| json!(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_default_is_not_in_the_template() {
        assert_eq!(JobDefaults::default().template(), Map::new());
        let limit = JobDefaults { memory_limit: Some("1Gi".to_owned()), ..JobDefaults::default() };
        let container =
            json!({ "name": CONTAINER, "resources": { "limits": { "memory": "1Gi" } } });
        assert_eq!(
            Value::Object(limit.template()),
            json!({ "spec": { "containers": [container] } })
        );
        limit.check().unwrap();
    }

    #[test]
    fn defaults_are_validated_as_templates_are() {
        let root = JobDefaults { run_as_user: Some(0), ..JobDefaults::default() };
        let message = root.check().unwrap_err().to_string();
        assert!(message.contains("securityContext.runAsUser"), "{message}");
        let labels = BTreeMap::from([("canyon.dev/runner".to_owned(), "other".to_owned())]);
        let faults = JobDefaults { labels, ..JobDefaults::default() }.check().unwrap_err();
        assert!(faults.to_string().contains("metadata.labels"), "{faults}");
    }
}
