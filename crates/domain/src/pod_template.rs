//! `job.pod_template`: what people may change in the pod that runs their modules.
//!
//! Three steps, in this order. [`merge`] lays the template over Canyon's own, as Kubernetes would.
//! [`judge`] reads the *result* against a list of what is allowed; a field that nobody has judged is
//! refused, because lists of what is forbidden have failed three times running in a comparable
//! system (CVE-2026-31892, GHSA-3775-99mw-8rp4, CVE-2026-54526). [`force`] then sets the fields that
//! no template may decide. The pod meets the `restricted` Pod Security Standard in the end.
//!
//! Decisions:
//! - The container is `canyon-runner`; `main`, its name in newer documents, means the same.
//! - No further container starts: it would keep the Job from completing. `initContainers` are allowed, with
//!   `restartPolicy: Always` too (a sidecar that Kubernetes ends itself), under the same rules.
//! - `$patch` and the other directives are refused: `null` deletes, and that is all there is.
//! - Names that start with `canyon-`, and variables that start with `CANYON_`, are Canyon's own.

mod containers;
mod force;
mod judge;
mod known_fields;
mod merge;
mod metadata;
mod security;
mod volumes;

pub use force::{ApiToken, force};
pub use judge::judge;
pub use merge::merge;

use crate::field_error::FieldErrors;
use serde_json::{Map, Value, json};

/// Name of the container that runs the module.
pub const CONTAINER: &str = "canyon-runner";
/// Another name for it in templates, from newer documents.
pub const CONTAINER_ALIAS: &str = "main";
/// Start of the names of containers and volumes that only Canyon gives.
pub const RESERVED_PREFIX: &str = "canyon-";
/// Where pods find their API token and the cluster's certificate.
pub const API_TOKEN_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Kept for Canyon's own secrets: nothing is mounted there.
pub const CANYON_SECRETS_DIRECTORY: &str = "/var/run/secrets/canyon";
/// The runner's working folder.
pub const WORK_DIRECTORY: &str = "/canyon";

/// The most that a template may have as JSON, in bytes. A job that an agent launches carries the template twice in one item of
/// the table, which has at most 400 KB, and every look at the runner reads it.
pub const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// The least template: what every launch starts from.
pub fn default_template(service_account: &str) -> Value {
    json!({
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{ "name": CONTAINER }],
            "restartPolicy": "Never",
            "serviceAccountName": service_account,
        }
    })
}

/// Merges a template into the least one and judges the result, for a runner that is being defined: what leads out of the
/// pod is a fault, what only cannot work is a warning, and hides no fault. A launch refuses both.
pub(crate) fn check(template: &Map<String, Value>, service_account: &str) -> FieldErrors {
    let size = Value::Object(template.clone()).to_string().len();
    if size > MAX_TEMPLATE_BYTES {
        let mut errors = FieldErrors::default();
        errors.add("", format!("has {size} bytes as JSON, and at most {MAX_TEMPLATE_BYTES}; mount a ConfigMap for what is large"));
        return errors;
    }
    let (merged, unmerged) = merge::lay_over(default_template(service_account), template);
    let mut found = unmerged.leniently();
    found.add_under("", judge::look(&merged, service_account).1);
    found
}

#[cfg(test)]
mod tests;
