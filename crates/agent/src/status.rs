//! What the agent knows of itself, for probes, metrics and its next poll.

use crate::backoff::LONGEST_PAUSE;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A loop that has not turned for so long is stuck: it waits for as long as Canyon asks for, and then for a poll with its
/// time limit.
const STUCK: Duration = LONGEST_PAUSE.saturating_add(Duration::from_mins(3));
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
        self.is_alive_at(Instant::now())
    }

    fn is_alive_at(&self, now: Instant) -> bool {
        self.state(|state| now.duration_since(state.turned) < STUCK)
    }

    /// Whether it would get work.
    pub fn is_ready(&self) -> bool {
        self.is_ready_at(Instant::now())
    }

    fn is_ready_at(&self, now: Instant) -> bool {
        self.state(|state| {
            let is_fresh = |at| now.duration_since(at) < SILENT;
            state.session.is_some() && state.heard.is_some_and(is_fresh)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lives_as_long_as_its_loop_turns() {
        let status = Status::default();
        assert!(status.is_alive());
        let late = Instant::now() + STUCK;
        assert!(!status.is_alive_at(late), "it is stuck");
        std::thread::sleep(Duration::from_millis(10));
        status.turned();
        assert!(status.is_alive_at(late), "it has turned since");
    }

    #[test]
    fn it_is_ready_in_a_session_from_which_it_hears() {
        let status = Status::default();
        assert!(!status.is_ready(), "nothing was heard yet");
        status.heard(None);
        assert!(!status.is_ready(), "nobody has adopted it");
        status.heard(Some(3));
        assert!(status.is_ready());
        assert!(!status.is_ready_at(Instant::now() + SILENT), "Canyon is silent");
    }

    #[test]
    fn what_went_wrong_is_kept_in_one_line_of_bounded_length() {
        let status = Status::default();
        assert_eq!(status.last_trouble(), None);
        status.trouble("a\r\n\u{1b}[31mb");
        assert_eq!(status.last_trouble().as_deref(), Some("a[31mb"));
        status.trouble(&"é".repeat(5 * WORDS));
        assert_eq!(status.last_trouble(), Some("é".repeat(WORDS)));
    }

    #[test]
    fn metrics_are_what_prometheus_reads() {
        let status = Status::default();
        assert!(!status.metrics().contains("last_answer"), "there was none");
        status.heard(Some(7));
        status.polled();
        status.polled();
        status.took(3);
        status.runs(2);
        status.trouble("x");
        let text = status.metrics();
        assert!(text.ends_with('\n'));
        let lines: Vec<_> = text.lines().collect();
        let mut samples = Vec::new();
        for three in lines.chunks(3) {
            let [help, kind, sample] = three else { panic!("{three:?}") };
            let (name, value) = sample.split_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            assert!(help.starts_with(&format!("# HELP {bare} ")), "{help}");
            let expected = if bare.ends_with("_total") { "counter" } else { "gauge" };
            assert_eq!(*kind, format!("# TYPE {bare} {expected}"));
            value.parse::<f64>().unwrap();
            samples.push(*sample);
        }
        for expected in [
            "canyon_agent_polls_total 2",
            "canyon_agent_errors_total 1",
            "canyon_agent_jobs_taken_total 3",
            "canyon_agent_jobs_running 2",
            "canyon_agent_session 7",
            "canyon_agent_ready 1",
        ] {
            assert!(samples.contains(&expected), "{expected}: {samples:?}");
        }
        let last_answer = |sample: &&str| sample.starts_with("canyon_agent_last_answer_seconds ");
        assert!(samples.iter().any(last_answer), "{samples:?}");
    }
}
