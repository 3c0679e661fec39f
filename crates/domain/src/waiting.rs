//! What a deployment that has no running job waits for.

use crate::approval::Approval;
use crate::deployment::{Deployment, Status};
use crate::deployment_queue::DeploymentQueue;
pub use crate::hold::Hold;
use crate::ids::DeploymentId;
use crate::plan_check::PlanCheck;
use jiff::Timestamp;

/// The reason of a wait, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingCode {
    /// An earlier deployment of the same environment.
    EarlierDeployment,
    /// The launcher, which starts the job next.
    Launcher,
    /// A slot of a concurrency limit.
    ConcurrencyLimit,
    /// An agent that takes the job.
    Agent,
    /// The runner, on which the launcher can start no job at present.
    Runner,
    /// The approval of its plan.
    Approval,
    /// The job, which has been started; its runner has not reported yet.
    Job,
}

impl WaitingCode {
    /// The code as it is on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EarlierDeployment => "earlier_deployment",
            Self::Launcher => "launcher",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::Agent => "agent",
            Self::Runner => "runner",
            Self::Approval => "approval",
            Self::Job => "job",
        }
    }
}

/// What a deployment waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The reason, for programs.
    pub code: WaitingCode,
    /// The reason, for people.
    pub reason: String,
    /// Start of the wait.
    pub since: Timestamp,
    /// The deployment that it waits for.
    pub blocked_by: Option<DeploymentId>,
    /// Latest time of the launcher's next try, if no job has been started.
    pub next_attempt_at: Option<Timestamp>,
}

impl Waiting {
    /// What a deployment waits for; `None` once a runner has reported. `queue` is that of its environment; only a
    /// deployment without an open attempt needs it.
    pub fn of(deployment: &Deployment, queue: &DeploymentQueue) -> Option<Self> {
        if let Some(approval) =
            deployment.approval.as_ref().filter(|_| deployment.awaits_approval())
        {
            return Some(Self::reviewed(deployment.id, approval));
        }
        match deployment.status {
            Status::Queued => Some(Self::queued(deployment, queue)),
            Status::Launching if queue.blocked_by(deployment.id).is_some() => {
                let since = deployment.counts_from();
                Some(Self { since, ..Self::queued(deployment, queue) })
            }
            Status::Launching => Some(Self::launching(deployment)),
            Status::Running
            | Status::Cancelling
            | Status::Succeeded
            | Status::Failed
            | Status::Cancelled => None,
        }
    }

    fn reviewed(id: DeploymentId, approval: &Approval) -> Self {
        let (given, count) = (approval.given(), approval.count);
        let until = approval.expires_at().unwrap_or_default();
        let mut reason = match count {
            0 => format!(
                "its plan waits for its checks until {}",
                approval.due_at().unwrap_or(until)
            ),
            _ => format!(
                "its plan waits for approval until {until} ({given} of {count} given): canyon approve {id}"
            ),
        };
        if !approval.checks.is_empty() {
            let checks: Vec<_> = approval.checks.iter().map(PlanCheck::in_words).collect();
            reason = format!("{reason}; checks: {}", checks.join(", "));
        }
        let since = approval.asked_at.unwrap_or_default();
        let code = WaitingCode::Approval;
        Self { code, reason, since, blocked_by: None, next_attempt_at: None }
    }

    fn queued(deployment: &Deployment, queue: &DeploymentQueue) -> Self {
        let blocked_by = queue.blocked_by(deployment.id);
        let (code, reason) = match blocked_by {
            Some(other) => (
                WaitingCode::EarlierDeployment,
                format!("deployment {other} of the same environment comes first"),
            ),
            None => deferral(deployment),
        };
        let (since, next_attempt_at) = (deployment.created_at, deployment.due_at);
        Self { code, reason, since, blocked_by, next_attempt_at }
    }

    fn launching(deployment: &Deployment) -> Self {
        if let Some(attempt) = deployment.open_attempt() {
            let code = match (attempt.queued, attempt.throttled) {
                (true, _) => WaitingCode::Agent,
                (false, true) => WaitingCode::Launcher,
                (false, false) => WaitingCode::Job,
            };
            let started = || "the job is started; its runner has not reported yet".to_owned();
            let reason = attempt.waiting.clone().unwrap_or_else(started);
            let since = attempt.launched_at;
            let next_attempt_at = deployment.due_at.filter(|_| attempt.throttled);
            return Self { code, reason, since, blocked_by: None, next_attempt_at };
        }
        let ended = deployment.attempts.last().and_then(|attempt| attempt.ended.as_ref());
        let (code, reason) = deferral(deployment);
        let since = ended.map_or(deployment.created_at, |ended| ended.at);
        Self { code, reason, since, blocked_by: None, next_attempt_at: deployment.due_at }
    }
}

/// Why the launcher has started no attempt yet.
fn deferral(deployment: &Deployment) -> (WaitingCode, String) {
    let code = match &deployment.hold {
        Some(Hold::Limit(_)) => WaitingCode::ConcurrencyLimit,
        Some(Hold::Agent) => WaitingCode::Agent,
        Some(Hold::Runner) => WaitingCode::Runner,
        None => WaitingCode::Launcher,
    };
    let next = "the launcher takes it next".to_owned();
    (code, if deployment.message.is_empty() { next } else { deployment.message.clone() })
}
