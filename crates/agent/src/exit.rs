//! How the agent ends, as whoever started it sees it.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | it was asked to end, or has done the one job of `--single` |
//! | 1 | something on this machine does not work; a step of `check` failed; `health` found the agent dead, or not ready |
//! | 2 | a flag that does not exist, or one without its value |
//! | 75 | a newer session of the same agent has taken over, and this process does not stand by (`EX_TEMPFAIL` of sysexits.h) |
//! | 77 | Canyon refuses this agent (`EX_NOPERM`) |
//! | 78 | a setting is missing or wrong (`EX_CONFIG`) |

use std::process::ExitCode;

/// The agent's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was asked to end, or is done.
    Done,
    /// Something on this machine does not work.
    Broken(String),
    /// A newer session has taken over.
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

    /// Why, for people.
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
