//! What a concurrency limit applies to, and its slots.

use crate::ids::{InvalidId, ProjectId, RunnerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a limit applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LimitScope {
    /// All attempts in the organization.
    Organization,
    /// The attempts of a runner.
    Runner(RunnerId),
    /// The attempts in a project, or in the projects of a group.
    Project(ProjectId),
    /// The checks for drift of a runner.
    Checks(RunnerId),
}

/// Why a text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// It has no known prefix.
    #[error("use `organization`, `runner:ID`, `project:ID` or `checks:RUNNER`")]
    Kind,
    /// Its id is invalid.
    #[error(transparent)]
    Id(#[from] InvalidId),
}

impl FromStr for LimitScope {
    type Err = InvalidScope;
    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        match text.split_once(':') {
            None if text == "organization" => Ok(Self::Organization),
            Some(("runner", id)) => Ok(Self::Runner(id.parse()?)),
            Some(("project", id)) => Ok(Self::Project(id.parse()?)),
            Some(("checks", id)) => Ok(Self::Checks(id.parse()?)),
            _ => Err(InvalidScope::Kind),
        }
    }
}

impl TryFrom<String> for LimitScope {
    type Error = InvalidScope;
    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl From<LimitScope> for String {
    fn from(scope: LimitScope) -> Self {
        scope.to_string()
    }
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organization => f.write_str("organization"),
            Self::Runner(id) => write!(f, "runner:{id}"),
            Self::Checks(id) => write!(f, "checks:{id}"),
            Self::Project(id) => write!(f, "project:{id}"),
        }
    }
}

/// A slot of a limit, held by an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConcurrencySlot {
    /// The scope of the limit.
    pub scope: LimitScope,
    /// The slot's number.
    pub number: u32,
}
