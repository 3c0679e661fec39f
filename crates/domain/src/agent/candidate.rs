//! A session that was opened while another one is current: no request proves yet that its process is live.

use super::{Agent, Process, TokenScope};
use crate::ids::RunnerId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of candidates of an agent; beyond that the oldest is dropped. Each write of the agent
/// contains them.
pub(super) const MAX_CANDIDATES: usize = 4;

/// How long after its opening request a process may send its first request. A live process sends it at once.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_mins(10);

/// A session in which its process has sent no request yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The number of its session.
    pub number: u64,
    /// The process, as its opening request describes it.
    pub process: Process,
    /// The agent's settings from the first request in the session on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<Description>,
    /// When the opening request came.
    pub opened_at: Timestamp,
}

impl Candidate {
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.opened_at + FIRST_REQUEST_TIMEOUT
    }
}

/// What an opening request sets on its agent, if a token or a runner's key authenticates it.
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
    /// Applies the settings, except those that an administrator has set.
    pub(super) fn apply(self, agent: &mut Agent) {
        agent.runner = self.runner;
        agent.by_token = self.by_token;
        if agent.settings_fixed_at.is_none() {
            agent.labels = self.labels;
            agent.run_untagged_jobs = self.run_untagged_jobs;
        }
    }
}
