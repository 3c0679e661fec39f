//! Groups of people. A group means something only at its issuer, so outside of an identity provider it is named together with that.

use crate::ids::{IdentityProviderId, InvalidId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum length of the name of a group, in bytes.
pub const MAX_GROUP: usize = 256;

/// A group at the issuer of an identity provider, written `PROVIDER/GROUP`. The group is compared literally, and may have slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProviderGroup {
    /// The identity provider.
    pub provider: IdentityProviderId,
    /// The group, as the issuer writes it.
    pub group: String,
}

/// Why a text names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroup {
    /// It names no identity provider.
    #[error("names no identity provider: write PROVIDER/GROUP, such as `okta/leads`")]
    NoProvider,
    /// The text before the first slash is the id of no identity provider.
    #[error("is PROVIDER/GROUP: {0}")]
    Provider(#[from] InvalidId),
    /// The text after the first slash is the name of no group.
    #[error("is PROVIDER/GROUP: the group has 1 to {MAX_GROUP} bytes, and no control characters")]
    Group,
}

/// Whether a text may be the name of a group at an issuer.
pub fn is_group(text: &str) -> bool {
    (1..=MAX_GROUP).contains(&text.len()) && !text.contains(char::is_control)
}

impl FromStr for ProviderGroup {
    type Err = InvalidGroup;

    fn from_str(text: &str) -> Result<Self, InvalidGroup> {
        let (provider, group) = text.split_once('/').ok_or(InvalidGroup::NoProvider)?;
        let provider = provider.parse()?;
        if is_group(group) {
            Ok(Self { provider, group: group.to_owned() })
        } else {
            Err(InvalidGroup::Group)
        }
    }
}

impl TryFrom<String> for ProviderGroup {
    type Error = InvalidGroup;

    fn try_from(text: String) -> Result<Self, InvalidGroup> {
        text.parse()
    }
}

impl From<ProviderGroup> for String {
    fn from(group: ProviderGroup) -> String {
        group.to_string()
    }
}

impl fmt::Display for ProviderGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.group)
    }
}

/// The groups of a person who has signed in, as far as the provider has rules for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// By which identity provider the person has signed in.
    pub provider: &'a IdentityProviderId,
    /// The groups, as the issuer writes them.
    pub groups: &'a [String],
}

impl Membership<'_> {
    /// The groups, each with its provider.
    pub fn names(&self) -> impl Iterator<Item = ProviderGroup> {
        let provider = self.provider;
        let of = move |group: &String| ProviderGroup {
            provider: provider.clone(),
            group: group.clone(),
        };
        self.groups.iter().map(of)
    }

    /// Whether the person is in `group`. A group of the same name at another provider is another one.
    pub fn is_in(&self, group: &ProviderGroup) -> bool {
        *self.provider == group.provider && self.groups.contains(&group.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_with_its_provider_and_reads_back() {
        for (text, group) in [
            ("okta/leads", "leads"),
            ("okta//shop/leads", "/shop/leads"),
            ("okta/Domain Admins", "Domain Admins"),
            ("okta/ü", "ü"),
        ] {
            let read: ProviderGroup = text.parse().unwrap();
            assert_eq!((read.provider.as_str(), read.group.as_str()), ("okta", group));
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(written, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<ProviderGroup>(&written).unwrap(), read);
        }
    }

    #[test]
    fn a_text_that_names_no_group_is_refused_with_the_reason() {
        let longest = format!("okta/{}", "x".repeat(MAX_GROUP));
        assert!(longest.parse::<ProviderGroup>().is_ok());
        let too_long = format!("{longest}x");
        for (text, part) in [
            ("leads", "write PROVIDER/GROUP"),
            ("", "write PROVIDER/GROUP"),
            ("/leads", "identity provider id"),
            ("Okta/leads", "identity provider id"),
            ("okta/", "1 to 256 bytes"),
            ("okta/a\nb", "no control characters"),
            (too_long.as_str(), "1 to 256 bytes"),
        ] {
            let refused = text.parse::<ProviderGroup>().unwrap_err().to_string();
            assert!(refused.contains(part), "{text:?}: {refused}");
        }
    }

    #[test]
    fn a_person_is_in_a_group_of_the_own_provider_alone() {
        let (okta, other) = ("okta".parse().unwrap(), "other".parse().unwrap());
        let groups = ["leads".to_owned()];
        let of = |provider| Membership { provider, groups: &groups };
        let leads: ProviderGroup = "okta/leads".parse().unwrap();
        assert!(of(&okta).is_in(&leads));
        assert!(!of(&other).is_in(&leads));
        for another in ["okta/lead", "okta/Leads", "okta/leads/x"] {
            assert!(!of(&okta).is_in(&another.parse().unwrap()), "{another}");
        }
    }
}
