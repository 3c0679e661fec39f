//! Faults and warnings of a request's values, field by field.
//!
//! All faults of a body are collected, so that one answer names them all. A reason never repeats the value:
//! users may paste a secret into the wrong field.
//!
//! A warning is about a value that the published API accepts and that cannot work: it is stored, and
//! validated again before its use. See `docs/decisions/0044-the-published-schema-is-the-border.md`.

use serde::Serialize;
use std::fmt;

/// Maximum number of faults in one answer. Without it, the answer to a body with many faults would be several
/// times longer than the body.
const MAX_LISTED: usize = 50;

/// One fault or warning: the path of the value, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Path from the root of the body: `runner_configuration.job.subnets[2]`. Empty for the body.
    pub path: String,
    /// The reason, without the value. It continues a sentence after the path.
    pub reason: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "the body {}", self.reason)
        } else {
            write!(f, "`{}` {}", self.path, self.reason)
        }
    }
}

/// The faults and the warnings of one value, in the order of finding; at most 50 of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FieldErrors {
    faults: Vec<FieldError>,
    #[serde(skip)]
    warnings: Vec<FieldError>,
    /// There were more warnings than are listed.
    #[serde(skip)]
    has_unlisted_warnings: bool,
}

impl FieldErrors {
    /// Notes one more fault.
    pub fn add(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        push(&mut self.faults, path.into(), reason.into());
    }

    /// Notes one more warning.
    pub fn warn(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.has_unlisted_warnings |= self.warnings.len() == MAX_LISTED;
        push(&mut self.warnings, path.into(), reason.into());
    }

    /// Notes all of `other`, which was found in the value at `path`.
    pub fn add_under(&mut self, path: &str, other: FieldErrors) {
        for fault in other.faults {
            self.add(join(path, &fault.path), fault.reason);
        }
        for warning in other.warnings {
            self.warn(join(path, &warning.path), warning.reason);
        }
        self.has_unlisted_warnings |= other.has_unlisted_warnings;
    }

    /// Whether there were more warnings than [`Self::warnings`] lists.
    pub fn has_unlisted_warnings(&self) -> bool {
        self.has_unlisted_warnings
    }

    /// The warnings.
    pub fn warnings(&self) -> &[FieldError] {
        &self.warnings
    }

    /// Turns the warnings into faults, for callers that accept no value that cannot work.
    #[must_use]
    pub fn into_faults(mut self) -> Self {
        for warning in std::mem::take(&mut self.warnings) {
            self.add(warning.path, warning.reason);
        }
        self
    }

    /// Turns the faults into warnings, for faults that harm only the author of the value.
    #[must_use]
    pub fn into_warnings(mut self) -> Self {
        for fault in std::mem::take(&mut self.faults) {
            self.warn(fault.path, fault.reason);
        }
        self
    }

    /// The same without the faults that stand at exactly one of `paths`.
    #[must_use]
    pub(crate) fn without_faults_at(mut self, paths: &[String]) -> Self {
        self.faults.retain(|fault| !paths.contains(&fault.path));
        self
    }

    /// The faults with their paths below `path`, for a reader who gave only the value there.
    #[must_use]
    pub(crate) fn below(self, path: &str) -> Self {
        let mut own = Self::default();
        for fault in self.faults {
            let below = fault.path.strip_prefix(path).unwrap_or(&fault.path);
            own.add(below.trim_start_matches('.'), fault.reason);
        }
        own
    }

    /// Whether no fault was found.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.faults.iter()
    }

    /// `value`, if no fault was found.
    ///
    /// # Errors
    /// The faults, if there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.faults.is_empty() { Ok(value) } else { Err(self) }
    }
}

fn push(list: &mut Vec<FieldError>, path: String, reason: String) {
    if list.len() < MAX_LISTED {
        list.push(FieldError { path, reason });
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

/// The path of `inner` below `outer`: `a` and `b` give `a.b`, `a` and `[0]` give `a[0]`.
pub(crate) fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", path) | (path, "") => path.to_owned(),
        (outer, index) if index.starts_with('[') => format!("{outer}{index}"),
        (outer, name) => format!("{outer}.{name}"),
    }
}

/// `text` for use in a message: shortened, and with control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    short.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_listed_with_their_paths() {
        let mut inner = FieldErrors::default();
        inner.add("[2]", "is too long");
        inner.add("", "must be a list");
        let mut errors = FieldErrors::default();
        errors.add_under("job.subnets", inner);
        errors.add("", "must be an object");
        insta::assert_snapshot!(errors, @"`job.subnets[2]` is too long; `job.subnets` must be a list; the body must be an object");
    }

    #[test]
    fn a_body_with_many_faults_gets_a_short_answer() {
        let mut errors = FieldErrors::default();
        (0..100_000).for_each(|n| errors.add(n.to_string(), "is unknown"));
        assert_eq!(errors.iter().count(), MAX_LISTED);
    }
}
