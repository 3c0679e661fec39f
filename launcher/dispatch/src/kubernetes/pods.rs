//! The state of an attempt from its Job and pods.
//!
//! A job is dead when nothing of it runs and nothing will run: the Job has ended, or its controller
//! has confirmed that it is suspended, and the containers of each pod are proved to have ended. A
//! pod that is missing from the list has ended: Canyon never deletes a pod without the node's
//! confirmation (a grace period of zero), and a node that does not answer keeps its pods in the
//! list. A user may delete a pod that way, and then the cluster keeps no trace of it; docs/state.md
//! warns of that.

use super::{deaths, names};
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::pod_template::CONTAINER;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use std::time::Duration;

/// How long a pod may wait for its image or its configuration before Canyon ends it.
pub(super) const POD_START_GRACE: Duration = Duration::from_secs(30);
/// How long after the end of its grace period a pod that is being deleted still counts as alive.
/// After that, its node, which should have confirmed the end, does not answer.
const POD_TERMINATION_GRACE: Duration = Duration::from_secs(30);

/// The kubelet's word in its refusal of an image whose user is root, or has a name and no number.
const NON_ROOT: &str = "runAsNonRoot";

/// The conclusion from a Job and its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodView {
    /// The observation.
    Seen(Observation),
    /// There is no pod yet: the Job's events may give the reason.
    NoPod {
        /// When the Job was created.
        since: Option<Timestamp>,
    },
    /// The pod will never run: end it with this failure.
    Doomed(Failure),
}

/// Draws the conclusion. The caller must read the Job before the pods: then no pod is missing that
/// the controller created before the Job's end.
pub(super) fn view(job: Option<&Job>, pods: &[Pod], now: Timestamp) -> PodView {
    let living: Vec<&Pod> = pods.iter().filter(|pod| !is_dead(pod)).collect();
    if let Some(pod) = living.iter().find(|pod| is_running(pod)) {
        return PodView::Seen(of_running(pod, now));
    }
    if let Some(pod) = living.first() {
        return match verdict(job) {
            Some(failure) => PodView::Seen(Observation::Waiting(failure.message)),
            None => of_waiting(pod, now),
        };
    }
    let Some(job) = job else { return PodView::Seen(Observation::Gone(None)) };
    if end_of(job).is_some() || is_suspended(job) {
        let reason = verdict(Some(job)).unwrap_or_else(|| deaths::reason(job, pods));
        return PodView::Seen(Observation::Gone(Some(reason)));
    }
    if !pods.is_empty() {
        let reason = "the pod has ended; the cluster has not yet closed the Job".to_owned();
        return PodView::Seen(Observation::Waiting(reason));
    }
    PodView::NoPod { since: job.metadata.creation_timestamp.as_ref().map(|time| time.0) }
}

/// The failure with which Canyon has ended the Job.
fn verdict(job: Option<&Job>) -> Option<Failure> {
    let text = job?.metadata.annotations.as_ref()?.get(names::VERDICT)?;
    serde_json::from_str(text).ok()
}

/// The condition of the Job's end.
pub(super) fn end_of(job: &Job) -> Option<&k8s_openapi::api::batch::v1::JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is_end = |kind: &str| kind == "Complete" || kind == "Failed";
    conditions.iter().find(|condition| is_end(&condition.type_) && condition.status == "True")
}

/// Whether the Job's controller has confirmed the suspension: it creates no pod after that.
fn is_suspended(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let confirmed = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Suspended" && condition.status == "True");
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) && confirmed
}

/// Whether it is proved that no container of the pod runs or will run.
pub(super) fn is_dead(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let never_placed = pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
    if never_placed && pod.metadata.deletion_timestamp.is_some() {
        // The API server assigns no node to a pod that is being deleted.
        return true;
    }
    let phase = status.and_then(|status| status.phase.as_deref());
    if !matches!(phase, Some("Succeeded" | "Failed")) {
        return false;
    }
    // The garbage collector of pods on deleted nodes cannot know what became of the containers.
    let node_is_gone = status.is_some_and(|status| disruption(status) == Some("DeletionByPodGC"));
    node_is_gone || !containers(status).any(runs)
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    !matches!(phase, None | Some("Pending"))
        || containers(status).any(|container| container.name == CONTAINER && runs(container))
}

/// The observation of a pod of which something may run.
fn of_running(pod: &Pod, now: Timestamp) -> Observation {
    let status = pod.status.as_ref();
    let deleted_at = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    // The deletion timestamp is the end of the grace period (Kubernetes API, `ObjectMeta`).
    let is_overdue = deleted_at.is_some_and(|at| now > at + POD_TERMINATION_GRACE);
    let is_cut_off = status.is_some_and(|status| {
        status.reason.as_deref() == Some("NodeLost")
            || disruption(status) == Some("DeletionByTaintManager")
    });
    if is_overdue || is_cut_off {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("?");
        let reason = format!(
            "node `{node}` does not answer; the pod may still run there until the node is back or deleted"
        );
        return Observation::Unknown(reason);
    }
    Observation::Alive
}

/// The conclusion for a pod of which nothing runs yet, except perhaps init containers.
fn of_waiting(pod: &Pod, now: Timestamp) -> PodView {
    let status = pod.status.as_ref();
    if pod.metadata.deletion_timestamp.is_some() {
        return PodView::Seen(Observation::Waiting("the pod is being deleted".to_owned()));
    }
    let has_waited = waits_since(status).is_some_and(|since| now > since + POD_START_GRACE);
    for container in containers(status) {
        let Some(waiting) = container.state.as_ref().and_then(|state| state.waiting.as_ref())
        else {
            continue;
        };
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let message = waiting.message.as_deref().unwrap_or(reason);
        if let Some((class, at_once)) = hopeless(reason, message) {
            let failure = Failure::new(class, words(container, reason, message));
            return if has_waited || at_once {
                PodView::Doomed(failure)
            } else {
                PodView::Seen(Observation::Waiting(failure.message))
            };
        }
    }
    PodView::Seen(Observation::Waiting(why_not_placed(status).unwrap_or_else(|| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        match node {
            Some(node) => format!("the pod's containers are being created on node `{node}`"),
            None => "the pod waits for a node".to_owned(),
        }
    })))
}

/// From when on the pod's next container waits: from the start of the pod, or the end of its last
/// init container.
fn waits_since(status: Option<&PodStatus>) -> Option<Timestamp> {
    let begun = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let ends = status.and_then(|status| status.init_container_statuses.as_ref());
    let ends = ends.into_iter().flatten().filter_map(|container| {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        Some(ended.finished_at.as_ref()?.0)
    });
    begun.into_iter().chain(ends).max()
}

/// The failure class of a waiting reason that does not pass by itself, and whether to end the pod
/// at once.
fn hopeless(reason: &str, message: &str) -> Option<(FailureClass, bool)> {
    Some(match reason {
        "CreateContainerConfigError" if message.contains(NON_ROOT) => (FailureClass::Config, true),
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => (FailureClass::ImagePull, false),
        "InvalidImageName" | "ErrImageNeverPull" => (FailureClass::ImagePull, true),
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError"
        | "CrashLoopBackOff"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "PostStartHookError" => (FailureClass::Config, false),
        _ => return None,
    })
}

fn words(container: &ContainerStatus, reason: &str, message: &str) -> String {
    let (name, image) = (&container.name, &container.image);
    match hopeless(reason, message) {
        Some((FailureClass::ImagePull, _)) => {
            format!("image `{image}` of container `{name}` cannot be pulled: {message}")
        }
        Some((_, true)) => format!(
            "image `{image}` of container `{name}` names no user that is surely not root: {message}; give it a numeric \
            `USER` other than 0, or set `securityContext.runAsUser` in the runner's `job.pod_template`"
        ),
        _ => format!("container `{name}` cannot be created ({reason}): {message}"),
    }
}

/// The scheduler's message.
fn why_not_placed(status: Option<&PodStatus>) -> Option<String> {
    let conditions = status?.conditions.as_ref()?;
    let placed = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    if placed.status == "True" {
        return None;
    }
    let message = placed.message.as_deref().or(placed.reason.as_deref()).unwrap_or("no node yet");
    Some(format!("no node takes the pod: {message}"))
}

pub(super) fn containers(status: Option<&PodStatus>) -> impl Iterator<Item = &ContainerStatus> {
    let of = |list: fn(&PodStatus) -> Option<&Vec<ContainerStatus>>| {
        status.and_then(list).into_iter().flatten()
    };
    of(|status| status.init_container_statuses.as_ref())
        .chain(of(|status| status.container_statuses.as_ref()))
}

/// The digest of the image of the job's container. A node names an image that it has not pulled by another digest.
pub(super) fn image_digest(pod: &Pod) -> Option<Commit> {
    let job = containers(pod.status.as_ref()).find(|container| container.name == CONTAINER)?;
    job.image_id.split_once("@sha256:")?.1.parse().ok()
}

/// Why the cluster removed the pod from its node, if it did.
pub(super) fn disruption(status: &PodStatus) -> Option<&str> {
    let conditions = status.conditions.as_ref()?;
    let target = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget")?;
    (target.status == "True").then_some(target.reason.as_deref().unwrap_or_default())
}

fn runs(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
