//! What a bad end of OpenTofu means: whose failure it is, in words.

use crate::{render, transcript::Transcript, unreachable};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use std::fmt;

/// Errors that OpenTofu reports about the state storage, wherever they come.
const STORAGE_ERRORS: [&str; 5] = [
    "Error acquiring the state lock",
    "Error loading state",
    "Failed to load state",
    "Error refreshing state",
    "Failed to save state",
];

/// The signal that nobody can refuse.
const KILL: i32 = 9;

/// A command that ended badly.
#[derive(Clone, Debug)]
pub struct Command {
    /// `tofu` or `terraform`.
    pub program: String,
    /// What it was to do.
    pub phase: Phase,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.phase {
            Phase::Launch | Phase::Fetch | Phase::Init => "init",
            Phase::Plan => "plan",
            Phase::Apply => "apply",
        };
        write!(f, "`{} {word}`", self.program)
    }
}

/// It said no, with exit code `code`.
pub fn refused(command: &Command, code: i32, transcript: &Transcript) -> Failure {
    let facts = &transcript.facts;
    let sealed = transcript.is_sealed();
    let Some(error) = &facts.error else {
        let words = transcript.last_words();
        let told = words.filter(|_| !sealed).unwrap_or("see the log");
        let message = format!("{command} exited with code {code}: {told}");
        let outage = command.phase == Phase::Init && words.is_some_and(unreachable::is_told_in);
        let class = if outage { FailureClass::Unreachable } else { FailureClass::User };
        return Failure::new(class, message);
    };
    let in_storage = (command.phase == Phase::Init && facts.in_backend)
        || STORAGE_ERRORS.iter().any(|summary| error.summary.contains(summary));
    let outage = unreachable::is_told_in(&format!("{}: {}", error.summary, error.detail));
    // A cut through a secret would leave a part of it that no mask knows.
    let message = transcript.log.masked(&render::failure_message(error, !sealed));
    let (class, message) = match (in_storage, outage) {
        (true, true) => {
            (FailureClass::Unreachable, format!("the state storage does not answer: {message}"))
        }
        (true, false) => {
            (FailureClass::Config, format!("the state storage does not work: {message}"))
        }
        // What providers say in a plan is theirs; only `init` fetches what others serve.
        (false, true) if command.phase == Phase::Init => {
            (FailureClass::Unreachable, format!("{command} did not reach what it needs: {message}"))
        }
        (false, _) => (FailureClass::User, message),
    };
    Failure::new(class, message)
}

/// A signal ended it that Canyon had not sent; `for_memory` if the kernel needed its memory.
pub fn killed(command: &Command, signal: i32, for_memory: bool) -> Failure {
    if signal == KILL && for_memory {
        let message =
            format!("{command} was killed for want of memory; give the runner's jobs more");
        Failure::new(FailureClass::Oom, message)
    } else {
        let message = format!("{command} was killed by signal {signal}, and not by Canyon");
        Failure::new(FailureClass::Lost, message)
    }
}

/// The run was to stop, and had come to `phase`; `killed` if it did not stop by itself. The words say
/// what the stop did; [`because`] puts the reason before them.
pub fn cancelled(phase: Phase, killed: bool) -> Failure {
    let message = match phase {
        Phase::Apply if killed => {
            "the apply did not stop in time and was killed: see the orphans for what the state may \
             not know"
        }
        Phase::Apply => "stopped during the apply: what was done is in the state",
        Phase::Launch | Phase::Fetch | Phase::Init | Phase::Plan => {
            "stopped before anything was changed"
        }
    };
    Failure::new(FailureClass::Cancelled, message)
}

/// The failure of a run that stopped, with the reason for it.
pub fn because(reason: &Failure, stopped: &Failure) -> Failure {
    Failure::new(reason.class, format!("{}; {}", reason.message, stopped.message))
}
