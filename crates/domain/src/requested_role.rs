//! The named role that a request to deploy asks for, instead of the roles of the job's classes.

use crate::ids::{MAX_ID_LENGTH, is_hyphenated, text_id};
use serde::{Deserialize, Serialize};

/// Names with a meaning of their own in the claim `role` of tokens: the classes of jobs, also of later versions.
const RESERVED: [&str; 6] = ["plan", "apply", "destroy", "action", "sync", "check"];

/// Maximum length of a reason, in bytes: it is stored with the deployment.
pub const MAX_REASON: usize = 300;

/// Whether a named role can have this name. No name contains a colon, which separates the parts of a token's subject.
pub(crate) fn is_role_name(text: &str) -> bool {
    is_hyphenated(text) && !RESERVED.contains(&text)
}

text_id!(
    /// The name of a named role of a runner.
    RoleName, "name of a role", MAX_ID_LENGTH, is_role_name,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter; not `plan`, `apply`, `destroy`, \
     `action`, `sync` or `check`"
);

/// The role that a deployment has, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedRole {
    /// Its name.
    pub name: RoleName,
    /// Why it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RequestedRole {
    /// For audit records.
    pub fn details(&self) -> Vec<String> {
        let reason = self.reason.as_ref().map(|reason| format!("reason: {reason}"));
        std::iter::once(format!("role: {}", self.name)).chain(reason).collect()
    }
}

/// What is wrong with the text of a reason.
pub fn reason_fault(reason: &str) -> Option<String> {
    let has_text = !reason.trim().is_empty();
    let fits = reason.len() <= MAX_REASON && !reason.chars().any(char::is_control);
    (!has_text || !fits)
        .then(|| format!("must be a text of at most {MAX_REASON} bytes, in one line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_not_named_like_a_class_and_has_no_colon() {
        for name in RESERVED.into_iter().chain(["a", "a:b", "A-b", "a--b", "-ab", ""]) {
            assert!(name.parse::<RoleName>().is_err(), "{name}");
        }
        for name in ["break-glass", "plans", "b2"] {
            assert!(name.parse::<RoleName>().is_ok(), "{name}");
        }
    }

    #[test]
    fn a_reason_is_one_line_of_text() {
        for reason in ["", "  ", "a\nb", &"a".repeat(MAX_REASON + 1)] {
            assert!(reason_fault(reason).is_some(), "{reason:?}");
        }
        assert_eq!(reason_fault("incident 12: the database is full"), None);
    }
}
