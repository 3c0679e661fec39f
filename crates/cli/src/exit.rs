//! Exit codes. Scripts rely on them, so the numbers never change.

use std::process::ExitCode;

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what the user asked for.
    Ok = 0,
    /// The deployment failed or was cancelled; a question was not answered with `yes`; or `doctor` found
    /// something that does not work.
    DeploymentFailed = 1,
    /// Wrong flags, settings or files; nothing was sent.
    Usage = 2,
    /// `canyon drift check --wait` has found drift. Its code is 2, as that of `tofu plan -detailed-exitcode`.
    Drifted = 102,
    /// No Canyon server answered.
    Unreachable = 3,
    /// Canyon refused for another reason than those below (another status 4xx).
    Refused = 4,
    /// Canyon failed (status 5xx).
    Server = 5,
    /// The deployment did not end within `--timeout`; it continues.
    TimedOut = 6,
    /// It does not exist, or the token may not read it (status 404).
    NotFound = 7,
    /// The token's role does not allow it (status 403).
    Forbidden = 8,
    /// The present state of something prevents it (status 409).
    Conflict = 9,
    /// Ctrl-C while waiting, or at a question.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Drifted => Self::from(2),
            other => Self::from(other as u8),
        }
    }
}

/// The codes as `--help` explains them.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done
    1  the deployment failed or was cancelled;
       a question was not answered with `yes`;
       doctor found something that does not work
    2  wrong flags, settings or files, a short id that several deployments
       have, or --yes is missing; nothing was changed;
       drift check --wait found drift
    3  cannot reach Canyon
    4  Canyon refused for another reason (4xx): the token (401), a field (400)
    5  Canyon failed (5xx), or `canyon local` could not start
    6  the deployment did not end within --timeout; it continues
    7  not found (404)
    8  forbidden: the token's role does not allow it (403)
    9  conflict: the present state prevents it (409)
  130  interrupted; a deployment continues without being watched";
