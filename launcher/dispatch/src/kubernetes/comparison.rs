//! Compares an existing Job with the one that a launch would create.
//!
//! The Job's annotations name its launch, but every user who may create Jobs in the namespace can
//! copy them. So the content is compared too: each container with its image, command, environment
//! and permissions. The API server adds defaults and rewrites quantities; of such fields only those
//! that Canyon sets are compared, and quantities are not.

use super::names;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The fields of a pod that decide what runs with which permissions.
const OF_POD: [&str; 9] = [
    "serviceAccountName",
    "automountServiceAccountToken",
    "securityContext",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "volumes",
    "runtimeClassName",
];
const OF_CONTAINER: [&str; 8] =
    ["name", "image", "command", "args", "env", "envFrom", "securityContext", "volumeMounts"];
const RIGHTS: &str = "securityContext";
/// Fields that the API server stores in another notation.
const QUANTITIES: [&str; 3] = ["sizeLimit", "resources", "divisor"];
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// How `found` differs from `wanted`; `None` if it does not.
pub(super) fn difference(
    wanted: &Job,
    found: &Job,
    identity: &BTreeMap<String, String>,
) -> Option<String> {
    let labels = found.metadata.labels.as_ref();
    let other =
        |label: &&String| labels.and_then(|labels| labels.get(*label)) != identity.get(*label);
    if let Some(label) = identity.keys().find(other) {
        return Some(format!("its label `{label}` differs"));
    }
    for annotation in [names::LAUNCH, names::SPEC] {
        let of = |job: &Job| job.metadata.annotations.as_ref()?.get(annotation).cloned();
        if of(found).is_none() || of(found) != of(wanted) {
            return Some(format!("its annotation `{annotation}` differs"));
        }
    }
    of_pods(&pod_of(wanted), &pod_of(found))
}

fn pod_of(job: &Job) -> Value {
    job.spec.as_ref().map_or(Value::Null, |spec| json!(spec.template.spec))
}

fn of_pods(wanted: &Value, found: &Value) -> Option<String> {
    if let Some(field) = OF_POD.iter().find(|field| is_other(field, wanted, found)) {
        return Some(format!("its pod has a different `{field}`"));
    }
    for list in CONTAINERS {
        let of = |pod: &Value| pod[list].as_array().cloned().unwrap_or_default();
        let (wanted, found) = (of(wanted), of(found));
        if wanted.len() != found.len() {
            return Some(format!("it has different `{list}`"));
        }
        for (wanted, found) in wanted.iter().zip(&found) {
            if let Some(field) = OF_CONTAINER.iter().find(|field| is_other(field, wanted, found)) {
                let name = wanted["name"].as_str().unwrap_or_default();
                return Some(format!("its container `{name}` has a different `{field}`"));
            }
        }
    }
    None
}

fn is_other(field: &str, wanted: &Value, found: &Value) -> bool {
    let (wanted, mut found) = (&wanted[field], found[field].clone());
    if field != RIGHTS {
        return !keeps(wanted, &found);
    }
    // No permission may be added; this value is the default.
    if found.get("procMount").is_some_and(|kind| kind == "Default") {
        found["procMount"] = Value::Null;
    }
    !keeps(wanted, &found) || !keeps(&found, wanted)
}

/// Whether `found` contains all of `wanted`. Objects may have more fields, but lists no more
/// elements.
fn keeps(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().all(|(key, value)| {
            QUANTITIES.contains(&key.as_str())
                || keeps(value, found.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(w, f)| keeps(w, f))
        }
        // The API server does not store false or empty values, and a value that Canyon did not set must be absent.
        _ => wanted == found || (is_nothing(wanted) && is_nothing(found)),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(change: impl Fn(&mut Value)) -> Value {
        let mut pod = json!({
            "hostNetwork": false, "serviceAccountName": "canyon",
            "containers": [{
                "name": "canyon-runner", "image": "runner:1",
                "env": [{ "name": "A", "value": "" }],
                "securityContext": { "privileged": false, "capabilities": { "drop": ["ALL"] } },
            }],
        });
        change(&mut pod);
        pod
    }

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let stored = pod(|pod| {
            pod["hostNetwork"] = Value::Null;
            pod["dnsPolicy"] = json!("ClusterFirst");
            pod["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
            pod["containers"][0]["env"] = json!([{ "name": "A" }]);
            pod["containers"][0]["securityContext"]["procMount"] = json!("Default");
        });
        assert_eq!(of_pods(&pod(|_| {}), &stored), None);
    }

    #[test]
    fn a_different_image_permission_or_container_is_named() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 7] = [
            (|pod| pod["hostNetwork"] = json!(true), "`hostNetwork`"),
            (|pod| pod["containers"][0]["image"] = json!("other"), "`image`"),
            (|pod| pod["containers"][0]["command"] = json!(["sh"]), "`command`"),
            (|pod| pod["containers"][0]["env"][0]["value"] = json!("b"), "`env`"),
            (
                |pod| pod["containers"][0]["securityContext"]["privileged"] = json!(true),
                "`securityContext`",
            ),
            (
                |pod| pod["containers"][0]["securityContext"]["procMount"] = json!("Unmasked"),
                "`securityContext`",
            ),
            (|pod| pod["initContainers"] = json!([{ "name": "first" }]), "`initContainers`"),
        ];
        for (change, named) in changes {
            let difference = of_pods(&pod(|_| {}), &pod(change)).unwrap();
            assert!(difference.contains(named), "{difference}");
        }
    }
}
