//! Refusals of a session start.

use crate::app::error::AppError;
use canyon_domain::agent::Agent;
use std::time::Duration;

/// When an agent asks again for a name whose holder has a job.
const JOB_PAUSE: Duration = Duration::from_secs(30);

/// The agent was adopted as reserved for single deployments and now is not, or the other way round.
pub(super) fn not_as_adopted(agent: &Agent) -> AppError {
    let id = &agent.id;
    let was =
        if agent.reserved { "for one deployment alone" } else { "for all work of its runner" };
    let message =
        format!("agent `{id}` was adopted {was}, and this process differs; give it another name");
    AppError::conflict(message).with_detail("code", "another_agent")
}

/// Another process with this agent's name has a live session.
pub(super) fn session_held(agent: &Agent) -> AppError {
    let message = format!(
        "another live process holds the session of agent `{}`; this one stands by until that session ends",
        agent.id
    );
    AppError::conflict(message)
        .with_detail("code", "session_superseded")
        .with_detail("standby", true)
}

/// The session that an earlier request with the same `instance` started is over.
pub(super) fn session_over(agent: &Agent) -> AppError {
    let message = format!(
        "the session of agent `{}` that this request started before is over: another process of that name has \
         started a newer one, or this one has ended it. A new process draws another `instance`",
        agent.id
    );
    AppError::conflict(message)
        .with_detail("code", "session_superseded")
        .with_detail("standby", true)
}

/// The agent was adopted for another runner.
pub(super) fn other_runner(agent: &Agent) -> AppError {
    let id = &agent.id;
    let was = match &agent.runner {
        Some(runner) => format!("as one of runner `{runner}`"),
        None => "as one of no runner of its own".to_owned(),
    };
    let message = format!(
        "agent `{id}` was adopted {was}; start it as that, or forget it and adopt it again: canyon forget agent {id}"
    );
    AppError::conflict(message).with_detail("code", "another_runner")
}

/// The agent was adopted when it served this organization alone.
pub(super) fn shared_since(agent: &Agent) -> AppError {
    let id = &agent.id;
    let message = format!(
        "agent `{id}` was adopted as an agent of this organization alone, and serves others too now; start it as that, or \
         forget it and adopt it again: canyon forget agent {id}"
    );
    AppError::conflict(message).with_detail("code", "shared_since")
}

/// An agent without a right to the name has it, and holds a job. The caller asks again.
pub(super) fn holds_a_job(agent: &Agent) -> AppError {
    let id = &agent.id;
    let message = format!(
        "an agent whose token is for labels alone is called `{id}` and holds a job. The name is free when that job has \
         ended; to take it now: canyon forget agent {id}"
    );
    AppError::conflict(message).with_detail("code", "contended").retried_after(JOB_PAUSE)
}
