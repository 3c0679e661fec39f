//! Turns an unsuccessful end of OpenTofu into a failure with a class and a message.

use crate::{render, transcript::Transcript, unreachable};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use std::fmt;

/// OpenTofu's error summaries about the state storage, in any command.
const STORAGE_ERRORS: [&str; 6] = [
    "Error acquiring the state lock",
    "Error loading state",
    "Failed to load state",
    "Error refreshing state",
    "Failed to save state",
    "Error releasing the state lock",
];

/// SIGKILL, which a process cannot handle.
const KILL: i32 = 9;

/// A command that did not succeed.
#[derive(Clone, Debug)]
pub struct Command {
    /// `tofu` or `terraform`.
    pub program: String,
    /// The phase of the run.
    pub phase: Phase,
    /// In place of the command of its phase, a command on the state.
    pub on_state: Option<&'static [&'static str]>,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = self.on_state {
            return write!(f, "`{} {}`", self.program, words.join(" "));
        }
        let name = match self.phase {
            Phase::Launch | Phase::Fetch | Phase::Init => "init",
            Phase::Plan => "plan",
            Phase::Apply => "apply",
        };
        write!(f, "`{} {name}`", self.program)
    }
}

/// The failure of a command that exited with `code`.
pub fn refused(command: &Command, code: i32, transcript: &Transcript) -> Failure {
    let facts = &transcript.facts;
    let sealed = transcript.is_sealed();
    // The text of a plain error may have values in it.
    let plain = facts.plain_error.as_ref().filter(|_| !sealed);
    let Some(error) = facts.error.as_ref().or(plain) else {
        let error = transcript.stderr_error();
        let shown = error.filter(|_| !sealed).unwrap_or("see the log");
        let message = format!("{command} exited with code {code}: {shown}");
        let outage = command.phase == Phase::Init && error.is_some_and(unreachable::is_reported_in);
        let class = if outage { FailureClass::Unreachable } else { FailureClass::User };
        return Failure::new(class, message);
    };
    let in_storage = (command.phase == Phase::Init && facts.in_backend)
        || STORAGE_ERRORS.iter().any(|summary| error.summary.contains(summary));
    let outage = unreachable::is_reported_in(&format!("{}: {}", error.summary, error.detail));
    // Masked before it is shortened: a mask does not recognize a part of a secret.
    let message = transcript.log.masked(&render::failure_message(error, !sealed));
    let (class, message) = match (in_storage, outage) {
        (true, true) => {
            (FailureClass::Unreachable, format!("the state storage does not answer: {message}"))
        }
        (true, false) => {
            (FailureClass::Config, format!("the state storage does not work: {message}"))
        }
        // During a plan a provider's error concerns the module; only `init` downloads from other services.
        (false, true) if command.phase == Phase::Init => {
            (FailureClass::Unreachable, format!("{command} could not reach a service: {message}"))
        }
        (false, _) => (FailureClass::User, message),
    };
    Failure::new(class, message)
}

/// The failure of a command that a signal ended which Canyon had not sent; `for_memory` if the kernel killed it because
/// memory ran out.
pub fn killed(command: &Command, signal: i32, for_memory: bool) -> Failure {
    if signal == KILL && for_memory {
        let message = format!(
            "{command} was killed because memory ran out; give the runner's jobs more memory"
        );
        Failure::new(FailureClass::Oom, message)
    } else {
        let message = format!("{command} was killed by signal {signal}, and not by Canyon");
        Failure::new(FailureClass::Lost, message)
    }
}

/// The failure of a run that was stopped in `phase`; `killed` if OpenTofu did not stop in time. The message says what
/// the stop did; [`because`] puts the reason before it.
pub fn cancelled(phase: Phase, killed: bool) -> Failure {
    let message = match phase {
        Phase::Apply if killed => {
            "the apply did not stop in time and was killed: the orphans are the resources that the state may \
             not list"
        }
        Phase::Apply => "stopped during the apply: what was done is in the state",
        Phase::Launch | Phase::Fetch | Phase::Init | Phase::Plan => {
            "stopped before anything was changed"
        }
    };
    Failure::new(FailureClass::Cancelled, message)
}

/// The failure of a stopped run, with the reason of the stop.
pub fn because(reason: &Failure, stopped: &Failure) -> Failure {
    Failure::new(reason.class, format!("{}; {}", reason.message, stopped.message))
}
