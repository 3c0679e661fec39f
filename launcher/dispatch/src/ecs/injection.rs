//! The container of a container job that brings the runner program: how it failed, if it did.

use super::EcsDispatcher;
use super::containers::INJECT;
use super::session::Clients;
use aws_sdk_ecs::types::{Container, Task};
use canyon_domain::failure::Failure;

/// The maximum length of the container's last message in a failure, in characters.
const MAX_MESSAGE: usize = 500;

/// The container, if the task is a container job's. A task that was stopped in `PROVISIONING` shows no containers.
pub(super) fn container(task: &Task) -> Option<&Container> {
    task.containers().iter().find(|container| container.name() == Some(INJECT))
}

/// The container's exit code, if it has failed. Then the job's container never starts.
pub(super) fn failed(task: &Task) -> Option<i32> {
    container(task)?.exit_code().filter(|code| *code != 0)
}

impl EcsDispatcher {
    /// The same failure with the last message of the container, if its log can be read.
    pub(super) async fn with_last_message(
        &self,
        clients: &Clients,
        arn: &str,
        failure: Failure,
    ) -> Failure {
        let Some(group) = &self.config.job.log_group else { return failure };
        let log = self.fetch_log(clients, group, INJECT, arn).await.unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        match log.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => {
                let line: String = line.trim().chars().take(MAX_MESSAGE).collect();
                Failure::new(failure.class, format!("{}: {line}", failure.message))
            }
            None => failure,
        }
    }
}
