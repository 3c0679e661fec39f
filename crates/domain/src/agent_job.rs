//! A job that an agent is to launch: offered, taken, watched, stopped, forgotten.
//!
//! Canyon cannot call an agent, so what it wants of a job is written down, and the agent comes for
//! it. An offer that is not taken in time goes to another agent. A job that was taken stays with
//! the place where it may run: only what is seen there proves that it is dead.

use crate::agent::Agent;
use crate::deadline::Observation;
use crate::failure::{Failure, FailureClass};
use crate::ids::{AgentId, DeploymentId, EnvId, OrgId, ProjectId, RunnerId, RunnerUuid};
use crate::polled_job::{Manifest, Polled};
use crate::runner::RunnerType;
use crate::runner::agents::AgentTarget;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

mod holding;

/// How long an agent has to take what it is offered.
pub const OFFER: Duration = Duration::from_secs(30);
/// The most of a job's output that one answer of an agent holds, in bytes.
pub const TAIL_LIMIT: usize = 64 * 1024;
/// The most jobs that an agent names at the opening of a session, of those that it finds in its place.
pub const MAX_FOUND: usize = 1_000;

/// A job that an agent is to launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentJob {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt.
    pub attempt: u32,
    /// The attempt's fence. The claim code follows from it and is stored nowhere.
    pub fence: u64,
    /// Which life of the runner.
    pub runner: RunnerUuid,
    /// What to launch.
    pub order: JobOrder,
    /// Which agents may; `None` for those that name the runner themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<AgentTarget>,
    /// The one agent that is to launch it, if somebody has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<AgentId>,
    /// What goes before what: higher first, then older.
    #[serde(default)]
    pub priority: i8,
    /// Who may take it, until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// Who has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Taken>,
    /// What Canyon wants of it.
    #[serde(default)]
    pub wish: Wish,
    /// The last wish that the agent has carried out; [`Wish::Forget`] where there never was anything to do.
    #[serde(default)]
    pub done: Wish,
    /// What its agent last saw of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// A piece of its output that somebody asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// The Job for those that create what they are handed, or why there is none; until somebody takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Result<Manifest, String>>,
    /// It was handed out by the published polling protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled: Option<Polled>,
    /// Grows with every write; each write is on condition that it has not changed.
    pub version: u64,
}

/// What an agent needs to know to launch a job, but for the claim code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOrder {
    /// The organization.
    pub org_id: OrgId,
    /// The runner.
    pub runner_id: RunnerId,
    /// The type of the runner.
    pub kind: RunnerType,
    /// The runner's definition, with its profile's settings in it and without secrets.
    pub definition: Value,
    /// Where it deploys to, for people who look at the job on its platform.
    pub project: ProjectId,
    /// See `project`.
    pub env: EnvId,
    /// When somebody took it up, which may be a day after the attempt was written: platforms judge by it how old a
    /// start is. Until then, when it was written down.
    pub launched_at: Timestamp,
}

/// Who may take a job, until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The agent.
    pub agent: AgentId,
    /// The session that it is offered in.
    pub session: u64,
    /// It goes to another from then on.
    pub until: Timestamp,
}

/// Who has taken a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The agent that watches it.
    pub agent: AgentId,
    /// The session in which it does.
    pub session: u64,
    /// Where the job runs.
    pub place: String,
    /// When it was taken, or taken over.
    pub at: Timestamp,
    /// It was another's or an earlier session's, and this one has not been heard of it yet: so it must be told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
}

/// What Canyon wants of a job. Later includes earlier.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Nothing yet, or nothing further.
    #[default]
    Run,
    /// Ask it to stop.
    Stop,
    /// Kill it.
    Kill,
    /// Its end is recorded: what is left of it may go.
    Forget,
}

/// What an agent saw of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What.
    pub observation: Observation,
    /// How the platform names the job there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// When Canyon heard of it.
    pub at: Timestamp,
}

/// A piece of a job's output that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// Tells this request from others.
    pub id: u64,
    /// `log` or `events`.
    pub stream: String,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// The bytes, in base64, when the agent has answered; or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Result<String, String>>,
}

/// Why what an agent says of a job changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is offered to another, or not any more.
    #[error("the job is not offered to this agent, or not any more; do not start it")]
    NotOffered,
    /// Another has taken it.
    #[error("another agent has taken the job; leave it alone")]
    TakenByAnother,
    /// It is not wanted any more.
    #[error("the job is not wanted any more; do not start it")]
    Withdrawn,
}

impl AgentJob {
    /// Whether an agent has something to do for it. Others are not looked through when an agent
    /// asks for work.
    pub fn wants_attention(&self) -> bool {
        let unanswered = self.tail.as_ref().is_some_and(|tail| tail.answer.is_none());
        match &self.taken {
            None => self.wish == Wish::Run,
            Some(taken) => {
                let look = self.polled.as_ref().is_some_and(|polled| polled.look);
                taken.handed_over || self.wish > self.done || unanswered || look
            }
        }
    }

    /// Whether this agent may launch it, be it there or not.
    pub fn is_for(&self, agent: &Agent) -> bool {
        let (runner, target) = (&self.order.runner_id, self.target.as_ref());
        match &self.only {
            Some(only) => agent.id == *only && agent.may_serve_alone(runner, target),
            None => agent.may_serve(runner, target),
        }
    }

    /// Whether somebody is to be offered it: what is taken, or still offered to a session that lives and has room,
    /// stays as it is. `others` holds the agent of that session, if it is there.
    pub fn is_to_be_offered(&self, others: &[Agent], now: Timestamp) -> bool {
        let kind = self.order.kind;
        let lapsed = self.offer.as_ref().is_none_or(|offer| offer.has_lapsed(kind, others, now));
        self.taken.is_none() && self.wish == Wish::Run && lapsed
    }

    /// Offers it to an agent, which is there and has room, if it [is to be offered](Self::is_to_be_offered). Returns
    /// whether that changed anything.
    pub fn offer(&mut self, agent: &Agent, others: &[Agent], now: Timestamp) -> bool {
        let session = agent.live(now).filter(|_| self.is_to_be_offered(others, now));
        let Some(session) = session else { return false };
        self.offer =
            Some(Offer { agent: agent.id.clone(), session: session.number, until: now + OFFER });
        true
    }

    /// An agent takes what it was offered, and may start it from now on. A repetition of its own
    /// word changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refused`]: it must not start it.
    pub fn take(
        &mut self,
        agent: &AgentId,
        session: u64,
        place: &str,
        now: Timestamp,
    ) -> Result<(), Refused> {
        if self.wish != Wish::Run {
            return Err(Refused::Withdrawn);
        }
        if let Some(taken) = &self.taken {
            let own = taken.agent == *agent && taken.session == session;
            return if own { Ok(()) } else { Err(Refused::TakenByAnother) };
        }
        let offered = self.offer.as_ref().is_some_and(|offer| {
            offer.agent == *agent && offer.session == session && now < offer.until
        });
        if !offered {
            return Err(Refused::NotOffered);
        }
        self.offer = None;
        self.manifest = None;
        self.order.launched_at = now;
        let place = place.to_owned();
        let agent = agent.clone();
        self.taken = Some(Taken { agent, session, place, at: now, handed_over: false });
        Ok(())
    }

    /// Its agent says what it saw. That a job is gone is never taken back.
    ///
    /// # Errors
    ///
    /// [`Refused::TakenByAnother`] if it speaks in a session that does not hold the job.
    pub fn report(
        &mut self,
        agent: &AgentId,
        session: u64,
        observation: Observation,
        handle: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        self.check_session(agent, session)?;
        let is_gone = |seen: &Seen| matches!(seen.observation, Observation::Gone(_));
        if !self.seen.as_ref().is_some_and(is_gone) {
            let handle = handle.or_else(|| self.seen.take().and_then(|seen| seen.handle));
            self.seen = Some(Seen { observation, handle, at: now });
        }
        Ok(())
    }

    /// Its agent has carried out a wish.
    ///
    /// # Errors
    ///
    /// [`Refused::TakenByAnother`] if it speaks in a session that does not hold the job.
    pub fn carried_out(
        &mut self,
        agent: &AgentId,
        session: u64,
        wish: Wish,
    ) -> Result<(), Refused> {
        self.check_session(agent, session)?;
        self.done = self.done.max(wish.min(self.wish));
        Ok(())
    }

    /// Canyon wants this of it; a wish is never taken back. Returns whether it is new.
    pub fn want(&mut self, wish: Wish) -> bool {
        let new = wish > self.wish;
        self.wish = self.wish.max(wish);
        new
    }

    /// Why nobody will ever take it, if the one agent that it is for cannot.
    fn why_never(&self, agents: &[Agent], now: Timestamp) -> Option<String> {
        let only = self.only.as_ref()?;
        match agents.iter().find(|agent| agent.id == *only) {
            Some(agent) if !agent.has_gone_for_good(now) => None,
            Some(_) => Some(format!("agent `{only}`, which alone was to launch it, has gone")),
            None => Some(format!("agent `{only}`, which alone was to launch it, may not any more")),
        }
    }

    /// What the launcher may believe of it. `agents` are those that may serve its runner.
    pub fn observation(&self, agents: &[Agent], now: Timestamp) -> Observation {
        let Some(taken) = &self.taken else {
            if self.wish > Wish::Run {
                // Nobody can take it any more.
                return Observation::Gone(None);
            }
            if let Some(reason) = self.why_never(agents, now) {
                return Observation::Gone(Some(Failure::new(FailureClass::Config, reason)));
            }
            let (order, target) = (&self.order, self.target.as_ref());
            let live =
                self.offer.as_ref().filter(|offer| !offer.has_lapsed(order.kind, agents, now));
            return Observation::Queued(live.map_or_else(
                || crate::agent::why_waiting(agents, &order.runner_id, target, order.kind, now),
                |offer| format!("offered to agent `{}`", offer.agent),
            ));
        };
        self.observation_of_taken(taken, agents, now)
    }
}

impl Offer {
    /// Whether it may go to another: its time is over, or its session, or that has no room for it any more.
    fn has_lapsed(&self, kind: RunnerType, agents: &[Agent], now: Timestamp) -> bool {
        let stands = agents
            .iter()
            .filter(|agent| agent.id == self.agent && agent.has_room(kind, now))
            .filter_map(|agent| agent.session.as_ref())
            .any(|session| session.number == self.session);
        now >= self.until || !stands
    }
}

#[cfg(test)]
#[path = "agent_job_tests.rs"]
mod tests;
