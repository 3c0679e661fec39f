//! What the owner of a cluster says about all jobs there. It lies under what each runner says, and is judged by
//! the same list of what a pod may have.

use canyon_domain::field_error::FieldErrors;
use canyon_domain::pod_template::{self, CONTAINER};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The account that a pod has while only the defaults are judged.
const ANY_ACCOUNT: &str = "default";

/// Nothing is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDefaults {
    /// Runner image of jobs whose template names none.
    pub image: Option<String>,
    /// The one namespace of jobs: a runner that names another is refused.
    pub namespace: Option<String>,
    /// Memory and CPU that a pod needs, and the most that it gets, as Kubernetes writes them.
    pub memory_request: Option<String>,
    /// See `memory_request`.
    pub memory_limit: Option<String>,
    /// See `memory_request`.
    pub cpu_request: Option<String>,
    /// See `memory_request`.
    pub cpu_limit: Option<String>,
    /// As whom the container runs.
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
    /// Whether a pod may have what is said.
    ///
    /// # Errors
    ///
    /// Each field that no pod of Canyon's may have, by its place in a pod template.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let merged = self.under(pod_template::default_template(ANY_ACCOUNT))?;
        pod_template::judge(&merged, ANY_ACCOUNT).map(drop)
    }

    /// Canyon's own template with these laid over it.
    pub(super) fn under(&self, template: Value) -> Result<Value, FieldErrors> {
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

/// The members that there are; nothing if there are none.
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
    fn what_is_not_said_is_not_in_the_template() {
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
    fn defaults_are_judged_as_templates_are() {
        let root = JobDefaults { run_as_user: Some(0), ..JobDefaults::default() };
        let said = root.check().unwrap_err().to_string();
        assert!(said.contains("securityContext.runAsUser"), "{said}");
        let labels = BTreeMap::from([("canyon.dev/runner".to_owned(), "other".to_owned())]);
        let said = JobDefaults { labels, ..JobDefaults::default() }.check().unwrap_err();
        assert!(said.to_string().contains("metadata.labels"), "{said}");
    }
}
