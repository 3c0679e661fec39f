//! What is known of a state, and how what a run finds may differ from it.

use crate::ids::DeploymentId;
use crate::resource_count::Resources;
use serde::{Deserialize, Serialize};

/// The identity of one version of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFacts {
    /// A random id that OpenTofu generates for a new state and never changes.
    pub lineage: String,
    /// Increases with each write.
    pub serial: u64,
    /// Number of managed resource instances; data sources do not count.
    pub resources: u32,
    /// SHA-256 of their addresses, in order, in hexadecimal digits. Runner images of earlier versions report
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl StateFacts {
    fn is_same(&self, other: &Self) -> bool {
        let both = self.digest.as_ref().zip(other.digest.as_ref());
        (&self.lineage, self.serial, self.resources)
            == (&other.lineage, other.serial, other.resources)
            && both.is_none_or(|(one, other)| one == other)
    }
}

/// How the state that a run has found differs from the environment's state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateMismatch {
    /// There is no state.
    #[error(
        "there is no state, although the last run left one with {} (serial {serial})", Resources(*resources)
    )]
    Missing {
        /// Resources in the missing state.
        resources: u32,
        /// Serial of the missing state.
        serial: u64,
    },
    /// The state was created independently.
    #[error("the state there has the lineage `{found}`, and this environment's has `{expected}`")]
    OtherLineage {
        /// The recorded lineage.
        expected: String,
        /// The lineage that was found.
        found: String,
    },
    /// The serial that the last run left, with another number of resources: the state was edited, or restored
    /// and written again.
    #[error(
        "the state there has the serial {serial} that the last run left, but {} instead of {expected}", Resources(*found)
    )]
    Altered {
        /// The serial of both.
        serial: u64,
        /// The recorded number of resources.
        expected: u32,
        /// The number of resources that was found.
        found: u32,
    },
    /// The serial that the last run left, with other resources of the same number.
    #[error("the state there has the serial {serial} that the last run left, but other resources")]
    Exchanged {
        /// The serial of both.
        serial: u64,
    },
    /// An outdated state, such as a restored backup.
    #[error(
        "the state there is older (serial {found}) than what the last run left (serial {expected})"
    )]
    Older {
        /// The recorded serial.
        expected: u64,
        /// The serial that was found.
        found: u64,
    },
}

/// Compares the recorded state with the one that a run has found. A newer serial of the same lineage is
/// accepted: a run that was killed may have written it.
///
/// If the recorded state has no resources, the state may be missing, or be another one without resources: no
/// resource is abandoned. This does not hold if a run that began to apply has not reported (`uncertain`),
/// because there may be more resources than `expected` lists.
///
/// # Errors
///
/// [`StateMismatch`] if the run must not plan on the state that was found.
pub fn compare(
    expected: Option<&StateFacts>,
    uncertain: bool,
    found: Option<&StateFacts>,
) -> Result<(), StateMismatch> {
    let Some(expected) = expected else { return Ok(()) };
    let is_newer =
        |found: &StateFacts| found.lineage == expected.lineage && found.serial > expected.serial;
    match found {
        Some(found) if found.is_same(expected) || is_newer(found) => Ok(()),
        _ if expected.resources == 0
            && !uncertain
            && found.is_none_or(|found| found.resources == 0) =>
        {
            Ok(())
        }
        Some(found) if found.lineage == expected.lineage && found.serial == expected.serial => {
            if found.resources == expected.resources {
                return Err(StateMismatch::Exchanged { serial: expected.serial });
            }
            Err(StateMismatch::Altered {
                serial: expected.serial,
                expected: expected.resources,
                found: found.resources,
            })
        }
        None => {
            Err(StateMismatch::Missing { resources: expected.resources, serial: expected.serial })
        }
        Some(found) if found.lineage == expected.lineage => {
            Err(StateMismatch::Older { expected: expected.serial, found: found.serial })
        }
        Some(found) => Err(StateMismatch::OtherLineage {
            expected: expected.lineage.clone(),
            found: found.lineage.clone(),
        }),
    }
}

/// What a run reports of its state at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateReport {
    /// The state that it left.
    #[serde(flatten)]
    pub facts: StateFacts,
    /// The run has moved the state there from the former storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// The run has begun to apply, and there may be resources that the state does not list: created ones, or
    /// ones that were removed from the state instead of destroyed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A state that a run could not write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwrittenState {
    /// The deployment.
    pub by: DeploymentId,
    /// What it was to write; `None` if OpenTofu could not save it beside the module either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<StateFacts>,
}
