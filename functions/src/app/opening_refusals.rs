//! Why an agent gets no session.

use crate::app::error::AppError;
use canyon_domain::agent::Agent;

/// It was taken up as one for a single deployment, or not, and now says otherwise.
pub(super) fn not_as_adopted(agent: &Agent) -> AppError {
    let id = &agent.id;
    let was =
        if agent.reserved { "for one deployment alone" } else { "for all work of its runner" };
    let message =
        format!("agent `{id}` was taken up {was}, and now says otherwise; give it another name");
    AppError::conflict(message).with_detail("code", "another_agent")
}

/// Another process of its name has a session and lives.
pub(super) fn speaks_already(agent: &Agent) -> AppError {
    let message = format!(
        "another process speaks for agent `{}` and lives; this one stands by until that one is gone",
        agent.id
    );
    AppError::conflict(message)
        .with_detail("code", "session_superseded")
        .with_detail("standby", true)
}

/// The session that this opening began is over.
pub(super) fn opened_before(agent: &Agent) -> AppError {
    let message = format!(
        "the session of agent `{}` that this opening began is over: another process of that name has opened a newer \
         one, or this one has left. A process that begins draws another `instance`",
        agent.id
    );
    AppError::conflict(message)
        .with_detail("code", "session_superseded")
        .with_detail("standby", true)
}

/// It was adopted for another runner.
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

/// An agent that has no right to the name works under it.
pub(super) fn works_under_this_name(agent: &Agent) -> AppError {
    let id = &agent.id;
    let message = format!(
        "an agent whose token is for labels alone is called `{id}` and holds a job. The name is free when that job has \
         ended; to take it now: canyon forget agent {id}"
    );
    AppError::conflict(message).with_detail("code", "another_agent")
}
