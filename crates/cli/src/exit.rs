//! Exit codes. Scripts rely on them, so the numbers never change.

use std::process::ExitCode;

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what the user asked for.
    Ok = 0,
    /// The deployment failed or was cancelled, or did not end within `--timeout`; a question was not
    /// answered with `yes`; or `doctor` found something that does not work.
    DeploymentFailed = 1,
    /// Wrong flags, settings or files; nothing was sent.
    Usage = 2,
    /// No Canyon server answered.
    Unreachable = 3,
    /// Canyon refused (status 4xx).
    Refused = 4,
    /// Canyon failed (status 5xx).
    Server = 5,
    /// Ctrl-C while waiting, or at a question.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The codes as `--help` explains them.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done
    1  the deployment failed, was cancelled, or did not end within --timeout;
       a question was not answered with `yes`;
       doctor found something that does not work
    2  wrong flags, settings or files, or --yes is missing; nothing was sent
    3  cannot reach Canyon
    4  Canyon refused (4xx)
    5  Canyon failed (5xx), or `canyon local` could not start
  130  interrupted; a deployment continues without being watched";
