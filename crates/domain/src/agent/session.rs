//! The sessions of an agent. Each opening counts once, however often it is said and however late.

use super::Agent;
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
}

/// A process that would speak for an agent, as its opening describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// It was not heard before: a session has begun, and the one before is over.
    New,
    /// It began the session that goes on. Nothing has changed, but that the agent was heard.
    Again,
    /// What it began is over: there is a newer session, or the process has left. Nothing has changed.
    Superseded,
}

impl Agent {
    /// A process opens a session.
    pub fn open(&mut self, process: Process, now: Timestamp) -> Opening {
        let mut before = Vec::new();
        if let Some(session) = &mut self.session {
            let is_its = session.instance == process.instance;
            if is_its && session.closed_at.is_none() {
                session.last_seen = now;
                return Opening::Again;
            }
            if is_its || session.before.contains(&process.instance) {
                return Opening::Superseded;
            }
            before.clone_from(&session.before);
            before.push(session.instance.clone());
            before.drain(..before.len().saturating_sub(REMEMBERED));
        }
        let Process { instance, serves, place, program, protocol, concurrency } = process;
        self.sessions += 1;
        self.session = Some(Session {
            number: self.sessions,
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
        });
        Opening::New
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
