//! Which audit records a reader asks for.

use crate::audit::AuditRecord;
use crate::ids::PrincipalId;
use jiff::Timestamp;
use std::fmt;
use std::str::FromStr;

/// The longest text of a filter.
const MAX_LENGTH: usize = 300;

/// Conditions that all hold for a record. Without any, each record matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only records of these actions.
    pub action: Option<ActionFilter>,
    /// Only records of this principal.
    pub by: Option<PrincipalId>,
    /// Only records about this resource, or one below it.
    pub subject: Option<SubjectFilter>,
    /// Only records of this time or later.
    pub since: Option<Timestamp>,
    /// Only records before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Whether the record fulfils every condition.
    pub fn matches(&self, record: &AuditRecord) -> bool {
        self.action.as_ref().is_none_or(|action| action.matches(&record.action))
            && self.by.is_none_or(|by| record.by == by)
            && self.subject.as_ref().is_none_or(|subject| subject.matches(&record.subject))
            && self.since.is_none_or(|since| record.at >= since)
            && self.until.is_none_or(|until| record.at < until)
    }

    /// Whether it leaves out records of its period.
    pub fn is_selective(&self) -> bool {
        self.action.is_some() || self.by.is_some() || self.subject.is_some()
    }
}

/// One action such as `runner.create`, or all of a kind: `runner` or `runner.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionFilter {
    kind: String,
    verb: Option<String>,
}

impl ActionFilter {
    fn matches(&self, action: &str) -> bool {
        let (kind, verb) = action.split_once('.').unwrap_or((action, ""));
        kind == self.kind && self.verb.as_ref().is_none_or(|wanted| verb == wanted)
    }
}

impl FromStr for ActionFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, verb) = match text.split_once('.') {
            None | Some((_, "*")) => (text.trim_end_matches(".*"), None),
            Some((kind, verb)) => (kind, Some(verb)),
        };
        let is_name = |part: &str| {
            let is_letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
            (1..=MAX_LENGTH).contains(&part.len()) && part.bytes().all(is_letter)
        };
        if !is_name(kind) || !verb.is_none_or(is_name) {
            return Err("takes an action such as `runner.create`, or a kind such as `runner` or \
                        `runner.*`, of lowercase letters, digits and `_`");
        }
        Ok(Self { kind: kind.to_owned(), verb: verb.map(str::to_owned) })
    }
}

impl fmt::Display for ActionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verb {
            Some(verb) => write!(f, "{}.{verb}", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// A resource's path, such as `projects/shop`. It matches `projects/shop/envs/dev` too, and not `projects/shopping`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectFilter(String);

impl SubjectFilter {
    fn matches(&self, subject: &str) -> bool {
        let rest = subject.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for SubjectFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_part = |part: &str| !part.is_empty() && !part.chars().any(char::is_control);
        if text.len() > MAX_LENGTH || !text.split('/').all(is_part) {
            return Err(
                "is a path such as `projects/shop/envs/dev`, without `/` at its ends, of at most 300 bytes",
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SubjectFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_or_all_of_a_kind_match() {
        for (filter, matching, other) in [
            ("runner.create", "runner.create", "runner.delete"),
            ("runner", "runner.delete", "runner_rule.delete"),
            ("runner.*", "runner.delete", "runner_rule.delete"),
            ("state_lock", "state_lock.break", "state.break"),
            ("deployment.state_unwritten", "deployment.state_unwritten", "deployment.state"),
        ] {
            let parsed: ActionFilter = filter.parse().unwrap();
            assert!(parsed.matches(matching), "{filter}");
            assert!(!parsed.matches(other), "{filter}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{filter}");
        }
        for wrong in ["", ".", ".*", "*", "runner.", "runner.*.*", "Runner", "a.b.c", "a b"] {
            assert!(wrong.parse::<ActionFilter>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_subject_matches_itself_and_what_is_below_it() {
        let shop: SubjectFilter = "projects/shop".parse().unwrap();
        for (subject, expected) in [
            ("projects/shop", true),
            ("projects/shop/envs/dev", true),
            ("projects/shopping", false),
            ("projects", false),
            ("runners/projects/shop", false),
        ] {
            assert_eq!(shop.matches(subject), expected, "{subject}");
        }
        for wrong in ["", "/", "/projects", "projects/", "a//b", "a\nb", &"x".repeat(301)] {
            assert!(wrong.parse::<SubjectFilter>().is_err(), "{wrong:?}");
        }
    }
}
