//! Turns the end of a container job's program into a failure with a class and a message. The message begins with a stable
//! name for programs.

use super::supervision::{Cause, Ended};
use canyon_domain::container::results::{RefusedOutputs, grouped};
use canyon_domain::failure::{Failure, FailureClass};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;

/// The exit code with which a shell reports that its program was ended by SIGKILL.
const KILLED_BELOW_SHELL: i32 = 128 + Signal::KILL.as_raw();

/// What a verdict needs to know beside the program's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    /// What the program was to do: `create` or `destroy`.
    pub(super) action: &'a str,
    /// Maximum duration of the program.
    pub(super) timeout_seconds: u32,
    /// The kernel has killed a process of the job because memory ran out.
    pub(super) out_of_memory: bool,
    /// The limit of the memory and its peak, if they are known.
    pub(super) memory: Option<&'a str>,
    /// What the program has written to `ERROR_FILE`.
    pub(super) error: Option<&'a str>,
}

/// Why the program did not succeed, if so.
pub(super) fn failure(ended: Ended, of: &Circumstances<'_>) -> Option<Failure> {
    let Circumstances { action, timeout_seconds, .. } = of;
    match ended.cause {
        Cause::Stopped => {
            let how = if ended.killed { " and killed, because it did not end in time" } else { "" };
            let message = format!("the program was stopped in {action}{how}");
            return Some(Failure::new(FailureClass::Cancelled, message));
        }
        Cause::TimedOut => {
            let time = grouped((*timeout_seconds).into());
            let message = format!("TIMEOUT: after {time} s in {action}");
            return Some(Failure::new(FailureClass::Timeout, message));
        }
        Cause::Itself => {}
    }
    let (code, signal) = (ended.status.code(), ended.status.signal());
    let is_killed = signal == Some(Signal::KILL.as_raw()) || code == Some(KILLED_BELOW_SHELL);
    if is_killed && of.out_of_memory {
        let memory = of.memory.map_or_else(String::new, |memory| format!(" ({memory})"));
        let message = format!(
            "OOM: the program was killed because memory ran out{memory}; give the runner's jobs more memory"
        );
        return Some(Failure::new(FailureClass::Oom, message));
    }
    let (class, what) = match (code, signal) {
        (Some(0), _) => return None,
        (Some(code), _) => (FailureClass::User, format!("EXIT_CODE: exit code {code}")),
        (None, signal) => {
            let number = signal.unwrap_or_default();
            // A program that fails raises other signals.
            let is_foreign = number == Signal::KILL.as_raw();
            let class = if is_foreign { FailureClass::Lost } else { FailureClass::User };
            let name = name(number).map_or_else(String::new, |name| format!(" ({name})"));
            (class, format!("SIGNAL: ended by signal {number}{name}, and not by Canyon"))
        }
    };
    let error = of.error.map_or_else(String::new, |error| format!(": {error}"));
    // As a whole: it may be longer than other failures' messages.
    Some(Failure { class, message: format!("{what}{error}") })
}

/// The failure of a program that has succeeded, but not its outputs.
pub(super) fn refused(refused: &RefusedOutputs) -> Failure {
    Failure::new(FailureClass::User, format!("{}: {refused}", refused.code()))
}

/// The failure of a run that was stopped before the program was started.
pub(super) fn stopped_before() -> Failure {
    Failure::new(FailureClass::Cancelled, "stopped before the program was started")
}

/// The failure of a container job whose image is for root, where that is not allowed.
pub(super) fn for_root(image: &str) -> Failure {
    let message = format!(
        "ROOT: the image `{image}` runs as root, which this platform allows and Canyon does not: set a `USER` other than \
         root in the image"
    );
    Failure::new(FailureClass::Config, message)
}

/// The failure of a container job that runs in the runner's image.
pub(super) fn outdated(image: &str) -> Failure {
    let message = format!(
        "this job must run in the image {image}, and was started in the runner's own: an agent or a launcher of an earlier \
         version has started it; update it"
    );
    Failure::new(FailureClass::Config, message)
}

fn name(signal: i32) -> Option<&'static str> {
    const NAMES: [(Signal, &str); 13] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn verdict(raw: i32, cause: Cause, out_of_memory: bool) -> String {
        let ended =
            Ended { status: ExitStatus::from_raw(raw), cause, killed: cause != Cause::Itself };
        let of = Circumstances {
            action: "create",
            timeout_seconds: 3_600,
            out_of_memory,
            memory: Some("limit 512 MiB, peak 512 MiB"),
            error: Some("no such bucket"),
        };
        let found = failure(ended, &of);
        found.map_or_else(
            || "success".to_owned(),
            |failure| format!("{}: {}", failure.class, failure.message),
        )
    }

    #[test]
    fn each_end_of_a_program_has_its_class_and_its_message() {
        let (own, exit) = (Cause::Itself, |code: i32| code << 8);
        let all = [
            verdict(exit(0), own, false),
            verdict(exit(0), own, true),
            verdict(exit(3), own, true),
            verdict(exit(137), own, false),
            verdict(exit(137), own, true),
            verdict(9, own, true),
            verdict(9, own, false),
            verdict(11, own, true),
            verdict(40, own, false),
            verdict(exit(0), Cause::TimedOut, false),
            verdict(9, Cause::Stopped, true),
        ];
        insta::assert_snapshot!(all.join("\n"), @r"
        success
        success
        user: EXIT_CODE: exit code 3: no such bucket
        user: EXIT_CODE: exit code 137: no such bucket
        oom: OOM: the program was killed because memory ran out (limit 512 MiB, peak 512 MiB); give the runner's jobs more memory
        oom: OOM: the program was killed because memory ran out (limit 512 MiB, peak 512 MiB); give the runner's jobs more memory
        lost: SIGNAL: ended by signal 9 (SIGKILL), and not by Canyon: no such bucket
        user: SIGNAL: ended by signal 11 (SIGSEGV), and not by Canyon: no such bucket
        user: SIGNAL: ended by signal 40, and not by Canyon: no such bucket
        timeout: TIMEOUT: after 3,600 s in create
        cancelled: the program was stopped in create and killed, because it did not end in time
        ");
    }
}
