//! The Job of an attempt, from the runner's definition and the launch.

use super::defaults::JobDefaults;
use super::{names, template};
use crate::{DispatchError, Launch, Target, fingerprint};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::kubernetes::KubernetesJob;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Added to the Job's deadline for what the timeouts do not cover, such as the wait for a stop.
const MARGIN_SECONDS: i64 = 120;
/// If Canyon does not delete the Job, the cluster does so two days after its end. With a shorter
/// time, the reason of its end could be gone before a Canyon that was down reads it.
const KEEP_SECONDS: i32 = 2 * 86_400;

/// The Job of `launch`.
///
/// # Errors
///
/// If the definition gives no valid pod. The error names the field to change.
pub(super) fn job(
    target: &Target,
    defaults: &JobDefaults,
    launch: &Launch,
) -> Result<Job, DispatchError> {
    let settings = settings(target)?;
    if let Some(namespace) = defaults.namespace.as_ref().filter(|own| **own != settings.namespace) {
        let message = format!(
            "runner `{}` names namespace `{}`, but this agent launches only in namespace `{namespace}`: \
             change `job.namespace`, or the agent's setting",
            target.runner_id, settings.namespace
        );
        return Err(DispatchError::refused(FailureClass::Config, message));
    }
    let spec = spec(target, settings, defaults, launch)?;
    let annotations = [
        (names::LAUNCH, fingerprint::of_launch(launch)),
        (names::SPEC, fingerprint::of(&spec)),
        ("canyon.dev/project", launch.project.to_string()),
        ("canyon.dev/environment", launch.env.to_string()),
        ("canyon.dev/runner-id", target.runner_id.to_string()),
    ];
    let metadata = ObjectMeta {
        name: Some(names::job_name(&launch.job)),
        namespace: Some(settings.namespace.clone()),
        labels: Some(names::labels(target, &launch.job)),
        annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
        ..ObjectMeta::default()
    };
    Ok(Job { metadata, spec: Some(spec), status: None })
}

/// The job settings of the runner's definition.
pub(super) fn settings(target: &Target) -> Result<&KubernetesJob, DispatchError> {
    target.definition.configuration.kubernetes_job().ok_or_else(|| {
        let message = format!("runner `{}` is not of a Kubernetes type", target.runner_id);
        DispatchError::refused(FailureClass::Config, message)
    })
}

fn spec(
    target: &Target,
    settings: &KubernetesJob,
    defaults: &JobDefaults,
    launch: &Launch,
) -> Result<JobSpec, DispatchError> {
    let limits = target.definition.timeouts();
    let stop = match &launch.container {
        Some(job) => job.stop_seconds.into(),
        None => limits.stop.as_secs(),
    };
    let kept = launch.container.as_ref().map_or(0, |job| job.keep_seconds.into());
    let longest = (limits.start + limits.run).as_secs() + stop + kept + MARGIN_SECONDS;
    let mut template = template::pod_template(target, settings, defaults, launch)?;
    let spec = template.spec.get_or_insert_default();
    // At most the timeout of a stop: a node that waits for the end of a grace period does not
    // accept a shorter one (kubelet, `SyncTerminatingPod`).
    let given = spec.termination_grace_period_seconds.filter(|_| launch.container.is_none());
    let grace = given.unwrap_or(i64::MAX).min(stop);
    spec.termination_grace_period_seconds = Some(grace);
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend(names::labels(target, &launch.job));
    Ok(JobSpec {
        active_deadline_seconds: Some(longest),
        backoff_limit: Some(0),
        completions: Some(1),
        parallelism: Some(1),
        // Otherwise a pod that is being deleted is replaced while it may still run.
        pod_replacement_policy: Some("Failed".to_owned()),
        pod_failure_policy: Some(disruption_policy()),
        ttl_seconds_after_finished: Some(KEEP_SECONDS),
        template,
        ..JobSpec::default()
    })
}

/// Makes the Job note a disruption, because a pod that a drain or a preemption deletes takes its status with it: the
/// Job fails with the reason `PodFailurePolicy`, instead of without any.
fn disruption_policy() -> PodFailurePolicy {
    let disrupted = PodFailurePolicyOnPodConditionsPattern {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
    };
    PodFailurePolicy {
        rules: vec![PodFailurePolicyRule {
            action: "FailJob".to_owned(),
            on_exit_codes: None,
            on_pod_conditions: Some(vec![disrupted]),
        }],
    }
}
