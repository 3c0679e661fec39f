//! Which events on the bus may deploy, and as which principal.
//!
//! An [`EventSource`] lets the events of an AWS account act as a deployer of one organization. It can be
//! limited to one `source`, to one rule of the bus, and to one project or group. Each event source is a
//! grant: a narrower one takes nothing away from a wider one. If several cover a request, the most specific
//! one is the principal.
//!
//! Only `account` is trusted. EventBridge sets it; a caller of `PutEvents` cannot (API reference of
//! `PutEventsRequestEntry`: it has no such member), and it stays that of the first sender when a bus forwards
//! the event to another account. The sender sets `source`, so it distinguishes the parts of one account and
//! proves nothing.

use crate::ids::{MAX_ID_LENGTH, PrincipalId, ProjectId, is_hyphenated, text_id};
use crate::principal::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

text_id!(
    /// An event source: a grant to deploy through the event bus.
    EventSourceId, "event source id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

/// "Requests to deploy in this scope act as this principal."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// Its name.
    pub id: EventSourceId,
    /// Its uuid, which is the principal's id in audit records. Unlike the name, a uuid is never reused.
    pub uuid: Uuid,
    /// Whose requests it covers, and to which projects.
    pub scope: Scope,
    /// What they may do.
    pub role: Role,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with each change.
    pub version: u64,
}

impl EventSource {
    /// The principal of its requests.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(self.uuid)
    }
}

/// The requests that an event source covers. `None` means "any".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The account that sent the event.
    pub account: AccountId,
    /// The `source` of the event, which its sender sets.
    pub source: Option<SourceName>,
    /// The rule that forwarded the event to Canyon.
    pub rule: Option<RuleRef>,
    /// Only this project, or the projects of this group.
    pub project: Option<ProjectId>,
}

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The account that sent it.
    pub account: &'a str,
    /// Its `source`, which the sender sets.
    pub source: &'a str,
    /// The ARN of the rule that forwarded it, if known.
    pub rule: Option<&'a str>,
}

/// How specific a scope is. The derived order is the precedence: the rule, which Canyon's own account sets,
/// counts more than the source, which the sender sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    /// 2 for the ARN of a rule, 1 for its name, 0 for any.
    pub rule: u8,
    /// Whether it names a source.
    pub names_source: bool,
    /// Number of segments of its project path; 0 without a project.
    pub project_depth: usize,
}

impl Scope {
    /// Whether it covers events from `origin`, for any project.
    pub fn admits(&self, origin: Origin<'_>) -> bool {
        self.account.as_str() == origin.account
            && self.source.as_ref().is_none_or(|source| source.as_str() == origin.source)
            && self.rule.as_ref().is_none_or(|rule| origin.rule.is_some_and(|arn| rule.is(arn)))
    }

    /// Whether it covers requests from `origin` for `project`.
    pub fn covers(&self, origin: Origin<'_>, project: &ProjectId) -> bool {
        self.admits(origin) && self.project.as_ref().is_none_or(|own| own.contains(project))
    }

    /// How specific this scope is.
    pub fn specificity(&self) -> Specificity {
        Specificity {
            rule: match &self.rule {
                None => 0,
                Some(rule) if rule.is_arn() => 2,
                Some(_) => 1,
            },
            names_source: self.source.is_some(),
            project_depth: self.project.as_ref().map_or(0, ProjectId::depth),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "account `{}`", self.account)?;
        if let Some(source) = &self.source {
            write!(f, ", source `{source}`")?;
        }
        if let Some(rule) = &self.rule {
            write!(f, ", rule `{rule}`")?;
        }
        if let Some(project) = &self.project {
            write!(f, ", project `{project}`")?;
        }
        Ok(())
    }
}

/// The most specific of `sources` that admits events from `origin`, in any order. Projects are ignored: this
/// identifies the sender, and does not authorize it.
pub fn sender<'s>(sources: &'s [EventSource], origin: Origin<'_>) -> Option<&'s EventSource> {
    most_specific(sources.iter().filter(|source| source.scope.admits(origin)))
}

/// The most specific of `sources` that lets `origin` deploy to `project`.
pub fn choose<'s>(
    sources: &'s [EventSource],
    origin: Origin<'_>,
    project: &ProjectId,
) -> Option<&'s EventSource> {
    most_specific(sources.iter().filter(|source| source.scope.covers(origin, project)))
}

/// Two covering scopes are equally specific only if they are equal, and the table keeps one of each. Scopes
/// that only admit may differ in their projects; then the name decides, not the order of the list.
fn most_specific<'s>(sources: impl Iterator<Item = &'s EventSource>) -> Option<&'s EventSource> {
    sources.max_by(|a, b| {
        a.scope.specificity().cmp(&b.scope.specificity()).then_with(|| b.id.cmp(&a.id))
    })
}

/// Why a text is refused. The message continues after the name of the field and does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(&'static str);

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;
            fn from_str(text: &str) -> Result<Self, InvalidText> {
                if $check(text) { Ok(Self(text.to_owned())) } else { Err(InvalidText($rule)) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidText;
            fn try_from(text: String) -> Result<Self, InvalidText> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(
    /// An AWS account.
    AccountId, is_account, "must be the 12 digits of an AWS account"
);
text!(
    /// The `source` of events. Only those of AWS services begin with `aws.`
    /// (`EventBridge` User Guide, "Event structure reference").
    SourceName, is_source,
    "must be the `source` of events: 1 to 256 printable ASCII characters, not beginning with `aws.`"
);
text!(
    /// A rule of an event bus: its name, or its ARN.
    RuleRef, is_rule,
    "must be the name of an EventBridge rule (letters, digits, `.`, `_` and `-`), or its ARN"
);

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_source(text: &str) -> bool {
    (1..=256).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b' '..=b'~'))
        && text.trim() == text
        && !text.starts_with("aws.")
}

/// `[\.\-_A-Za-z0-9]+` and at most 64 characters: API reference of `PutRule`.
fn is_rule_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// `arn:<partition>:events:<region>:<account>:rule/[<bus>/]<name>`; a bus of a partner has `/` in
/// its name.
fn is_rule(text: &str) -> bool {
    if !text.starts_with("arn:") {
        return is_rule_name(text);
    }
    let parts: Vec<_> = text.splitn(6, ':').collect();
    let [_, partition, "events", region, account, resource] = parts[..] else { return false };
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(is_name_byte);
    let Some(path) = resource.strip_prefix("rule/") else { return false };
    let name = path.rsplit('/').next().unwrap_or(path);
    text.len() <= 1_600
        && is_name(partition)
        && is_name(region)
        && is_account(account)
        && path.split('/').all(is_name)
        && is_rule_name(name)
}

impl RuleRef {
    /// Whether it also names the bus and the account of the rule.
    pub fn is_arn(&self) -> bool {
        self.0.starts_with("arn:")
    }

    /// Whether it is the rule with this ARN.
    pub fn is(&self, arn: &str) -> bool {
        if self.is_arn() { self.0 == arn } else { arn.rsplit('/').next() == Some(self.as_str()) }
    }
}

#[cfg(test)]
#[path = "event_source_tests.rs"]
mod tests;
