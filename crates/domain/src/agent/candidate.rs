//! A session that was opened while another one goes on: nothing proves yet that its process lives.

use super::{Agent, Process, TokenScope};
use crate::ids::RunnerId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most candidates of an agent; beyond that the oldest is dropped. Each write of the agent has them in it.
pub(super) const MAX_CANDIDATES: usize = 4;

/// How long after its opening a process may send its first request. One that lives sends it at once.
const LIFE: Duration = Duration::from_mins(10);

/// An opening whose process has sent no request in its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The number of its session.
    pub number: u64,
    /// The process, as its opening describes it.
    pub process: Process,
    /// What the agent is from the first request in the session on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<Description>,
    /// When the opening came.
    pub opened_at: Timestamp,
}

impl Candidate {
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.opened_at + LIFE
    }
}

/// What an opening says of its agent, if a token or a runner's key vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// See [`Agent::runner`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// See [`Agent::by_token`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_token: Option<TokenScope>,
    /// See [`Agent::labels`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// See [`Agent::run_untagged_jobs`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
}

impl Description {
    /// What an administrator has set stays.
    pub(super) fn apply(self, agent: &mut Agent) {
        agent.runner = self.runner;
        agent.by_token = self.by_token;
        if agent.settled_at.is_none() {
            agent.labels = self.labels;
            agent.run_untagged_jobs = self.run_untagged_jobs;
        }
    }
}
