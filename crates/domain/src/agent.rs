//! Agents: the companion processes that launch jobs where Canyon itself cannot reach.
//!
//! An agent only connects outward. It opens a session, and in it polls for work, takes offers and reports on
//! its jobs. The session's number is its fence: the process of the newest confirmed session acts for the
//! agent, and requests of an older process of the same name are refused.

mod candidate;
mod session;

pub use candidate::{Candidate, Description};
pub use session::{LEASE, Process, Session, SessionStart};

use crate::ids::{AgentId, PrincipalId, RunnerId};
use crate::runner::RunnerType;
use crate::runner::agents::AgentTarget;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of labels of an agent.
const MAX_LABELS: usize = 16;

/// Whether an administrator has accepted an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adoption {
    /// It has presented a key that no administrator has confirmed. It gets no work.
    Pending,
    /// An administrator has accepted it, or its sign-in alone proves that it may work.
    Adopted,
    /// An administrator has rejected it.
    Rejected,
}

impl Adoption {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Adopted => "adopted",
            Self::Rejected => "rejected",
        }
    }
}

/// How an agent authenticates. One that presents another proof under the same name is another agent, and is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum AgentIdentity {
    /// Its own ed25519 key.
    Key {
        /// The public key, PEM (`SubjectPublicKeyInfo`, RFC 8410).
        public_key: String,
    },
    /// A Canyon token with the role `agent`.
    Token {
        /// The token's principal: a service account, or an API token.
        principal: PrincipalId,
    },
}

/// Which agents an API token may enroll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenScope {
    /// The only runner that they may serve; `None`: any of the organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Whether the token has labels and no runner: its agents are for jobs that ask for these labels. `None` where an
    /// earlier version of Canyon stored the agent; the API records it at the agent's next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_alone: Option<bool>,
}

/// An agent, in its last known state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the stored item")]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// How it authenticates.
    pub identity: AgentIdentity,
    /// Whether it may work.
    pub adoption: Adoption,
    /// Its labels, by which runners select it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The only runner that it serves; `None`: those that name it by its id or labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Whether it takes the jobs of runners that select no agents; [`Self::takes_untagged_jobs`] has the
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
    /// Only the key of its runner authenticated it: it is an agent as long as the runner has that key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_runner_key: bool,
    /// It enrolled with an API token of this scope. When that token is no longer valid, another token of the
    /// same scope replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_token: Option<TokenScope>,
    /// When an administrator adopted the agent by its name although it signs in with a token. A runner that names its
    /// agents by id takes it since, even if the token is for labels alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_at: Option<Timestamp>,
    /// When an administrator last set its labels and `run_untagged_jobs`. What the agent itself sends for
    /// these is ignored since.
    #[serde(rename = "settled_at", default, skip_serializing_if = "Option::is_none")]
    pub settings_fixed_at: Option<Timestamp>,
    /// An administrator has disabled it: it gets no further work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// It launches only the jobs of deployments that name it: a user's own machine, for one deployment. Its
    /// key exists only in its process, so it never comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// It serves other organizations too, which share its places for jobs and its platform.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Who adopted it. A reserved agent launches only deployments of that principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_by: Option<PrincipalId>,
    /// When its first request came.
    pub created_at: Timestamp,
    /// The network address of its first request, if that carried no proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_from: Option<String>,
    /// The number of the current session: the newest one in which a request came.
    pub sessions: u64,
    /// The highest session number that was allocated, if it is higher than `sessions`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub numbers_drawn: u64,
    /// Sessions that were opened since, and in which no request has come yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The current session, which has ended if [`Session::closed_at`] is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Increases with every write; each write is conditional on the version that was read.
    pub version: u64,
}

impl Agent {
    /// The session, if it is live.
    pub fn live_session(&self, now: Timestamp) -> Option<&Session> {
        self.session.as_ref().filter(|session| session.is_live(now))
    }

    /// Whether it may launch jobs of this runner, connected or not.
    pub fn may_serve(&self, runner: &RunnerId, target: Option<&AgentTarget>) -> bool {
        self.adoption == Adoption::Adopted && self.could_serve(runner, target)
    }

    /// Whether it may launch jobs of this runner now, or once an administrator adopts it.
    pub fn could_serve(&self, runner: &RunnerId, target: Option<&AgentTarget>) -> bool {
        if self.adoption == Adoption::Rejected || self.reserved {
            return false;
        }
        match (&self.runner, target) {
            (Some(own), _) if own != runner => false,
            // The holder of the token chooses the name freely, so the name alone is no proof.
            (_, Some(AgentTarget::Ids(_))) if self.is_confined_to_labels() => false,
            (_, Some(target)) => target.matches(&self.id, &self.labels),
            (_, None) => self.takes_untagged_jobs(),
        }
    }

    /// Whether no runner that names its agents by id takes it: its token is for labels alone, and no administrator has
    /// adopted the agent by its name.
    pub fn is_confined_to_labels(&self) -> bool {
        self.has_token_for_labels_alone() && self.named_at.is_none()
    }

    /// Whether its token is for labels alone. If an earlier version of Canyon has not recorded that, the agent's
    /// settings decide: those that such a token gives.
    pub fn has_token_for_labels_alone(&self) -> bool {
        let Some(scope) = &self.by_token else { return false };
        let looks_so = scope.runner.is_none() && self.looks_confined();
        scope.labels_alone.unwrap_or(looks_so)
    }

    /// Whether an earlier version of Canyon stored the agent without the scope of its token, and that scope may confine
    /// it.
    pub fn lacks_token_scope(&self) -> bool {
        match &self.by_token {
            Some(scope) => scope.labels_alone.is_none(),
            None => matches!(self.identity, AgentIdentity::Token { .. }) && self.looks_confined(),
        }
    }

    fn looks_confined(&self) -> bool {
        !self.labels.is_empty() && self.run_untagged_jobs == Some(false)
    }

    /// Whether it takes the jobs of runners that select no agents. Default: only the jobs of its own runner.
    pub fn takes_untagged_jobs(&self) -> bool {
        self.run_untagged_jobs.unwrap_or(self.runner.is_some())
    }

    /// [`Self::may_serve`] for a job that names this agent.
    pub fn may_serve_alone(&self, runner: &RunnerId, target: Option<&AgentTarget>) -> bool {
        if self.reserved {
            // A user has adopted it, as an agent of this runner only.
            return self.adoption == Adoption::Adopted
                && self.adopted_by.is_some()
                && self.runner.as_ref() == Some(runner);
        }
        self.may_serve(runner, target)
    }

    /// Whether it launches deployments of this principal: a reserved agent only those of the principal that adopted it.
    pub fn launches_for(&self, principal: PrincipalId) -> bool {
        !self.reserved || self.adopted_by == Some(principal)
    }

    /// Whether it was connected once and can never connect again.
    pub fn has_gone_for_good(&self, now: Timestamp) -> bool {
        self.reserved && self.session.as_ref().is_some_and(|session| !session.is_live(now))
    }

    /// Whether it takes another job of this type now.
    pub fn has_room(&self, kind: RunnerType, now: Timestamp) -> bool {
        self.is_at_work(kind, now)
            && self.live_session(now).is_some_and(|session| session.running < session.concurrency)
    }

    /// Whether it is connected and takes jobs of this type, now or when it has room again.
    pub fn is_at_work(&self, kind: RunnerType, now: Timestamp) -> bool {
        !self.disabled
            && self
                .live_session(now)
                .is_some_and(|session| !session.draining && session.serves.contains(&kind))
    }

    /// Sort key among agents with room: the least loaded first, then the one whose last offer is oldest.
    fn offer_order(&self) -> Option<(u64, Option<Timestamp>, &AgentId)> {
        let session = self.session.as_ref()?;
        let load = u64::from(session.running) * 1000 / u64::from(session.concurrency.max(1));
        Some((load, session.offered_at, &self.id))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A warning for the operator if the agent's program is at least two minor versions older than the server.
///
/// ```
/// # use canyon_domain::agent::outdated_program_warning;
/// assert!(outdated_program_warning("0.2.9", "0.4.0").is_some());
/// assert!(outdated_program_warning("0.3.0", "0.4.7").is_none());
/// assert!(outdated_program_warning("1.0.0", "0.4.0").is_none());
/// ```
pub fn outdated_program_warning(program: &str, server: &str) -> Option<String> {
    let parts = |version: &str| {
        let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
        Some((parts.next()??, parts.next()??))
    };
    let ((major, minor), (of_server, newest)) = (parts(program)?, parts(server)?);
    let is_old = major < of_server || (major == of_server && minor.saturating_add(2) <= newest);
    is_old.then(|| format!("canyon-agent {program} is old: Canyon is {server}; update the agent"))
}

/// What is wrong with an agent's labels, or `None`.
pub fn invalid_labels_reason(labels: &BTreeMap<String, String>) -> Option<String> {
    use crate::runner::patterns::{LABEL, LABEL_VALUE};
    if labels.len() > MAX_LABELS {
        return Some(format!("has at most {MAX_LABELS} entries"));
    }
    let fits = |shape: &crate::runner::shape::Shape, text: &str| {
        text.len() <= shape.max && (shape.fits)(text)
    };
    labels.iter().find_map(|(name, value)| {
        if !fits(&LABEL, name) {
            return Some(format!("has a name that is not {}", LABEL.rule));
        }
        (!fits(&LABEL_VALUE, value))
            .then(|| format!("has a value that is not {}", LABEL_VALUE.rule))
    })
}

/// The agent that a job is offered to, of those that have room for it. All of `agents` may serve its runner.
pub fn choose_agent(agents: &[Agent], has_room: impl Fn(&Agent) -> bool) -> Option<&Agent> {
    agents.iter().filter(|agent| has_room(agent)).min_by_key(|agent| agent.offer_order())
}

/// Those of `agents` that are at work, with room or without, in the order of offers.
pub fn in_offer_order(agents: &[Agent], kind: RunnerType, now: Timestamp) -> Vec<&Agent> {
    let mut at_work: Vec<_> = agents.iter().filter(|agent| agent.is_at_work(kind, now)).collect();
    at_work.sort_by_key(|agent| agent.offer_order());
    at_work
}

/// Why a job waits for one of `agents`, which all may serve its runner. `target` is the runner's agent
/// selector.
pub fn waiting_reason(
    agents: &[Agent],
    runner: &RunnerId,
    target: Option<&AgentTarget>,
    kind: RunnerType,
    now: Timestamp,
) -> String {
    let wanted = format!("waiting for an agent of runner `{runner}`");
    let Some(latest) =
        agents.iter().filter_map(|agent| agent.session.as_ref()).max_by_key(|s| s.last_seen)
    else {
        let asked = target.map(|target| format!(" that {target}")).unwrap_or_default();
        return format!("{wanted}: none has ever connected{asked}");
    };
    let live: Vec<_> = agents.iter().filter(|agent| agent.live_session(now).is_some()).collect();
    if live.is_empty() {
        return format!("{wanted}, last seen {}", latest.last_seen.strftime("%Y-%m-%dT%H:%M:%SZ"));
    }
    let able: Vec<_> = live
        .iter()
        .filter(|agent| {
            agent.live_session(now).is_some_and(|session| session.serves.contains(&kind))
        })
        .collect();
    if able.is_empty() {
        return format!("{wanted}: the connected agents launch no jobs of type `{kind}`");
    }
    if able.iter().all(|agent| agent.disabled) {
        return format!("{wanted}: all are disabled");
    }
    if able
        .iter()
        .all(|agent| agent.disabled || agent.live_session(now).is_some_and(|s| s.draining))
    {
        return format!("{wanted}: all are draining");
    }
    format!("{wanted}: all {} connected agents are busy", able.len())
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
