//! The sessions of an agent. Each opening counts once, however often the network repeats it and however late it comes.
//!
//! An opening alone does not supersede the session of another process, because the process that sent it may be dead:
//! a proxy may deliver an opening minutes later. It makes a candidate ([`super::candidate`]), and the first request
//! that its process sends in that session makes it the agent's session.

use super::Agent;
use super::candidate::{Candidate, Description, MAX_CANDIDATES};
use crate::runner::RunnerType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Silence after which an agent counts as gone: three of its requests may be lost.
pub const LEASE: Duration = Duration::from_mins(1);

/// How long after its last offer an agent is not idle yet: work comes in bursts.
const BUSY: Duration = Duration::from_mins(2);

/// How many former openings are known again. Each write of the agent has them in it, so they are few.
const REMEMBERED: usize = 8;

/// One life of an agent's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its number, the fence of all that is said in it.
    pub number: u64,
    /// What the process drew for its opening, so that it may repeat that if the answer was lost.
    pub instance: String,
    /// What the last ones before drew, oldest first: an opening of theirs comes late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// When it began.
    pub opened_at: Timestamp,
    /// When it was last heard.
    pub last_seen: Timestamp,
    /// When it took its leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The types of runners whose jobs it can launch.
    pub serves: Vec<RunnerType>,
    /// Where its jobs run: the cluster, account or engine by an id of its own. Another agent of the same place
    /// finds the same jobs there.
    pub place: String,
    /// Version of the program.
    pub program: String,
    /// Version of the protocol that both speak.
    pub protocol: u32,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// How many it runs.
    pub running: u32,
    /// It finishes what it runs and takes nothing further.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// When it was last offered work, for turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_at: Option<Timestamp>,
    /// What last went wrong, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// It has superseded another session, and not all jobs of that one are recorded as its own yet. When its opening
    /// came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopts_jobs: Option<Timestamp>,
}

/// A process that would speak for an agent, as its opening describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// See [`Session::instance`].
    pub instance: String,
    /// See [`Session::serves`].
    pub serves: Vec<RunnerType>,
    /// See [`Session::place`].
    pub place: String,
    /// See [`Session::program`].
    pub program: String,
    /// See [`Session::protocol`].
    pub protocol: u32,
    /// See [`Session::concurrency`].
    pub concurrency: u32,
}

/// What came of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A session has begun: the agent had none, or its process had left.
    New,
    /// It began the session that goes on. Nothing has changed but the time of the last request.
    Again,
    /// Another session goes on until a request comes in this one, which has the number.
    Candidate(u64),
    /// Its session is over: a newer one has begun, or the process has left. Nothing has changed.
    Superseded,
}

impl Agent {
    /// A process opens a session. `described` counts from the moment at which the session is the agent's.
    pub fn open(
        &mut self,
        process: Process,
        described: Option<Description>,
        now: Timestamp,
    ) -> Opening {
        self.candidates.retain(|candidate| candidate.is_fresh(now));
        if let Some(session) = &mut self.session {
            let is_its = session.instance == process.instance;
            if is_its && session.closed_at.is_none() {
                session.last_seen = now;
                return Opening::Again;
            }
            if is_its || session.before.contains(&process.instance) {
                return Opening::Superseded;
            }
            // Of those that came while the former went on, one may live.
            if session.closed_at.is_none() || !self.candidates.is_empty() {
                return Opening::Candidate(self.propose(process, described, now));
            }
        }
        let number = self.next_number();
        self.begin(number, process, described, now);
        Opening::New
    }

    /// The number of the candidate of this process, made now unless it is there.
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

    /// No number is drawn twice: a late request in a session that never was counts in no other.
    fn next_number(&self) -> u64 {
        self.sessions.max(self.numbers_drawn) + 1
    }

    /// The first request in the session of a candidate: its process lives, so it speaks for the agent from now on, and
    /// the older ones do not. `false` if there is no such candidate.
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

    /// A process that never spoke in its session takes its leave. `false` if there is no such candidate.
    pub fn withdraw(&mut self, number: u64) -> bool {
        let Some(place) = self.candidates.iter().position(|known| known.number == number) else {
            return false;
        };
        let candidate = self.candidates.remove(place);
        self.remember(candidate.process.instance);
        true
    }

    /// The agent as it would be if this candidate spoke for it.
    pub fn as_confirmed(&self, number: u64, now: Timestamp) -> Option<Self> {
        let mut agent = self.clone();
        agent.confirm(number, now).then_some(agent)
    }

    /// A late opening of this process is known again.
    fn remember(&mut self, instance: String) {
        if let Some(session) = &mut self.session {
            session.before.push(instance);
            let surplus = session.before.len().saturating_sub(REMEMBERED);
            session.before.drain(..surplus);
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
        let before = self.session.take().map(|session| session.before).unwrap_or_default();
        let Process { instance, serves, place, program, protocol, concurrency } = process;
        self.sessions = number;
        if self.numbers_drawn <= number {
            self.numbers_drawn = 0;
        }
        self.session = Some(Session {
            number,
            instance,
            before,
            opened_at: now,
            last_seen: now,
            closed_at: None,
            serves,
            place,
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
    /// Whether the process is there, as far as one knows.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && now < self.last_seen + LEASE
    }

    /// Whether it runs nothing, and was offered nothing of late.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.running == 0 && self.offered_at.is_none_or(|at| now >= at + BUSY)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
