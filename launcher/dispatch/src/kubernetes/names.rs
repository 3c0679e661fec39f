//! The names, labels and annotations of Canyon's objects in a cluster.

use crate::{JobRef, Target};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Label: the organization's uuid.
pub(super) const ORGANIZATION: &str = "canyon.dev/organization";
/// Label: the runner's uuid.
pub(super) const RUNNER: &str = "canyon.dev/runner";
/// Label: the deployment's id.
pub(super) const DEPLOYMENT: &str = "canyon.dev/deployment";
/// Label: the attempt's number.
pub(super) const ATTEMPT: &str = "canyon.dev/attempt";
/// Annotation: the fingerprint of the launch, which tells a repeated launch from a Job that Canyon
/// did not create.
pub(super) const LAUNCH: &str = "canyon.dev/launch-sha256";
/// Annotation: the fingerprint of the Job's specification as it was sent.
pub(super) const SPEC: &str = "canyon.dev/spec-sha256";
/// Annotation: the failure of the attempt, once Canyon has ended a pod that can never run.
pub(super) const VERDICT: &str = "canyon.dev/verdict";

/// Label of all objects that Canyon creates.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "canyon");
/// Label of jobs and their pods, which tells them from other objects of Canyon.
pub(super) const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "job");

/// The name of an attempt's Job: at most 50 characters, because a pod's name adds six and a label
/// has at most 63.
pub(super) fn job_name(job: &JobRef) -> String {
    format!("canyon-{}-{}", job.deployment.0.simple(), job.attempt)
}

/// The labels of a Job and of its pod.
pub(super) fn labels(target: &Target, job: &JobRef) -> BTreeMap<String, String> {
    let mut labels = identity(target, job);
    labels.extend(
        [
            ("app.kubernetes.io/name", "canyon-runner".to_owned()),
            ("app.kubernetes.io/instance", job_name(job)),
            (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
            (COMPONENT.0, COMPONENT.1.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    labels
}

/// The labels that identify the organization, runner and attempt of a Job.
pub(super) fn identity(target: &Target, job: &JobRef) -> BTreeMap<String, String> {
    [
        (ORGANIZATION, target.org.to_string()),
        (RUNNER, target.runner.to_string()),
        (DEPLOYMENT, job.deployment.to_string()),
        (ATTEMPT, job.attempt.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// A selector for the pods of one attempt, which also works after its Job is gone.
pub(super) fn pods_of(target: &Target, job: &JobRef) -> String {
    let labels: Vec<_> =
        identity(target, job).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(",")
}

/// A selector for all Jobs of a runner.
pub(super) fn jobs_of(target: &Target) -> String {
    format!("{ORGANIZATION}={},{RUNNER}={}", target.org, target.runner)
}

/// The attempt of a Job, if it has the name and labels that Canyon gives.
pub(super) fn job_of(job: &Job) -> Option<JobRef> {
    let ObjectMeta { name, labels, .. } = &job.metadata;
    let label = |key: &str| labels.as_ref()?.get(key);
    let deployment = label(DEPLOYMENT)?.parse().ok()?;
    let attempt = label(ATTEMPT)?.parse().ok()?;
    let found = JobRef { deployment, attempt, handle: None };
    (name.as_deref() == Some(&job_name(&found))).then_some(found)
}
