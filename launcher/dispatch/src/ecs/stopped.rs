//! The state of a job from the state of its task, and why a stopped one stopped.

use super::CONTAINER;
use super::injection;
use super::refusal::is_capacity;
use aws_sdk_ecs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ecs::operation::stop_task::StopTaskError;
use aws_sdk_ecs::types::{Container, Task, TaskStopCode};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};

/// The exit code of a process ended by SIGKILL: 128 and the signal's number.
const KILLED: i32 = 137;

/// The observation of a task.
///
/// Source of the states: developer guide, "Amazon ECS task lifecycle".
pub(super) fn observation(task: &Task) -> Observation {
    match task.last_status().unwrap_or_default() {
        status @ ("PROVISIONING" | "PENDING" | "ACTIVATING") => waiting(task, status),
        "STOPPED" | "DELETED" => Observation::Gone(Some(failure(task))),
        // The process has ended, or will never start; ECS needs another minute, for example to detach the network.
        _ if has_exited(task) || injection::failed(task).is_some() => {
            Observation::Gone(Some(failure(task)))
        }
        _ => Observation::Alive,
    }
}

fn container(task: &Task) -> Option<&Container> {
    task.containers().iter().find(|container| container.name() == Some(CONTAINER))
}

fn has_exited(task: &Task) -> bool {
    container(task).is_some_and(|container| {
        container.last_status() == Some("STOPPED") && container.exit_code().is_some()
    })
}

/// The observation of a task that does not run yet: what ECS does, with its own message.
fn waiting(task: &Task, status: &str) -> Observation {
    let what = match status {
        "PROVISIONING" => "ECS prepares the task's network",
        "PENDING" => "ECS waits for capacity and pulls the image",
        _ => "ECS prepares the task",
    };
    let details = task.attachments().iter().filter_map(|attachment| {
        let status = attachment.status().filter(|status| *status == "FAILED");
        status.map(|_| "the network interface could not be attached".to_owned())
    });
    let reasons = [task.stopped_reason(), container(task).and_then(Container::reason)];
    let reasons = reasons.into_iter().flatten().map(str::to_owned);
    let messages: Vec<_> = details.chain(reasons).collect();
    let text = format!("{what} ({status})");
    Observation::Waiting(if messages.is_empty() {
        text
    } else {
        format!("{text}: {}", messages.join("; "))
    })
}

/// Why a task died that left no result.
fn failure(task: &Task) -> Failure {
    let words = words_of(task);
    let exit = container(task).and_then(Container::exit_code).or_else(|| injection::failed(task));
    let (class, what) = classify(task, &words, exit);
    let exit = exit.map_or(String::new(), |code| format!(" (exit code {code})"));
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    Failure::new(class, format!("{what}{exit}{words}"))
}

/// The reasons of the task and of its containers, without repetition.
fn words_of(task: &Task) -> String {
    let containers = [injection::container(task), container(task)];
    let reasons = containers.into_iter().flatten().filter_map(Container::reason);
    let mut words = task.stopped_reason().unwrap_or_default().to_owned();
    for reason in reasons.filter(|reason| !reason.is_empty()) {
        if !words.contains(reason) {
            let separator = if words.is_empty() { "" } else { "; " };
            words.push_str(separator);
            words.push_str(reason);
        }
    }
    words
}

/// The failure class and what happened, by ECS's code and message (developer guide, "Stopped tasks
/// error messages").
fn classify(task: &Task, words: &str, exit: Option<i32>) -> (FailureClass, &'static str) {
    use FailureClass as C;
    let has = |sign: &str| words.contains(sign);
    if has("CannotPull") {
        return (C::ImagePull, unpulled_image(task, words));
    }
    if has("OutOfMemory") {
        return (C::Oom, "the task ran out of memory; give it more `job.memory`");
    }
    if is_capacity(words) || has("ephemeral storage provisioning") {
        return (C::Capacity, "AWS has no capacity for the task now");
    }
    if has("ResourceInitializationError") {
        return (
            C::Config,
            "the task could not be prepared; check roles, secrets, log group, network",
        );
    }
    if has("CannotStartContainer") || has("CannotCreateContainer") {
        return (C::Config, "the container cannot be started; check its image");
    }
    let is_injection = injection::failed(task).is_some() && exit != Some(KILLED);
    match task.stop_code() {
        Some(TaskStopCode::SpotInterruption) => (C::Spot, "AWS took back the Spot capacity"),
        Some(TaskStopCode::TerminationNotice | TaskStopCode::InfrastructureHealth) => {
            (C::Evicted, "AWS retires the host of the task")
        }
        Some(TaskStopCode::UserInitiated) => (C::Lost, "the task was stopped by an AWS user"),
        _ if is_injection => (
            C::Config,
            "the runner's image could not bring the runner into the container; it must be of this version of Canyon",
        ),
        Some(TaskStopCode::TaskFailedToStart) => (C::Lost, "the task failed to start"),
        _ if exit == Some(KILLED) => (C::Lost, "the runner was killed"),
        _ if exit.is_some() => (C::Lost, "the runner ended without a result"),
        _ => (C::Lost, "the task stopped without a result"),
    }
}

/// Whose image cannot be pulled. The container has the reason, or the task's reason names the image.
fn unpulled_image(task: &Task, words: &str) -> &'static str {
    const OF_RUNNER: &str = "the runner image cannot be pulled; check `job.image`";
    const OF_JOB: &str = "the job's image cannot be pulled; check `container.image`";
    let Some(inject) = injection::container(task) else { return OF_RUNNER };
    let has_reason = |one: &Container| one.reason().unwrap_or_default().contains("CannotPull");
    let is_named = |one: &Container| one.image().is_some_and(|image| words.contains(image));
    let main = container(task);
    if has_reason(inject) || (is_named(inject) && !main.is_some_and(has_reason)) {
        return OF_RUNNER;
    }
    if main.is_some_and(|main| has_reason(main) || is_named(main)) {
        return OF_JOB;
    }
    "an image of the task cannot be pulled; check `container.image` and the runner's `job.image`"
}

/// Whether ECS no longer knows the task, because it stopped more than an hour ago.
pub(super) fn is_unknown_task(error: &SdkError<StopTaskError>) -> bool {
    let Some(error) = error.as_service_error() else { return false };
    let words = error.message().unwrap_or_default().to_lowercase();
    error.code() == Some("InvalidParameterException") && words.contains("task was not found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ecs::types::builders::TaskBuilder;

    fn task(status: &str) -> TaskBuilder {
        Task::builder().last_status(status)
    }

    fn stopped(code: &str, reason: &str, container: (&str, Option<i32>)) -> Failure {
        let (message, exit) = container;
        let container = Container::builder()
            .name(CONTAINER)
            .last_status("STOPPED")
            .set_reason((!message.is_empty()).then(|| message.to_owned()))
            .set_exit_code(exit);
        let task = task("STOPPED")
            .stop_code(TaskStopCode::from(code))
            .stopped_reason(reason)
            .containers(container.build());
        match observation(&task.build()) {
            Observation::Gone(Some(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// The messages are those in the developer guide.
    #[test]
    fn the_reason_of_a_stop_decides_the_class_and_is_in_the_message() {
        let pull = "CannotPullContainerError: pull image manifest has been retried 1 time(s): \
                    failed to resolve ref registry.example.com/runner:1: not found";
        let exited = "Essential container in task exited";
        let oom = "OutOfMemoryError: Container killed due to memory usage";
        let secrets = "ResourceInitializationError: unable to pull secrets or registry auth: \
                       AccessDeniedException: not authorized to perform: \
                       secretsmanager:GetSecretValue";
        let network = "Timeout waiting for network interface provisioning to complete.";
        let spot = "Your Spot Task was interrupted.";
        let none = "Capacity is unavailable at this time. Please try again later or in a \
                    different availability zone";
        let cases = [
            ("TaskFailedToStart", pull, ("", None), FailureClass::ImagePull),
            ("EssentialContainerExited", exited, (oom, Some(137)), FailureClass::Oom),
            ("TaskFailedToStart", secrets, ("", None), FailureClass::Config),
            ("TaskFailedToStart", network, ("", None), FailureClass::Capacity),
            ("TaskFailedToStart", none, ("", None), FailureClass::Capacity),
            ("SpotInterruption", spot, ("", Some(143)), FailureClass::Spot),
            ("TerminationNotice", "maintenance", ("", Some(143)), FailureClass::Evicted),
            ("EssentialContainerExited", exited, ("", Some(3)), FailureClass::Lost),
            ("UserInitiated", "by hand", ("", Some(143)), FailureClass::Lost),
        ];
        for (code, reason, container, class) in cases {
            let failure = stopped(code, reason, container);
            assert_eq!(failure.class, class, "{failure:?}");
            assert!(failure.message.contains(reason), "{failure:?}");
            assert!(failure.message.contains(container.0), "{failure:?}");
        }
        let message = stopped("EssentialContainerExited", exited, ("", Some(3))).message;
        assert!(message.contains("exit code 3"), "{message}");
    }

    /// The observation of a container job whose container `canyon-inject` has ended with this code, and the other has not
    /// started.
    fn not_injected(status: &str, code: Option<&str>, exit: i32) -> Observation {
        let inject =
            Container::builder().name("canyon-inject").last_status("STOPPED").exit_code(exit);
        let main = Container::builder().name(CONTAINER).last_status("PENDING");
        let task = task(status).containers(inject.build()).containers(main.build());
        observation(&task.set_stop_code(code.map(TaskStopCode::from)).build())
    }

    #[test]
    fn a_container_job_without_the_runner_program_is_gone_and_its_configuration_is_at_fault() {
        let cases = [
            ("STOPPED", Some("TaskFailedToStart"), 73, FailureClass::Config),
            ("STOPPED", Some("EssentialContainerExited"), 64, FailureClass::Config),
            // ECS has not stopped the task yet.
            ("DEPROVISIONING", None, 73, FailureClass::Config),
            ("STOPPED", Some("SpotInterruption"), 143, FailureClass::Spot),
            ("STOPPED", Some("UserInitiated"), 143, FailureClass::Lost),
            ("STOPPED", Some("TaskFailedToStart"), KILLED, FailureClass::Lost),
        ];
        for (status, code, exit, class) in cases {
            let Observation::Gone(Some(failure)) = not_injected(status, code, exit) else {
                panic!("{status} {code:?}")
            };
            assert_eq!(failure.class, class, "{failure:?}");
            assert!(failure.message.contains(&format!("exit code {exit}")), "{failure:?}");
        }
        // It is brought, and the container starts.
        assert_eq!(not_injected("RUNNING", None, 0), Observation::Alive);
        assert!(matches!(not_injected("PENDING", None, 0), Observation::Waiting(_)));
    }

    #[test]
    fn a_task_that_does_not_run_yet_waits_and_names_the_reason() {
        for status in ["PROVISIONING", "PENDING", "ACTIVATING"] {
            let Observation::Waiting(reason) = observation(&task(status).build()) else {
                panic!("{status}");
            };
            assert!(reason.contains(status), "{reason}");
        }
    }

    #[test]
    fn a_task_lives_until_its_container_has_exited() {
        for status in ["RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING"] {
            assert_eq!(observation(&task(status).build()), Observation::Alive, "{status}");
        }
        let exited =
            Container::builder().name(CONTAINER).last_status("STOPPED").exit_code(0).build();
        let leaving = task("DEPROVISIONING").containers(exited).build();
        assert!(matches!(observation(&leaving), Observation::Gone(Some(_))));
    }
}
