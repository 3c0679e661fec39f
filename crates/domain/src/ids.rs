//! Names that users choose, and ids that Canyon generates. Each is validated once, where it enters.
//!
//! The character sets are those of the published Platform Orchestrator API. They exclude `..`, `/`, NUL,
//! upper case and look-alike letters, so an id is safe in a key, a path or a name without another check.
//!
//! ```
//! use canyon_domain::ids::{ProjectId, RunnerId};
//!
//! let project: ProjectId = "payments/eu/api".parse()?;
//! assert_eq!(project.depth(), 3);
//! assert!("../etc".parse::<RunnerId>().is_err());
//! # Ok::<(), canyon_domain::ids::InvalidId>(())
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// Maximum length of a profile's name, in bytes, before and after interpolation.
pub const MAX_PROFILE_LENGTH: usize = 255;

/// Maximum length of an id that users choose, in bytes; a project path counts as one id.
pub const MAX_ID_LENGTH: usize = 63;
/// Maximum length of a project path, in bytes.
pub const MAX_PROJECT_LENGTH: usize = 200;

/// Maximum length of an agent's id, in bytes: the name of a Deployment's pod fits.
pub const MAX_AGENT_LENGTH: usize = 100;

/// Why a string is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {kind}: {rule}")]
pub struct InvalidId {
    kind: &'static str,
    /// The given text, shortened and with control characters escaped.
    given: String,
    rule: &'static str,
}

impl InvalidId {
    pub(crate) fn new(kind: &'static str, given: &str, rule: &'static str) -> Self {
        let shown: String = given.chars().take(80).collect();
        Self { kind, given: shown.escape_debug().to_string(), rule }
    }
}

/// `^[a-z](?:-?[a-z0-9]+)+$`: lower case words joined by single hyphens.
pub(crate) fn is_hyphenated(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && !text.contains("--")
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// `^[a-z][a-z0-9_-]+$`: the names of runners.
fn is_runner_name(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

/// In a URL `envs` follows the project. As the name of a project in a group it would be ambiguous where a
/// gateway has decoded the URL.
fn is_project_path(text: &str) -> bool {
    let good = |segment: &str| segment.len() <= MAX_ID_LENGTH && is_hyphenated(segment);
    text.split('/').all(good) && text.split('/').skip(1).all(|segment| segment != "envs")
}

/// `^[a-z0-9][a-z0-9._-]*$`: the names of hosts and pods.
fn is_host_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && !text.contains("..")
        && text.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.')
        })
}

/// `^[A-Za-z0-9][A-Za-z0-9._/-]*$`, without `..`, `//` and a `/` at the end: the possible values of a
/// runner's `profile` after interpolation.
fn is_profile_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !text.contains("..")
        && !text.contains("//")
        && !text.ends_with('/')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
}

/// Declares an id, in the file of what it names.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ids::InvalidId;
            fn from_str(text: &str) -> Result<Self, $crate::ids::InvalidId> {
                if text.len() <= $max && $check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err($crate::ids::InvalidId::new($kind, text, $rule))
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::ids::InvalidId;
            fn try_from(text: String) -> Result<Self, $crate::ids::InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(crate) use text_id;

text_id!(
    /// The name of an organization, as in every path.
    OrgId, "organization id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);
text_id!(
    /// A project, or a path of groups that ends in one: `payments/eu/api`.
    ProjectId, "project id", MAX_PROJECT_LENGTH, is_project_path,
    "use lower case letters, digits and single hyphens, starting with a letter, at least 2 characters; `/` \
     separates groups, and no project or group in a group has the name `envs`"
);
text_id!(
    /// An environment, unique within its project.
    EnvId, "environment id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);
text_id!(
    /// A kind of environment, such as `production`.
    EnvTypeId, "environment type id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);
text_id!(
    /// A runner.
    RunnerId, "runner id", MAX_ID_LENGTH, is_runner_name,
    "use 2 to 63 lower case letters, digits, hyphens and underscores, starting with a letter"
);
text_id!(
    /// A service account, which signs in with tokens of another issuer.
    ServiceAccountId, "service account id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

text_id!(
    /// An identity provider, whose people sign in.
    IdentityProviderId, "identity provider id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

text_id!(
    /// An agent, which launches jobs where Canyon cannot. Often it has the name of its host or pod.
    AgentId, "agent id", MAX_AGENT_LENGTH, is_host_name,
    "use 1 to 100 lower case letters, digits, hyphens, underscores and single dots, starting with a \
     letter or digit"
);

text_id!(
    /// A profile of runners.
    RunnerProfileId, "runner profile id", MAX_PROFILE_LENGTH, is_profile_name,
    "use 1 to 255 letters, digits, hyphens, underscores, single dots and slashes, starting with a letter \
     or digit"
);

impl OrgId {
    /// A name that is not a valid id, so no organization has it.
    pub fn none() -> Self {
        Self(String::new())
    }
}

/// What may follow a project in a URL, besides `envs`. A new project in a group has none of these names: API Gateway decodes the
/// `/` of its id, and then `pay/variables` would be both a project and the variables of `pay`.
pub const BELOW_PROJECT: [&str; 2] = ["variables", "git-credentials"];

impl ProjectId {
    /// Whether its id reads like a path below another project.
    pub fn is_like_a_path(&self) -> bool {
        self.0.rsplit_once('/').is_some_and(|(_, last)| BELOW_PROJECT.contains(&last))
    }

    /// The number of segments of the path: 1 for a plain project.
    pub fn depth(&self) -> usize {
        self.0.split('/').count()
    }

    /// The project's groups and the project itself, the outermost first.
    ///
    /// ```
    /// # use canyon_domain::ids::ProjectId;
    /// let project: ProjectId = "payments/eu/api".parse()?;
    /// let path: Vec<_> = project.path().map(|id| id.to_string()).collect();
    /// assert_eq!(path, ["payments", "payments/eu", "payments/eu/api"]);
    /// # Ok::<(), canyon_domain::ids::InvalidId>(())
    /// ```
    pub fn path(&self) -> impl Iterator<Item = Self> + '_ {
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        // Each part of a valid path up to a `/` is a valid path.
        ends.chain([self.0.len()]).map(|end| Self(self.0[..end].into()))
    }

    /// Whether `self` is `other`, or a group that contains `other`.
    ///
    /// ```
    /// # use canyon_domain::ids::ProjectId;
    /// let id = |text: &str| text.parse::<ProjectId>().unwrap();
    /// assert!(id("payments").contains(&id("payments/eu/api")));
    /// assert!(!id("payments").contains(&id("payments-eu")));
    /// ```
    pub fn contains(&self, other: &Self) -> bool {
        other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                // Only the canonical form: an id has one spelling in paths and keys.
                match Uuid::try_parse(text) {
                    Ok(uuid) if uuid.hyphenated().to_string() == text => Ok(Self(uuid)),
                    _ => Err(InvalidId::new(
                        stringify!($name),
                        text,
                        "use a UUID in its lower case hyphenated form",
                    )),
                }
            }
        }
    };
}

uuid_id!(
    /// The uuid of an organization, which is never reused. Every key starts with it, so that a reused name
    /// never leads to the former owner's data.
    OrgUuid
);
uuid_id!(
    /// The uuid of a runner, which is never reused: clouds trust the uuid, so a reused name is not trusted.
    RunnerUuid
);
uuid_id!(
    /// A check of a runner.
    RunnerCheckId
);
uuid_id!(
    /// The uuid of an environment, which is never reused; names its state.
    EnvUuid
);
uuid_id!(
    /// A deployment. Version 7: ids sort by their time of creation (RFC 9562, 5.7).
    DeploymentId
);
uuid_id!(
    /// A runner rule.
    RuleId
);
uuid_id!(
    /// A principal: a person, a machine, or Canyon itself.
    PrincipalId
);

impl DeploymentId {
    /// When the deployment was accepted, in milliseconds; `None` if its id is not of version 7.
    pub fn accepted_at(self) -> Option<Timestamp> {
        let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
        Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
    }

    /// Whether the deployment was accepted before `time`.
    pub fn accepted_before(self, time: Timestamp) -> bool {
        self.accepted_at().is_some_and(|at| at < time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_only_plain_lower_case_words() {
        let good = ["ab", "a1", "my-runner", "a-1-b"];
        let bad = [
            "", "a", "A1", "1a", "-ab", "ab-", "a--b", "a..b", "a/b", "a\0b", "аb", "ab\n", "a b",
            "a%2fb", "..",
        ];
        for text in good {
            assert!(text.parse::<EnvId>().is_ok(), "{text:?}");
        }
        for text in bad {
            assert!(text.parse::<EnvId>().is_err(), "{text:?}");
            assert!(text.parse::<OrgId>().is_err(), "{text:?}");
        }
        assert!("a".repeat(64).parse::<EnvId>().is_err());
        assert!("my_runner".parse::<RunnerId>().is_ok());
    }

    #[test]
    fn a_profile_may_be_a_path_with_dots() {
        for text in ["a", "A1", "eu/prod.v2", "a_b-c"] {
            assert!(text.parse::<RunnerProfileId>().is_ok(), "{text:?}");
        }
        for text in ["", "-a", "/a", "a/", "a//b", "a..b", "a b", "a\n", "\u{e4}"] {
            assert!(text.parse::<RunnerProfileId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_project_may_be_a_path_but_never_leaves_its_root() {
        assert_eq!("payments/eu/api".parse::<ProjectId>().unwrap().depth(), 3);
        for text in ["/a", "ab/", "ab//cd", "ab/../cd", "ab/.", "ab\\cd", "ab/envs"] {
            assert!(text.parse::<ProjectId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_uuid_has_one_spelling() {
        let text = "01234567-89ab-4def-8123-456789abcdef";
        assert!(text.parse::<DeploymentId>().is_ok());
        assert!(text.to_uppercase().parse::<DeploymentId>().is_err());
        assert!(text.replace('-', "").parse::<DeploymentId>().is_err());
    }

    #[test]
    fn a_refusal_names_the_value_without_repeating_control_characters() {
        insta::assert_snapshot!("a\u{1b}[31m".parse::<RunnerId>().unwrap_err(), @r"`a\u{1b}[31m` is not a valid runner id: use 2 to 63 lower case letters, digits, hyphens and underscores, starting with a letter");
    }
}
