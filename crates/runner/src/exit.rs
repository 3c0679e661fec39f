//! The runner's exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the run succeeded, and its result was delivered |
//! | 1 | the run failed, and its result was delivered |
//! | 2 | the result could not be delivered |
//! | 10 | only for `canyon-runner metadata-services`: a metadata service answers |
//! | 64 | a setting is missing or wrong (`EX_USAGE` of sysexits.h) |
//! | 73 | only for `canyon-runner inject`: the directory cannot be filled (`EX_CANTCREAT`) |
//! | 75 | another runner has the attempt, or the attempt is over (`EX_TEMPFAIL`); the runner changed nothing, or stopped OpenTofu |

use std::process::ExitCode;

/// How the runner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run succeeded, and Canyon has the result.
    Succeeded,
    /// The run failed, and Canyon has the result.
    Failed,
    /// Canyon has no result, for this reason.
    Undelivered(String),
    /// A setting is missing or wrong.
    Settings(String),
    /// Another runner has the attempt, or the attempt is over.
    Over(String),
}

impl Exit {
    /// The result could not be delivered because of `reason`.
    pub fn undelivered(reason: impl Into<String>) -> Self {
        Self::Undelivered(reason.into())
    }

    /// The documented code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::Failed => 1,
            Self::Undelivered(_) => 2,
            Self::Settings(_) => 64,
            Self::Over(_) => 75,
        }
    }

    /// One line for the platform's log, if Canyon's own log cannot have it.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Succeeded | Self::Failed => None,
            Self::Undelivered(reason) | Self::Settings(reason) | Self::Over(reason) => Some(reason),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
