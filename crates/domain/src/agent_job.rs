//! A job that an agent launches: offered, taken, watched, stopped, forgotten.
//!
//! Canyon cannot call an agent, so it records the desired state of a job, and the agent polls for it. If an
//! agent does not take an offer in time, Canyon offers the job to another agent. A job that was taken stays
//! with the platform on which it may run: only an agent of that platform can prove that it is dead.

use crate::agent::Agent;
use crate::container::ContainerLaunch;
use crate::deadline::Observation;
use crate::failure::{Failure, FailureClass};
use crate::ids::{
    AgentId, DeploymentId, EnvId, OrgId, PrincipalId, ProjectId, RunnerId, RunnerUuid,
};
use crate::manifest::{Manifest, PolledJob};
use crate::runner::RunnerType;
use crate::runner::agents::AgentTarget;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

mod holding;
pub mod room;

/// How long an agent has to take an offer.
pub const OFFER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a job's output in one answer of an agent, in bytes.
pub const MAX_TAIL_BYTES: usize = 64 * 1024;
/// Maximum number of jobs that an agent lists when it opens a session, of those that it finds on its
/// platform.
pub const MAX_FOUND_JOBS: usize = 1_000;

/// A job that an agent launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentJob {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt.
    pub attempt: u32,
    /// The attempt's fence. The claim code follows from it and is stored nowhere.
    pub fence: u64,
    /// The runner. A runner that is deleted and created again has another uuid.
    pub runner: RunnerUuid,
    /// What to launch.
    #[serde(rename = "order")]
    pub spec: JobSpec,
    /// Which agents may launch it; `None`: those that name the runner themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<AgentTarget>,
    /// The only agent that may launch it, if the request to deploy named one.
    #[serde(rename = "only", default, skip_serializing_if = "Option::is_none")]
    pub only_agent: Option<AgentId>,
    /// With `only_agent`: who requested the deployment. `None` where an earlier version of Canyon stored the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<PrincipalId>,
    /// Order of offers: higher first, then older.
    #[serde(default)]
    pub priority: i8,
    /// Which agent may take it, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// Which agent has taken it.
    #[serde(rename = "taken", default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<JobHolder>,
    /// The desired state of the job.
    #[serde(rename = "wish", default)]
    pub desired: DesiredState,
    /// The last desired state that the agent has applied; [`DesiredState::Forget`] if there never was anything to do.
    #[serde(rename = "done", default)]
    pub applied: DesiredState,
    /// What its agent last reported.
    #[serde(rename = "seen", default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedState>,
    /// A piece of its output that a user has requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailRequest>,
    /// The Job for pollers that create the Job that they receive, or why there is none; removed when the job
    /// is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Result<Manifest, String>>,
    /// Set if it was handed out by the published polling protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled: Option<PolledJob>,
    /// Increases with every write; each write is conditional on the version that was read.
    pub version: u64,
}

/// What an agent needs to launch a job, except the claim code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The organization.
    pub org_id: OrgId,
    /// The runner.
    pub runner_id: RunnerId,
    /// The type of the runner.
    pub kind: RunnerType,
    /// The runner's definition, with its profile's settings in it and without secrets.
    pub definition: Value,
    /// The project that it deploys to, for users who look at the job on its platform.
    pub project: ProjectId,
    /// The environment that it deploys to, for the same users.
    pub env: EnvId,
    /// When an agent took it, up to a day after the attempt was written: platforms compute the age of a start
    /// from it. Until then, when the job was written.
    pub launched_at: Timestamp,
    /// A container job's image and time to stop. Without it, the job runs in the runner's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerLaunch>,
}

/// An offer: which agent may take a job, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The agent.
    pub agent: AgentId,
    /// The session to which it is offered.
    pub session: u64,
    /// From then on Canyon may offer the job to another agent.
    pub until: Timestamp,
}

/// The agent that holds a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHolder {
    /// The agent that watches it.
    pub agent: AgentId,
    /// The number of the session that holds the job.
    pub session: u64,
    /// The platform that the job runs on ([`crate::agent::Session::platform_id`]).
    #[serde(rename = "place")]
    pub platform_id: String,
    /// When the job was taken, or adopted by a later holder.
    pub at: Timestamp,
    /// Another agent or session held the job before, and the current one has sent no report of it yet: so
    /// Canyon must notify it.
    #[serde(rename = "handed_over", default, skip_serializing_if = "std::ops::Not::not")]
    pub reassigned: bool,
}

/// The desired state of a job. A later variant includes the earlier ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DesiredState {
    /// Run; no stop is requested.
    #[default]
    Run,
    /// Ask the job to stop.
    Stop,
    /// Kill the job.
    Kill,
    /// The job's end is recorded: the agent may remove what is left of it.
    Forget,
}

/// What an agent reported of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedState {
    /// The observation.
    pub observation: Observation,
    /// The platform's name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// When Canyon received the report.
    pub at: Timestamp,
}

/// A request for a piece of a job's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailRequest {
    /// Distinguishes this request from others.
    pub id: u64,
    /// `log` or `events`.
    pub stream: String,
    /// First byte, as an offset in the stream.
    pub offset: u64,
    /// The bytes in base64 once the agent has answered, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Result<String, String>>,
}

/// Why a request of an agent about a job changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefusal {
    /// The job is offered to another agent, or the offer has expired.
    #[error("the job is not offered to this agent, or the offer has expired; do not start it")]
    NotOffered,
    /// Another agent or session has taken the job.
    #[error("another agent has taken the job; leave it alone")]
    TakenByAnother,
    /// Canyon has withdrawn the job.
    #[error("Canyon has withdrawn the job; do not start it")]
    Withdrawn,
}

impl AgentJob {
    /// Whether an agent has something to do for the job. A poll for work reads only such jobs.
    pub fn needs_agent(&self) -> bool {
        let unanswered = self.tail.as_ref().is_some_and(|tail| tail.answer.is_none());
        match &self.holder {
            None => self.desired == DesiredState::Run,
            Some(taken) => {
                let check_pending = self.polled.as_ref().is_some_and(|polled| polled.check_pending);
                taken.reassigned || self.desired > self.applied || unanswered || check_pending
            }
        }
    }

    /// Whether this agent may launch it, connected or not.
    pub fn is_for(&self, agent: &Agent) -> bool {
        let (runner, target) = (&self.spec.runner_id, self.target.as_ref());
        match &self.only_agent {
            Some(only) => {
                agent.id == *only
                    && agent.may_serve_alone(runner, target)
                    && self.is_requested_for(agent)
            }
            None => agent.may_serve(runner, target),
        }
    }

    /// Whether this is still the agent that the deployment names: a later reserved agent of its name is another user's.
    pub fn is_requested_for(&self, agent: &Agent) -> bool {
        self.only_for.is_none_or(|principal| agent.launches_for(principal))
    }

    /// Whether the job needs an offer: it is not taken, and not offered to a live session with room. `others`
    /// holds the agent of that session, if it is connected.
    pub fn needs_offer(&self, others: &[Agent], now: Timestamp) -> bool {
        let kind = self.spec.kind;
        let lapsed = self.offer.as_ref().is_none_or(|offer| offer.has_lapsed(kind, others, now));
        self.holder.is_none() && self.desired == DesiredState::Run && lapsed
    }

    /// Offers it to a connected agent with room, if it [needs an offer](Self::needs_offer). Returns
    /// whether that changed anything.
    pub fn offer(&mut self, agent: &Agent, others: &[Agent], now: Timestamp) -> bool {
        let session = agent.live_session(now).filter(|_| self.needs_offer(others, now));
        let Some(session) = session else { return false };
        self.offer = Some(Offer {
            agent: agent.id.clone(),
            session: session.number,
            until: now + OFFER_TIMEOUT,
        });
        true
    }

    /// An agent takes the job that it is offered, and may start it from now on. Idempotent for the same
    /// session.
    ///
    /// # Errors
    ///
    /// [`JobRefusal`] if the job is withdrawn, taken by another session, or not offered to this one: the agent
    /// must not start it.
    pub fn take(
        &mut self,
        agent: &AgentId,
        session: u64,
        platform_id: &str,
        now: Timestamp,
    ) -> Result<(), JobRefusal> {
        if self.desired != DesiredState::Run {
            return Err(JobRefusal::Withdrawn);
        }
        if let Some(taken) = &self.holder {
            let own = taken.agent == *agent && taken.session == session;
            return if own { Ok(()) } else { Err(JobRefusal::TakenByAnother) };
        }
        let offered = self.offer.as_ref().is_some_and(|offer| {
            offer.agent == *agent && offer.session == session && now < offer.until
        });
        if !offered {
            return Err(JobRefusal::NotOffered);
        }
        self.offer = None;
        self.manifest = None;
        self.spec.launched_at = now;
        let platform_id = platform_id.to_owned();
        let agent = agent.clone();
        self.holder = Some(JobHolder { agent, session, platform_id, at: now, reassigned: false });
        Ok(())
    }

    /// Records what the job's agent reports. The report that a job is gone is final.
    ///
    /// # Errors
    ///
    /// [`JobRefusal::TakenByAnother`] if this session does not hold the job.
    pub fn report(
        &mut self,
        agent: &AgentId,
        session: u64,
        observation: Observation,
        handle: Option<String>,
        now: Timestamp,
    ) -> Result<(), JobRefusal> {
        self.check_session(agent, session)?;
        let is_gone =
            |reported: &ReportedState| matches!(reported.observation, Observation::Gone(_));
        if !self.reported.as_ref().is_some_and(is_gone) {
            let handle = handle.or_else(|| self.reported.take().and_then(|seen| seen.handle));
            self.reported = Some(ReportedState { observation, handle, at: now });
        }
        Ok(())
    }

    /// The job's agent has applied a desired state.
    ///
    /// # Errors
    ///
    /// [`JobRefusal::TakenByAnother`] if this session does not hold the job.
    pub fn record_applied(
        &mut self,
        agent: &AgentId,
        session: u64,
        desired: DesiredState,
    ) -> Result<(), JobRefusal> {
        self.check_session(agent, session)?;
        self.applied = self.applied.max(desired.min(self.desired));
        Ok(())
    }

    /// Raises the desired state, which never goes back. Returns whether it has changed.
    pub fn raise_desired_state(&mut self, desired: DesiredState) -> bool {
        let new = desired > self.desired;
        self.desired = self.desired.max(desired);
        new
    }

    /// Why no agent will ever take the job, if the only agent that may cannot.
    fn reason_never_taken(&self, agents: &[Agent], now: Timestamp) -> Option<String> {
        let only = self.only_agent.as_ref()?;
        match agents.iter().find(|agent| agent.id == *only) {
            Some(agent) if !agent.has_gone_for_good(now) => None,
            Some(_) => Some(format!("agent `{only}`, the only one that may launch it, has exited")),
            None => Some(format!(
                "agent `{only}`, the only one that may launch it, is no longer allowed to"
            )),
        }
    }

    /// The job's state for the launcher. `agents` are those that may serve its runner.
    pub fn observation(&self, agents: &[Agent], now: Timestamp) -> Observation {
        let Some(taken) = &self.holder else {
            if self.desired > DesiredState::Run {
                // No agent can take it any more.
                return Observation::Gone(None);
            }
            if let Some(reason) = self.reason_never_taken(agents, now) {
                return Observation::Gone(Some(Failure::new(FailureClass::Config, reason)));
            }
            let (order, target) = (&self.spec, self.target.as_ref());
            let live =
                self.offer.as_ref().filter(|offer| !offer.has_lapsed(order.kind, agents, now));
            return Observation::Queued(live.map_or_else(
                || crate::agent::waiting_reason(agents, &order.runner_id, target, order.kind, now),
                |offer| format!("offered to agent `{}`", offer.agent),
            ));
        };
        self.observation_of_taken(taken, agents, now)
    }
}

impl Offer {
    /// Whether the job may be offered to another agent: the offer has expired, or its session has ended or is
    /// full.
    fn has_lapsed(&self, kind: RunnerType, agents: &[Agent], now: Timestamp) -> bool {
        let is_valid = agents
            .iter()
            .filter(|agent| agent.id == self.agent && agent.has_room(kind, now))
            .filter_map(|agent| agent.session.as_ref())
            .any(|session| session.number == self.session);
        now >= self.until || !is_valid
    }
}

impl Agent {
    /// Whether it has room for one more job like `job` now. A job in the background leaves a place for the others, if the agent
    /// has more than one.
    pub fn has_room_for(&self, job: &AgentJob, now: Timestamp) -> bool {
        let is_left = |session: &crate::agent::Session| {
            session.concurrency <= 1 || session.running + 1 < session.concurrency
        };
        let is_left = job.priority >= 0 || self.live_session(now).is_some_and(is_left);
        self.has_room(job.spec.kind, now) && is_left
    }
}

#[cfg(test)]
#[path = "agent_job_tests.rs"]
mod tests;
