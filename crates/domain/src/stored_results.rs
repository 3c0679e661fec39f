//! What a run left in the object store.

use serde::{Deserialize, Serialize};

/// What a run left in the object store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResults {
    /// Outputs that are not sensitive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outputs: bool,
    /// All outputs, encrypted to the caller's key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted_outputs: bool,
    /// Number of resources that may exist and are not in the state.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orphans: u32,
    /// They were read again after the attempt's end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late_orphans: bool,
}

impl StoredResults {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}
