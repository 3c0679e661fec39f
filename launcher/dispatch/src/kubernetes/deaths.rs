//! Why a job ended without its runner's result.

use super::container_job::INJECT;
use super::pods::{containers, disruption, end_of};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::pod_template::CONTAINER;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodStatus};

/// The reason of the death of a Job that has ended. Its pods, as far as they are still listed, have
/// ended too.
pub(super) fn reason(job: &Job, pods: &[Pod]) -> Failure {
    // The deadline first, because the container only shows that it was killed.
    of_deadline(job)
        .or_else(|| pods.iter().find_map(of_pod))
        .or_else(|| of_disruption(job))
        .unwrap_or_else(|| {
            let is_complete = end_of(job).is_some_and(|end| end.type_ == "Complete");
            let message = if is_complete {
                "the runner ended without a result (exit code 0)"
            } else {
                "the pod is gone, and the cluster gives no reason"
            };
            Failure::new(FailureClass::Lost, message)
        })
}

fn of_deadline(job: &Job) -> Option<Failure> {
    let end = end_of(job).filter(|end| end.reason.as_deref() == Some("DeadlineExceeded"))?;
    let words = end.message.as_deref().unwrap_or_default();
    let message = format!("the cluster ended the Job at its `activeDeadlineSeconds`: {words}");
    Some(Failure::new(FailureClass::Timeout, message))
}

/// The pod was deleted with its status, but the Job has noted the disruption.
fn of_disruption(job: &Job) -> Option<Failure> {
    let end = end_of(job).filter(|end| end.reason.as_deref() == Some("PodFailurePolicy"))?;
    let words = end.message.as_deref().unwrap_or_default();
    Some(Failure::new(FailureClass::Evicted, format!("the pod was taken off its node: {words}")))
}

fn of_pod(pod: &Pod) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    of_node(status).or_else(|| of_containers(pod, status))
}

/// Whether the kernel killed the container for lack of memory. Nothing else kills the container of
/// a pod that was not deleted and has no probes; not all container runtimes report it.
fn is_starved(pod: &Pod, name: &str, ended: &ContainerStateTerminated) -> bool {
    let has_limit = pod.spec.as_ref().is_some_and(|spec| {
        let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let found = all.find(|container| container.name == name);
        let limits = found.and_then(|found| found.resources.as_ref()?.limits.as_ref());
        limits.is_some_and(|limits| limits.contains_key("memory"))
    });
    ended.exit_code == 137 && has_limit && pod.metadata.deletion_timestamp.is_none()
}

/// What happened to the whole pod.
fn of_node(status: &PodStatus) -> Option<Failure> {
    let words = status.message.as_deref().unwrap_or_default();
    let (class, what) = match (status.reason.as_deref(), disruption(status)) {
        (Some("Evicted"), _) => (FailureClass::Evicted, "the node evicted the pod"),
        (Some("Preempting"), _) | (_, Some("PreemptionByScheduler")) => {
            (FailureClass::Spot, "the pod was preempted by one of a higher priority")
        }
        // Names for a node's graceful shutdown, from Kubernetes 1.20 on.
        (Some("Shutdown" | "NodeShutdown" | "Terminated"), _) => {
            (FailureClass::Spot, "the node was shut down")
        }
        (Some("NodeLost"), _) | (_, Some("DeletionByPodGC")) => {
            (FailureClass::Evicted, "the pod's node is gone")
        }
        (_, Some("DeletionByTaintManager")) => {
            (FailureClass::Evicted, "the pod's node became unhealthy")
        }
        (_, Some("EvictionByEvictionAPI")) => (FailureClass::Evicted, "the pod's node was drained"),
        (_, Some("TerminationByKubelet")) => (FailureClass::Evicted, "the node ended the pod"),
        (Some("OutOfcpu" | "OutOfmemory" | "OutOfpods" | "OutOfephemeral-storage"), _) => {
            (FailureClass::Capacity, "the node had no capacity for the pod")
        }
        (Some("NodeAffinity" | "UnexpectedAdmissionError" | "Taint"), _) => {
            (FailureClass::Capacity, "the node refused the pod")
        }
        (Some("DeadlineExceeded"), _) => (FailureClass::Timeout, "the pod reached its deadline"),
        _ => return None,
    };
    Some(Failure::new(class, with_words(what, words)))
}

fn of_containers(pod: &Pod, status: &PodStatus) -> Option<Failure> {
    let ended = containers(Some(status)).filter_map(|container| {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        Some((container.name.as_str(), ended))
    });
    let mut of_runner = None;
    for (name, ended) in ended {
        if name == CONTAINER {
            of_runner = Some(of_runner_container(pod, ended));
        } else if ended.exit_code != 0 && name == INJECT {
            of_runner.get_or_insert_with(|| of_inject(pod, ended));
        } else if ended.exit_code != 0 && ended.reason.as_deref() == Some("OOMKilled") {
            of_runner.get_or_insert_with(|| of_memory(name));
        } else if ended.exit_code != 0 {
            let words = ended.message.as_deref().unwrap_or_default();
            let what = format!("init container `{name}` ended with exit code {}", ended.exit_code);
            of_runner.get_or_insert_with(|| {
                Failure::new(FailureClass::Config, with_words(&what, words))
            });
        }
    }
    of_runner
}

fn of_runner_container(pod: &Pod, ended: &ContainerStateTerminated) -> Failure {
    let words = ended.message.as_deref().unwrap_or_default();
    match ended.reason.as_deref() {
        Some("OOMKilled") => of_memory(CONTAINER),
        _ if is_starved(pod, CONTAINER, ended) => of_memory(CONTAINER),
        Some("StartError" | "ContainerCannotRun") => {
            let what = format!("container `{CONTAINER}` cannot be started");
            Failure::new(FailureClass::Config, with_words(&what, words))
        }
        _ => {
            let how = match (ended.signal, ended.exit_code) {
                (Some(signal), _) if signal != 0 => format!("signal {signal}"),
                (_, code) => format!("exit code {code}"),
            };
            let what = format!("the runner ended without a result ({how})");
            Failure::new(FailureClass::Lost, with_words(&what, words))
        }
    }
}

/// The runner's program did not come into the pod of a container job.
fn of_inject(pod: &Pod, ended: &ContainerStateTerminated) -> Failure {
    let words = ended.message.as_deref().unwrap_or_default();
    match (ended.reason.as_deref(), ended.exit_code) {
        (Some("OOMKilled"), _) => of_memory(INJECT),
        _ if is_starved(pod, INJECT, ended) => of_memory(INJECT),
        // By a signal: the node ended it.
        (_, code @ 129..) => {
            let what = format!("init container `{INJECT}` was killed (exit code {code})");
            Failure::new(FailureClass::Lost, with_words(&what, words))
        }
        (_, code) => {
            let what = format!(
                "the runner's image could not bring the runner into the container: init container `{INJECT}` ended with \
                exit code {code}; the image must be of this version of Canyon"
            );
            Failure::new(FailureClass::Config, with_words(&what, words))
        }
    }
}

fn of_memory(container: &str) -> Failure {
    let message = format!(
        "container `{container}` used more memory than its limit; raise `resources.limits.memory` in the runner's \
        `job.pod_template`"
    );
    Failure::new(FailureClass::Oom, message)
}

fn with_words(what: &str, words: &str) -> String {
    let words = words.trim();
    if words.is_empty() { what.to_owned() } else { format!("{what}: {words}") }
}
