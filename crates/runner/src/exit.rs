//! How the runner ends, as its platform sees it.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the run succeeded, and its result was delivered |
//! | 1 | the run failed, and its result was delivered |
//! | 2 | the result could not be delivered |
//! | 10 | `canyon-runner metadata-services` alone: one of them answers |
//! | 64 | a setting is missing or wrong (`EX_USAGE` of sysexits.h) |
//! | 75 | another runner has the attempt, or it is over (`EX_TEMPFAIL`); nothing was touched, or what ran was stopped |

use std::process::ExitCode;

/// The runner's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run did what it was to do; Canyon knows.
    Succeeded,
    /// It did not; Canyon knows.
    Failed,
    /// Canyon does not know, for this reason.
    Undelivered(String),
    /// A setting is missing or wrong.
    Settings(String),
    /// The attempt is somebody else's, or over.
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

    /// One line for the platform's log, when Canyon's own log cannot tell it.
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
