//! `job.pod_template`: changes of the pod that runs modules.
//!
//! Three steps, in this order. [`merge`] merges the template into Canyon's own, as Kubernetes would.
//! [`validate`] validates the *result* against an allow list; a field without an entry is refused, because deny
//! lists have failed three times in a comparable system (CVE-2026-31892, GHSA-3775-99mw-8rp4,
//! CVE-2026-54526). [`force`] then sets the fields that no template may change. The resulting pod meets the
//! `restricted` Pod Security Standard.
//!
//! Decisions:
//! - The container is `canyon-runner`; `main`, its name in newer documents, is an alias.
//! - No further container starts: it would keep the Job from completing. `initContainers` are allowed under
//!   the same rules, also with `restartPolicy: Always` (a sidecar that Kubernetes ends itself).
//! - `$patch` and the other directives are refused; `null` deletes.
//! - Names that start with `canyon-`, and variables that start with `CANYON_`, are reserved for Canyon.

mod containers;
mod force;
mod known_fields;
mod merge;
mod metadata;
mod pod_spec;
mod security;
mod volumes;

pub use force::{ApiToken, force};
pub use merge::merge;
pub use pod_spec::validate;

use crate::field_error::FieldErrors;
use serde_json::{Map, Value, json};

/// Name of the container that runs the module.
pub const CONTAINER: &str = "canyon-runner";
/// An alias of it in templates of newer documents.
pub const CONTAINER_ALIAS: &str = "main";
/// Reserved prefix of the names of containers and volumes.
pub const RESERVED_PREFIX: &str = "canyon-";
/// The directory in which pods find their API token and the cluster's certificate.
pub const API_TOKEN_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Reserved for Canyon's own secrets: no template mounts a volume there.
pub const CANYON_SECRETS_DIRECTORY: &str = "/var/run/secrets/canyon";
/// The runner's working folder.
pub const WORK_DIRECTORY: &str = "/canyon";
/// Where a container job has git, if it has a source.
pub const GIT_DIRECTORY: &str = "/canyon-git";

/// The default template, from which every launch starts.
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

/// Merges a template into the default one and validates the result, for a runner that is being defined. A field that gives
/// the pod access beyond itself is a fault; a field that only cannot work is a warning, and hides no fault. A launch refuses
/// both.
pub(crate) fn check(template: &Map<String, Value>, service_account: &str) -> FieldErrors {
    let (merged, unmerged) = merge::lay_over(default_template(service_account), template);
    let mut found = unmerged.into_warnings();
    found.add_under("", pod_spec::inspect(&merged, service_account).1);
    found
}

#[cfg(test)]
mod tests;
