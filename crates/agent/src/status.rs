//! What the agent knows of itself, for probes, metrics and its next poll.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A loop that has not turned for so long is stuck: its longest wait is a poll with its time limit.
const STUCK: Duration = Duration::from_mins(3);
/// Without an answer for so long, the agent is not ready.
const SILENT: Duration = Duration::from_mins(1);
/// The most that is kept of an error, in characters.
const WORDS: usize = 1000;

/// Counters, and when what last happened.
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
    heard: Option<Instant>,
    trouble: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        let now = Instant::now();
        let state = State { session: None, turned: now, heard: None, trouble: None };
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

    /// The agent's loop turns.
    pub fn turned(&self) {
        self.state(|state| state.turned = Instant::now());
    }

    /// Canyon has answered, in this session.
    pub fn heard(&self, session: Option<u64>) {
        self.state(|state| {
            state.session = session;
            state.heard = Some(Instant::now());
        });
    }

    /// It has answered a poll.
    pub fn polled(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// So many jobs were taken.
    pub fn took(&self, jobs: usize) {
        self.taken.fetch_add(u64::try_from(jobs).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// So many jobs run.
    pub fn runs(&self, jobs: usize) {
        self.running.store(u64::try_from(jobs).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Something went wrong that the operator should see.
    pub fn trouble(&self, what: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let what = what.chars().filter(|c| !c.is_control()).take(WORDS).collect();
        self.state(|state| state.trouble = Some(what));
    }

    /// What last went wrong.
    pub fn last_trouble(&self) -> Option<String> {
        self.state(|state| state.trouble.clone())
    }

    /// Whether the process does anything.
    pub fn is_alive(&self) -> bool {
        self.state(|state| state.turned.elapsed() < STUCK)
    }

    /// Whether it would get work.
    pub fn is_ready(&self) -> bool {
        self.state(|state| {
            state.session.is_some() && state.heard.is_some_and(|at| at.elapsed() < SILENT)
        })
    }

    /// The text format of Prometheus ("Exposition formats").
    pub fn metrics(&self) -> String {
        let (session, silence) = self.state(|state| {
            (state.session.unwrap_or(0), state.heard.map(|at| at.elapsed().as_secs_f64()))
        });
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = format!(
            "# HELP canyon_agent_info The program.\n# TYPE canyon_agent_info gauge\n\
             canyon_agent_info{{version=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        );
        let numbers = [
            ("polls_total", "counter", "Requests for work that were answered.", count(&self.polls)),
            ("errors_total", "counter", "What went wrong.", count(&self.errors)),
            ("jobs_taken_total", "counter", "Jobs that were taken.", count(&self.taken)),
            ("jobs_running", "gauge", "Jobs that run.", count(&self.running)),
            ("session", "gauge", "The number of the session; 0 without one.", session),
            ("ready", "gauge", "Whether it would get work.", u64::from(self.is_ready())),
            ("uptime_seconds", "gauge", "Since its start.", self.started.elapsed().as_secs()),
        ];
        for (name, kind, help, value) in numbers {
            let name = format!("canyon_agent_{name}");
            // A write into a string does not fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
        if let Some(silence) = silence {
            let name = "canyon_agent_last_answer_seconds";
            let help = "Since Canyon's last answer.";
            let _ =
                write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {silence:.3}\n");
        }
        text
    }
}
