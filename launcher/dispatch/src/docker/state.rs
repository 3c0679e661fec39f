//! The state of a job from the state of its container, and why a dead one died.

use super::engine_user::EngineUser;
use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum as Status,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};

/// The exit code of a process ended by SIGKILL: 128 and the signal's number.
const KILLED: i64 = 137;

/// A container's state, as far as Canyon needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Created, and never started.
    Created,
    /// Its process lives.
    Lives,
    /// Its process has ended, and the engine has reaped it.
    Ended,
}

/// The container's state. Source: the engine's `State.StateString`. While a process lives, the
/// state is `running`, `paused` or `restarting`, also when the container is being removed.
pub(super) fn life(found: &ContainerInspectResponse) -> Option<Life> {
    match found.state.as_ref()?.status? {
        Status::CREATED => Some(Life::Created),
        Status::RUNNING | Status::PAUSED | Status::RESTARTING | Status::STOPPING => {
            Some(Life::Lives)
        }
        Status::EXITED | Status::DEAD | Status::REMOVING => Some(Life::Ended),
        Status::EMPTY => None,
    }
}

/// The observation of a container. `user` decides how a failure names the settings.
pub(super) fn observation(user: EngineUser, found: &ContainerInspectResponse) -> Observation {
    match life(found) {
        Some(Life::Created) => {
            Observation::Waiting("the container is created, but not started yet".to_owned())
        }
        Some(Life::Lives) => Observation::Alive,
        Some(Life::Ended) => Observation::Gone(Some(failure(user, found))),
        None => {
            Observation::Unknown("the engine does not report the state of the container".to_owned())
        }
    }
}

/// Why a container died that left no result.
fn failure(user: EngineUser, found: &ContainerInspectResponse) -> Failure {
    let state = found.state.clone().unwrap_or_default();
    let error = state.error.as_deref().unwrap_or_default().trim();
    let code = state.exit_code.unwrap_or_default();
    if state.oom_killed == Some(true) {
        return of_memory(user, found);
    }
    if !error.is_empty() {
        return Failure::new(
            FailureClass::Config,
            format!("the container cannot be started: {error}"),
        );
    }
    let what = match kind_of_end(&state) {
        Ended::Killed => "the runner was killed (exit code 137)".to_owned(),
        Ended::Code => format!("the runner ended without a result (exit code {code})"),
    };
    Failure::new(FailureClass::Lost, what)
}

enum Ended {
    Killed,
    Code,
}

fn kind_of_end(state: &ContainerState) -> Ended {
    if state.exit_code == Some(KILLED) { Ended::Killed } else { Ended::Code }
}

fn of_memory(user: EngineUser, found: &ContainerInspectResponse) -> Failure {
    let limit = found.host_config.as_ref().and_then(|host| host.memory).unwrap_or_default();
    let message = format!(
        "the container used more memory than its limit of {} MiB; {}",
        limit / (1024 * 1024),
        user.raise_memory()
    );
    Failure::new(FailureClass::Oom, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: EngineUser = EngineUser::Agent;

    fn container(status: Status, code: i64, is_starved: bool) -> ContainerInspectResponse {
        ContainerInspectResponse {
            state: Some(ContainerState {
                status: Some(status),
                exit_code: Some(code),
                oom_killed: Some(is_starved),
                ..ContainerState::default()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    #[test]
    fn only_a_container_that_the_engine_has_reaped_is_gone() {
        for status in [Status::RUNNING, Status::PAUSED, Status::RESTARTING, Status::STOPPING] {
            assert_eq!(observation(AGENT, &container(status, 0, false)), Observation::Alive);
        }
        for status in [Status::EXITED, Status::DEAD, Status::REMOVING] {
            assert!(matches!(
                observation(AGENT, &container(status, 0, false)),
                Observation::Gone(Some(_))
            ));
        }
        assert!(matches!(
            observation(AGENT, &container(Status::CREATED, 0, false)),
            Observation::Waiting(_)
        ));
        assert!(matches!(
            observation(AGENT, &ContainerInspectResponse::default()),
            Observation::Unknown(_)
        ));
    }

    #[test]
    fn a_death_has_its_failure_class() {
        let class = |code, is_starved| match observation(
            AGENT,
            &container(Status::EXITED, code, is_starved),
        ) {
            Observation::Gone(Some(failure)) => failure.class,
            other => panic!("{other:?}"),
        };
        assert_eq!(class(137, true), FailureClass::Oom);
        assert_eq!(class(137, false), FailureClass::Lost);
        assert_eq!(class(3, false), FailureClass::Lost);
    }
}
