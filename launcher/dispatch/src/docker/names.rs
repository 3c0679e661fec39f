//! The names and labels of Canyon's containers.

use super::injection::injector_name;
use crate::{JobRef, Target};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use std::collections::HashMap;

/// Label: the organization's uuid.
const ORGANIZATION: &str = "canyon.dev/organization";
/// Label: the runner's uuid.
const RUNNER: &str = "canyon.dev/runner";
const DEPLOYMENT: &str = "canyon.dev/deployment";
const ATTEMPT: &str = "canyon.dev/attempt";
/// Label: the fingerprint of the launch, which tells a repeated launch from a container that Canyon
/// did not create.
pub(super) const LAUNCH: &str = "canyon.dev/launch-sha256";

/// The name of an attempt's container. Names are unique on an engine.
pub(super) fn container_name(job: &JobRef) -> String {
    format!("canyon-{}-{}", job.deployment.0.simple(), job.attempt)
}

/// The labels that identify the organization, runner and attempt of a container.
pub(super) fn identity(target: &Target, job: &JobRef) -> HashMap<String, String> {
    [
        (ORGANIZATION, target.org.to_string()),
        (RUNNER, target.runner.to_string()),
        (DEPLOYMENT, job.deployment.to_string()),
        (ATTEMPT, job.attempt.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// A filter for all containers of a runner.
pub(super) fn of_runner(target: &Target) -> HashMap<String, Vec<String>> {
    let labels =
        vec![format!("{ORGANIZATION}={}", target.org), format!("{RUNNER}={}", target.runner)];
    HashMap::from([("label".to_owned(), labels)])
}

/// A filter for all containers of an organization.
pub(super) fn of_organization(org: OrgUuid) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{ORGANIZATION}={org}")])])
}

/// A filter for all containers of Canyon's jobs.
pub(super) fn of_canyon() -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![RUNNER.to_owned(), DEPLOYMENT.to_owned()])])
}

/// The runner and the attempt of a container, if it has the name and labels that Canyon gives.
pub(super) fn job_of(
    names: &[String],
    labels: Option<&HashMap<String, String>>,
) -> Option<(RunnerUuid, JobRef)> {
    let label = |key: &str| labels?.get(key);
    let runner = label(RUNNER)?.parse().ok()?;
    let deployment = label(DEPLOYMENT)?.parse().ok()?;
    let attempt = label(ATTEMPT)?.parse().ok()?;
    let found = JobRef { deployment, attempt, handle: None };
    let own = [container_name(&found), injector_name(&found)];
    // The engine prefixes each name with a slash.
    let is_own = |given: &String| own.iter().any(|name| given.trim_start_matches('/') == name);
    names.iter().any(is_own).then_some((runner, found))
}
