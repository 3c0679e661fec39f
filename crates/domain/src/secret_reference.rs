//! A reference to a secret that a store keeps: Canyon knows where the value is, and never the value.

use crate::ids::{MAX_ID_LENGTH, is_hyphenated, text_id};
use serde::{Deserialize, Serialize};
use std::fmt;

text_id!(
    /// A secret store of an organization.
    SecretStoreId, "secret store id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

/// The longest reference, in bytes: the ARN of a secret has at most 2,048.
const MAX_REF: usize = 2048;
/// The longest version, in bytes.
const MAX_VERSION: usize = 128;

/// Which secret of which store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretReference {
    /// The store.
    pub store: SecretStoreId,
    /// The name of the secret in its store. After a `#` follows the name of one member, if the secret is a JSON object.
    #[serde(rename = "ref")]
    pub locator: String,
    /// The version; the current one if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl SecretReference {
    /// The name of the secret in its store, and the member if there is one.
    pub fn parts(&self) -> (&str, Option<&str>) {
        match self.locator.rsplit_once('#') {
            Some((name, member)) => (name, Some(member)),
            None => (&self.locator, None),
        }
    }

    /// What no store accepts: the fields below the reference, and the reasons.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let (name, member) = self.parts();
        if name.is_empty() || self.locator.len() > MAX_REF || has_unseen(&self.locator) {
            let reason =
                format!("has 1 to {MAX_REF} bytes, without control characters or spaces around it");
            faults.push(("ref", reason));
        } else if member == Some("") {
            faults.push(("ref", "ends with `#`: the name of a member follows it".to_owned()));
        }
        let is_version = |text: &str| {
            !text.is_empty()
                && text.len() <= MAX_VERSION
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if self.version.as_deref().is_some_and(|text| !is_version(text)) {
            let reason = format!("has 1 to {MAX_VERSION} letters, digits, `-`, `_` and `.`");
            faults.push(("version", reason));
        }
        faults
    }
}

fn has_unseen(text: &str) -> bool {
    text.trim() != text || text.contains(char::is_control)
}

/// As people read it: `team-vault: shop/db#password`, with the version if it has one.
impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, locator, version } = self;
        write!(f, "{store}: {locator}")?;
        match version {
            Some(version) => write!(f, " (version {version})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(locator: &str, version: Option<&str>) -> SecretReference {
        SecretReference {
            store: "vault".parse().unwrap(),
            locator: locator.to_owned(),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn a_member_follows_the_last_hash() {
        assert_eq!(reference("shop/db", None).parts(), ("shop/db", None));
        assert_eq!(reference("a#b#password", None).parts(), ("a#b", Some("password")));
    }

    #[test]
    fn what_no_store_has_is_refused() {
        for (locator, version, field) in [
            ("", None, "ref"),
            ("#password", None, "ref"),
            ("shop/db#", None, "ref"),
            (" shop", None, "ref"),
            ("a\nb", None, "ref"),
            ("shop", Some(""), "version"),
            ("shop", Some("1&x=2"), "version"),
        ] {
            let faults = reference(locator, version).faults();
            assert_eq!(faults.len(), 1, "{locator:?} {version:?}");
            assert_eq!(faults[0].0, field);
        }
        assert!(
            reference(
                "arn:aws:secretsmanager:eu-central-1:1:secret:x-a1b2c3#k",
                Some("AWSPREVIOUS")
            )
            .faults()
            .is_empty()
        );
    }
}
