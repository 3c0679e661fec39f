//! A plan that Canyon keeps: people review it, and a later run applies exactly that plan.
//!
//! The runner stores two things in the object store, encrypted under a key of the deployment: OpenTofu's plan file with the files
//! that planning has made in the module's folder, and the plan's changes for people, in pages. The deployment has only this record.

use crate::module_source::Digest;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Length of a part before it is encrypted, in bytes: a request to a Lambda function has at most 6 MiB of base64.
pub const PART_BYTES: usize = 4 * 1024 * 1024 - 1024;
/// Maximum number of parts of a plan file.
pub const MAX_PARTS: u32 = 16;
/// Maximum number of pages of changes.
pub const MAX_PAGES: u32 = 64;
/// How long a plan can be applied: afterwards what it has read of the world is too old.
pub const MAX_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What Canyon records of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPlan {
    /// The attempt that has made it.
    pub attempt: u32,
    /// SHA-256 of the plan file with those files, before its encryption.
    pub digest: Digest,
    /// How many parts its file has; 0 if it changes nothing.
    pub parts: u32,
    /// How many pages its changes have.
    pub pages: u32,
    /// Whether the pages are encrypted to the recipients of the deployment's log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// How much it changes.
    pub summary: PlanSummary,
}

/// How many resources a plan changes, by what it does to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanSummary {
    /// Created.
    #[serde(skip_serializing_if = "is_zero")]
    pub add: u32,
    /// Updated in place.
    #[serde(skip_serializing_if = "is_zero")]
    pub change: u32,
    /// Destroyed and created again.
    #[serde(skip_serializing_if = "is_zero")]
    pub replace: u32,
    /// Destroyed.
    #[serde(skip_serializing_if = "is_zero")]
    pub remove: u32,
    /// Taken into the state, also with changes.
    #[serde(skip_serializing_if = "is_zero")]
    pub import: u32,
    /// Given another address, also with changes.
    #[serde(rename = "move", skip_serializing_if = "is_zero")]
    pub moved: u32,
    /// Removed from the state and not destroyed.
    #[serde(skip_serializing_if = "is_zero")]
    pub forget: u32,
    /// Changed outside of OpenTofu since the last apply.
    #[serde(skip_serializing_if = "is_zero")]
    pub drift: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl PlanSummary {
    /// How many resources it destroys, also to create them again.
    pub fn destroyed(&self) -> u32 {
        self.remove.saturating_add(self.replace)
    }
}

impl std::fmt::Display for PlanSummary {
    /// Such as `1 to replace, 2 to destroy, 3 to add`: what destroys something comes first.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = [
            (self.replace, "to replace"),
            (self.remove, "to destroy"),
            (self.forget, "to forget"),
            (self.change, "to change"),
            (self.add, "to add"),
            (self.import, "to import"),
            (self.moved, "to move"),
        ];
        let said = counts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<_> = said.map(|(count, what)| format!("{count} {what}")).collect();
        if said.is_empty() { f.write_str("no changes") } else { f.write_str(&said.join(", ")) }
    }
}
