//! What a run does about a plan that Canyon keeps.

use crate::approval::ApprovalNeed;
use crate::kept_plan::{MAX_PAGES, MAX_PARTS, PlanSummary};
use crate::module_source::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the run does about a kept plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum PlanTask {
    /// It keeps the plan that it makes.
    Keep {
        /// The key to encrypt it with.
        key: PlanKey,
    },
    /// It keeps the plan that it makes and ends, if people must review such a plan; otherwise it applies it.
    Review {
        /// The key to encrypt it with.
        key: PlanKey,
        /// Which plans people must review.
        required: ApprovalNeed,
    },
    /// It applies this plan, and makes none.
    Apply {
        /// The key that the plan was encrypted with.
        key: PlanKey,
        /// The attempt that has made it.
        attempt: u32,
        /// SHA-256 of its file.
        digest: Digest,
        /// In how many parts it is stored.
        parts: u32,
        /// How much it changes.
        summary: PlanSummary,
    },
}

/// The key of a deployment's plan, as 64 hexadecimal digits. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlanKey([u8; 32]);

impl PlanKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanKey(***)")
    }
}

/// The text is not a key of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of a plan has 64 hexadecimal digits")]
pub struct InvalidPlanKey;

impl TryFrom<String> for PlanKey {
    type Error = InvalidPlanKey;
    fn try_from(text: String) -> Result<Self, InvalidPlanKey> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidPlanKey)?;
        Ok(Self(bytes))
    }
}

impl From<PlanKey> for String {
    fn from(key: PlanKey) -> Self {
        hex::encode(key.0)
    }
}

/// One stored piece of a plan: `file-0`, `changes-0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum PlanPiece {
    /// A part of OpenTofu's plan file, from 0 on.
    File(u32),
    /// A page of its changes for people, from 0 on.
    Changes(u32),
}

/// The text names no piece of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a piece of a plan is `file-0` to `file-15` or `changes-0` to `changes-63`")]
pub struct InvalidPlanPiece;

impl fmt::Display for PlanPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(number) => write!(f, "file-{number}"),
            Self::Changes(number) => write!(f, "changes-{number}"),
        }
    }
}

impl FromStr for PlanPiece {
    type Err = InvalidPlanPiece;
    fn from_str(text: &str) -> Result<Self, InvalidPlanPiece> {
        let (kind, number) = text.split_once('-').ok_or(InvalidPlanPiece)?;
        let number = number.parse().map_err(|_| InvalidPlanPiece)?;
        let piece = match kind {
            "file" if number < MAX_PARTS => Self::File(number),
            "changes" if number < MAX_PAGES => Self::Changes(number),
            _ => return Err(InvalidPlanPiece),
        };
        // One name for each piece: `file-00` would be another object.
        if piece.to_string() == text { Ok(piece) } else { Err(InvalidPlanPiece) }
    }
}

impl TryFrom<String> for PlanPiece {
    type Error = InvalidPlanPiece;
    fn try_from(text: String) -> Result<Self, InvalidPlanPiece> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits_and_is_not_printed() {
        let text = "0f".repeat(32);
        let key = PlanKey::try_from(text.clone()).unwrap();
        assert_eq!(key.expose(), &[0x0f; 32]);
        assert_eq!(format!("{key:?}"), "PlanKey(***)");
        assert_eq!(String::from(key), text);
        for wrong in ["", "0f", &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(PlanKey::try_from(wrong.to_owned()), Err(InvalidPlanKey), "{wrong}");
        }
    }

    #[test]
    fn a_piece_has_one_name() {
        for piece in [PlanPiece::File(0), PlanPiece::File(15), PlanPiece::Changes(63)] {
            assert_eq!(piece.to_string().parse(), Ok(piece));
        }
        for wrong in ["file-16", "file-00", "file-+1", "changes-64", "file", "other-0", "file-0/.."]
        {
            assert_eq!(wrong.parse::<PlanPiece>(), Err(InvalidPlanPiece), "{wrong}");
        }
    }
}
