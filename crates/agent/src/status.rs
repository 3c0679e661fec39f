//! The agent's status, for probes, metrics and its next poll.

use canyon_api::client::MAX_RETRY_AFTER;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The agent is stuck if its loop has not turned for this time. One turn takes at most the longest pause that Canyon may
/// ask for, and a poll with its time limit.
const STUCK: Duration = MAX_RETRY_AFTER.saturating_add(Duration::from_mins(3));
/// The agent is not ready if Canyon has not answered for this time.
const SILENT: Duration = Duration::from_mins(1);
/// The most characters of an error that are kept.
const MAX_ERROR_CHARS: usize = 1000;

/// Counters, and the times of the last events.
#[derive(Debug)]
pub struct Status {
    started: Instant,
    state: Mutex<State>,
    polls: AtomicU64,
    errors: AtomicU64,
    taken: AtomicU64,
    running: AtomicU64,
}

#[derive(Debug)]
struct State {
    session: Option<u64>,
    turned: Instant,
    answered: Option<Instant>,
    error: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        let now = Instant::now();
        let state = State { session: None, turned: now, answered: None, error: None };
        Self {
            started: now,
            state: Mutex::new(state),
            polls: AtomicU64::default(),
            errors: AtomicU64::default(),
            taken: AtomicU64::default(),
            running: AtomicU64::default(),
        }
    }
}

impl Status {
    fn state<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that the agent's loop turns.
    pub fn loop_turned(&self) {
        self.state(|state| state.turned = Instant::now());
    }

    /// Records an answer of Canyon, in this session or without one.
    pub fn answered(&self, session: Option<u64>) {
        self.state(|state| {
            state.session = session;
            state.answered = Some(Instant::now());
        });
    }

    /// Counts an answered poll.
    pub fn polled(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts jobs that were taken.
    pub fn add_taken(&self, jobs: usize) {
        self.taken.fetch_add(u64::try_from(jobs).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets the number of running jobs.
    pub fn set_running(&self, jobs: usize) {
        self.running.store(u64::try_from(jobs).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records an error that an administrator should see.
    pub fn record_error(&self, what: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let what = what.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect();
        self.state(|state| state.error = Some(what));
    }

    /// The last error.
    pub fn last_error(&self) -> Option<String> {
        self.state(|state| state.error.clone())
    }

    /// Whether the agent's loop is not stuck.
    pub fn is_alive(&self) -> bool {
        self.is_alive_at(Instant::now())
    }

    fn is_alive_at(&self, now: Instant) -> bool {
        self.state(|state| now.duration_since(state.turned) < STUCK)
    }

    /// Whether the agent has a session and hears from Canyon, so that Canyon offers it jobs.
    pub fn is_ready(&self) -> bool {
        self.is_ready_at(Instant::now())
    }

    fn is_ready_at(&self, now: Instant) -> bool {
        self.state(|state| {
            let is_fresh = |at| now.duration_since(at) < SILENT;
            state.session.is_some() && state.answered.is_some_and(is_fresh)
        })
    }

    /// The numbers for the metrics.
    pub(crate) fn numbers(&self) -> Numbers {
        let (session, silence) = self.state(|state| {
            (state.session.unwrap_or(0), state.answered.map(|at| at.elapsed().as_secs_f64()))
        });
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Numbers {
            polls: count(&self.polls),
            errors: count(&self.errors),
            taken: count(&self.taken),
            running: count(&self.running),
            session,
            ready: self.is_ready(),
            uptime_seconds: self.started.elapsed().as_secs(),
            silence,
        }
    }
}

/// The numbers of a [`Status`].
pub(crate) struct Numbers {
    pub(crate) polls: u64,
    pub(crate) errors: u64,
    pub(crate) taken: u64,
    pub(crate) running: u64,
    pub(crate) session: u64,
    pub(crate) ready: bool,
    pub(crate) uptime_seconds: u64,
    /// Seconds since Canyon's last answer; `None` without any.
    pub(crate) silence: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_alive_as_long_as_its_loop_turns() {
        let status = Status::default();
        assert!(status.is_alive());
        let late = Instant::now() + STUCK;
        assert!(!status.is_alive_at(late), "the loop is stuck");
        std::thread::sleep(Duration::from_millis(10));
        status.loop_turned();
        assert!(status.is_alive_at(late), "the loop has turned since");
    }

    #[test]
    fn the_agent_is_ready_in_a_session_in_which_canyon_answers() {
        let status = Status::default();
        assert!(!status.is_ready(), "Canyon has not answered yet");
        status.answered(None);
        assert!(!status.is_ready(), "the agent is pending");
        status.answered(Some(3));
        assert!(status.is_ready());
        assert!(!status.is_ready_at(Instant::now() + SILENT), "Canyon is silent");
    }

    #[test]
    fn the_last_error_is_kept_in_one_line_of_bounded_length() {
        let status = Status::default();
        assert_eq!(status.last_error(), None);
        status.record_error("a\r\n\u{1b}[31mb");
        assert_eq!(status.last_error().as_deref(), Some("a[31mb"));
        status.record_error(&"é".repeat(5 * MAX_ERROR_CHARS));
        assert_eq!(status.last_error(), Some("é".repeat(MAX_ERROR_CHARS)));
    }
}
