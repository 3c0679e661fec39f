//! The agent's exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it was asked to end, or the one job of `--single` has ended |
//! | 1 | something on this machine does not work; a step of `check` failed; `health` found that the agent does not run, or is not ready |
//! | 2 | a flag that does not exist, or a flag without its value |
//! | 75 | a newer session of the same agent has superseded this one, and this process does not stand by (`EX_TEMPFAIL` of sysexits.h) |
//! | 77 | Canyon refuses this agent (`EX_NOPERM`) |
//! | 78 | a setting is missing or wrong (`EX_CONFIG`) |

use std::process::ExitCode;

/// How the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was asked to end, or its work is done.
    Done,
    /// Something on this machine does not work.
    Broken(String),
    /// A newer session has superseded this one.
    Superseded(String),
    /// Canyon refuses this agent.
    Rejected(String),
    /// Settings are missing or wrong.
    Settings(String),
}

impl Exit {
    /// The documented code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Broken(_) => 1,
            Self::Superseded(_) => 75,
            Self::Rejected(_) => 77,
            Self::Settings(_) => 78,
        }
    }

    /// The reason, for people; `None` for an end without a fault.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Broken(reason)
            | Self::Superseded(reason)
            | Self::Rejected(reason)
            | Self::Settings(reason) => Some(reason),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
