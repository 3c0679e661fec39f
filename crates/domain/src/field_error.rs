//! What is wrong with a value that someone sent, field by field.
//!
//! All faults of a body are collected, so that one answer names them all. A reason never repeats
//! the value: people paste secrets into the wrong field.

use serde::Serialize;
use std::fmt;

/// Most faults that one answer lists. A body made of nothing but faults would otherwise be
/// answered with several times its own size.
const MAX_LISTED: usize = 50;

/// One fault: where it is and why the value there is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Where, from the root of the body: `runner_configuration.job.subnets[2]`. Empty for the body.
    pub path: String,
    /// Why, without the value; reads on after the path.
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

/// All the faults that were found in one value, in the order of finding; at most 50.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Notes one more fault.
    pub fn add(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        if self.0.len() < MAX_LISTED {
            self.0.push(FieldError { path: path.into(), reason: reason.into() });
        }
    }

    /// Notes all of `other`, which was found in the value at `path`.
    pub fn add_under(&mut self, path: &str, other: FieldErrors) {
        for error in other.0 {
            self.add(join(path, &error.path), error.reason);
        }
    }

    /// Whether no fault was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.iter()
    }

    /// `value`, if no fault was found.
    ///
    /// # Errors
    /// The faults, if there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
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
        for (index, error) in self.0.iter().enumerate() {
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

/// `text` as it may stand in a message: shortened, and with control characters escaped.
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
    fn a_body_of_nothing_but_faults_gets_a_short_answer() {
        let mut errors = FieldErrors::default();
        (0..100_000).for_each(|n| errors.add(n.to_string(), "is unknown"));
        assert_eq!(errors.iter().count(), MAX_LISTED);
    }
}
