//! The sessions of an agent. Opening a session is idempotent, however often and however late the network
//! delivers the request.
//!
//! Opening a session alone does not supersede the session of another process, because the process that sent
//! the request may be dead: a proxy may deliver it minutes later. It creates a candidate
//! ([`super::candidate`]). The first request that its process sends in that session makes it the agent's
//! session.

use super::Agent;
use super::candidate::{Candidate, Description, MAX_CANDIDATES};
use crate::runner::RunnerType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Without a request for this long, an agent counts as gone: three of its requests may be lost.
pub const LEASE: Duration = Duration::from_mins(1);

/// How long after Canyon last asked something of it an agent does not count as idle yet: work comes in bursts.
const IDLE_AFTER_REQUEST: Duration = Duration::from_mins(2);

/// How many earlier processes a session remembers, to recognize their late requests. Each write of the agent
/// contains them, so the number is small.
const MAX_REMEMBERED: usize = 8;

/// A session: the lifetime of one process of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its number, the fence of all requests in it.
    pub number: u64,
    /// A random id of the process, so that it can repeat the opening request if the answer was lost.
    pub instance: String,
    /// The ids of earlier processes, oldest first: an opening request of theirs is late.
    #[serde(rename = "before", default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_instances: Vec<String>,
    /// When it began.
    pub opened_at: Timestamp,
    /// When its last request came.
    pub last_seen: Timestamp,
    /// When its process closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The types of runners whose jobs it can launch.
    pub serves: Vec<RunnerType>,
    /// The platform that its jobs run on: the cluster, account or container engine, by an id of its own.
    /// Another agent with the same `platform_id` finds the same jobs.
    #[serde(rename = "place")]
    pub platform_id: String,
    /// Version of the program.
    pub program: String,
    /// The protocol version that both sides use.
    pub protocol: u32,
    /// The maximum number of jobs that it runs at once.
    pub concurrency: u32,
    /// The number of jobs that it runs.
    pub running: u32,
    /// It finishes its jobs and takes no further ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// When it was last offered work, or was asked for output while it was idle; orders the offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_at: Option<Timestamp>,
    /// Its last error, as the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Set if it has superseded another session, and not all jobs of that one are recorded as its own yet:
    /// when its opening request came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopts_jobs: Option<Timestamp>,
}

/// A process that opens a session, as its request describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// See [`Session::instance`].
    pub instance: String,
    /// See [`Session::serves`].
    pub serves: Vec<RunnerType>,
    /// See [`Session::platform_id`].
    #[serde(rename = "place")]
    pub platform_id: String,
    /// See [`Session::program`].
    pub program: String,
    /// See [`Session::protocol`].
    pub protocol: u32,
    /// See [`Session::concurrency`].
    pub concurrency: u32,
}

/// The result of an opening request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStart {
    /// A session has begun: the agent had none, or its process had closed it.
    New,
    /// This process already has the current session. Only the time of the last request has changed.
    Current,
    /// The current session stays until a request comes in the new one, which has this number.
    Candidate(u64),
    /// The session of this process has ended: a newer one has begun, or the process has closed it. Nothing
    /// has changed.
    Superseded,
}

impl Agent {
    /// A process opens a session. `described` takes effect when the session becomes the agent's.
    pub fn open(
        &mut self,
        process: Process,
        described: Option<Description>,
        now: Timestamp,
    ) -> SessionStart {
        self.candidates.retain(|candidate| candidate.is_fresh(now));
        if let Some(session) = &mut self.session {
            let is_its = session.instance == process.instance;
            if is_its && session.closed_at.is_none() {
                session.last_seen = now;
                return SessionStart::Current;
            }
            if is_its || session.earlier_instances.contains(&process.instance) {
                return SessionStart::Superseded;
            }
            // A candidate that came while the former session was open may be live.
            if session.closed_at.is_none() || !self.candidates.is_empty() {
                return SessionStart::Candidate(self.propose(process, described, now));
            }
        }
        let number = self.next_number();
        self.begin(number, process, described, now);
        SessionStart::New
    }

    /// The number of this process's candidate, which is created if it is missing.
    fn propose(&mut self, process: Process, described: Option<Description>, now: Timestamp) -> u64 {
        let is_its = |known: &&Candidate| known.process.instance == process.instance;
        if let Some(known) = self.candidates.iter().find(is_its) {
            return known.number;
        }
        let number = self.next_number();
        self.numbers_drawn = number;
        self.candidates.push(Candidate { number, process, described, opened_at: now });
        let surplus = self.candidates.len().saturating_sub(MAX_CANDIDATES);
        for dropped in self.candidates.drain(..surplus).collect::<Vec<_>>() {
            self.remember(dropped.process.instance);
        }
        number
    }

    /// No number is allocated twice, so a late request in a session that never began counts in no other.
    fn next_number(&self) -> u64 {
        self.sessions.max(self.numbers_drawn) + 1
    }

    /// The first request in a candidate's session: its process is live and acts for the agent from now on,
    /// and older processes no longer do. `false` if there is no such candidate.
    pub fn confirm(&mut self, number: u64, now: Timestamp) -> bool {
        let is_it = |known: &Candidate| known.number == number && known.is_fresh(now);
        let Some(place) = self.candidates.iter().position(is_it) else { return false };
        let candidate = self.candidates.remove(place);
        let all = std::mem::take(&mut self.candidates);
        let (older, newer): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|known| known.number < number);
        self.candidates = newer;
        for known in older {
            self.remember(known.process.instance);
        }
        self.begin(number, candidate.process, candidate.described, now);
        if let Some(session) = &mut self.session {
            session.adopts_jobs = Some(candidate.opened_at);
        }
        true
    }

    /// A process closes a session in which it has sent no request. `false` if there is no such candidate.
    pub fn withdraw(&mut self, number: u64) -> bool {
        let Some(place) = self.candidates.iter().position(|known| known.number == number) else {
            return false;
        };
        let candidate = self.candidates.remove(place);
        self.remember(candidate.process.instance);
        true
    }

    /// The agent as it is after [`Self::confirm`] of this candidate.
    pub fn as_confirmed(&self, number: u64, now: Timestamp) -> Option<Self> {
        let mut agent = self.clone();
        agent.confirm(number, now).then_some(agent)
    }

    /// Remembers a process, to recognize a late opening request of it.
    fn remember(&mut self, instance: String) {
        if let Some(session) = &mut self.session {
            session.earlier_instances.push(instance);
            let surplus = session.earlier_instances.len().saturating_sub(MAX_REMEMBERED);
            session.earlier_instances.drain(..surplus);
        }
    }

    fn begin(
        &mut self,
        number: u64,
        process: Process,
        described: Option<Description>,
        now: Timestamp,
    ) {
        if let Some(described) = described {
            described.apply(self);
        }
        if let Some(former) = self.session.as_ref().map(|session| session.instance.clone()) {
            self.remember(former);
        }
        let before =
            self.session.take().map(|session| session.earlier_instances).unwrap_or_default();
        let Process { instance, serves, platform_id, program, protocol, concurrency } = process;
        self.sessions = number;
        if self.numbers_drawn <= number {
            self.numbers_drawn = 0;
        }
        self.session = Some(Session {
            number,
            instance,
            earlier_instances: before,
            opened_at: now,
            last_seen: now,
            closed_at: None,
            serves,
            platform_id,
            program,
            protocol,
            concurrency,
            running: 0,
            draining: false,
            offered_at: None,
            last_error: None,
            adopts_jobs: None,
        });
    }
}

impl Session {
    /// Whether the process is connected, as far as Canyon knows.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && now < self.last_seen + LEASE
    }

    /// Whether it runs nothing, and was neither offered work nor asked for output recently.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.running == 0 && self.offered_at.is_none_or(|at| now >= at + IDLE_AFTER_REQUEST)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
