//! `--set path=value`: sets one value of a document.
//!
//! A path has keys and list indexes: `runner_configuration.job.subnets[0]`. A backslash escapes the
//! next character, as in `labels.example\.com/team`. Setting the index after a list's last item
//! appends an item.

use canyon_domain::yaml::{self, Tree};
use serde_json::{Map, Value};
use std::fmt;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The name of a member of an object.
    Key(String),
    /// An index of a list.
    Index(usize),
}

/// Why an assignment was refused. The error never repeats the value: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub(crate) struct AssignmentError {
    /// The path as it was given.
    pub(crate) path: String,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// A path and the text of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The path.
    pub(crate) path: Vec<Step>,
    /// The value's text, not yet interpreted.
    pub(crate) text: String,
}

/// Below these keys, a text's form decides its type. Every other member at the top of a request is
/// text, so that `--set description=123` keeps the text as typed.
const CONFIGURATIONS: [&str; 7] = [
    "runner_configuration",
    "state_storage_configuration",
    "store_configuration",
    "credentials",
    "job",
    "agents",
    "spec",
];

/// The members at the top of a request that are lists or objects themselves.
const STRUCTURED: [&str; 7] = [
    "fallback_runner_ids",
    "labels",
    "rules",
    "runner_types",
    "scoped_roles",
    "scopes",
    "trust_policies",
];

/// The members at the top of a request that are typed too: true, false, or `null` for "no limit".
const TYPED: [&str; 9] = [
    "disabled",
    "run_untagged_jobs",
    "migrate",
    "deletion_protection",
    "approval",
    "enabled",
    "every_seconds",
    "reconcile",
    "policy",
];

impl Assignment {
    /// Splits `path=value`.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when there is no `=` or the path is malformed.
    pub(crate) fn parse(given: &str) -> Result<Self, AssignmentError> {
        let end = unescaped_equals(given).ok_or_else(|| AssignmentError {
            // Without `=`, a secret may stand where the path should.
            path: String::from("..."),
            reason: "write it as path=value".to_owned(),
        })?;
        let (path, text) = (&given[..end], given[end + 1..].to_owned());
        let steps = steps(path).map_err(|reason| AssignmentError {
            path: path.to_owned(),
            reason: reason.to_owned(),
        })?;
        Ok(Self { path: steps, text })
    }

    /// The value: typed below a configuration, otherwise the text itself.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when the text begins like a list, an object or a quoted text, but is invalid.
    pub(crate) fn value(&self) -> Result<Value, AssignmentError> {
        let root = match self.path.first() {
            Some(Step::Key(key)) => key.as_str(),
            Some(Step::Index(_)) | None => "",
        };
        let is_inside = CONFIGURATIONS.contains(&root) && self.path.len() > 1;
        let value = if is_inside || TYPED.contains(&root) {
            typed(&self.text)
        } else if CONFIGURATIONS.contains(&root) || STRUCTURED.contains(&root) {
            structured(&self.text)
        } else {
            Ok(Value::String(self.text.clone()))
        };
        value.map_err(|reason| self.refuse(reason))
    }

    /// Sets the value in `document`, and creates the objects and lists that its path needs.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when a value on the path has another type than the path needs.
    pub(crate) fn apply(&self, document: &mut Value) -> Result<(), AssignmentError> {
        let value = self.value()?;
        let mut target = document;
        for step in &self.path {
            target = descend(target, step).map_err(|reason| self.refuse(reason))?;
        }
        *target = value;
        Ok(())
    }

    fn refuse(&self, reason: impl Into<String>) -> AssignmentError {
        AssignmentError { path: Path(&self.path).to_string(), reason: reason.into() }
    }
}

/// Types a text by its form: `true`, `3` and `null` are values, quotes make text, brackets and braces
/// make lists and objects (YAML, and therefore JSON). Anything else is text, with its `#` and `: `.
///
/// # Errors
///
/// Why the text, which begins like a list, an object, a quoted text or a number, is none.
pub(crate) fn typed(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::String(String::new()));
    }
    if text.starts_with(['[', '{', '"', '\'']) { structured(text) } else { Ok(yaml::typed(text)?) }
}

/// Types a text that may be a list, an object or a quoted text; any other text stays text.
///
/// # Errors
///
/// Why the text, which begins like one of them, is invalid.
pub(crate) fn structured<T: Tree>(text: &str) -> Result<T, String> {
    if !text.starts_with(['[', '{', '"', '\'']) {
        return Ok(T::text(text.to_owned()));
    }
    yaml::parse(text, "value").map_err(|error| {
        format!(
            "{} (column {}); put text that begins like this in quotes",
            error.reason, error.column
        )
    })
}

fn unescaped_equals(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let here = c == '=' && !escaped;
        escaped = c == '\\' && !escaped;
        here.then_some(at)
    })
}

fn steps(path: &str) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = path.chars().peekable();
    loop {
        let mut key = String::new();
        while let Some(c) = rest.next_if(|c| !matches!(c, '.' | '[')) {
            let c = if c == '\\' { rest.next().ok_or("ends in a backslash")? } else { c };
            key.push(c);
        }
        if key.is_empty() {
            return Err("has an empty key");
        }
        steps.push(Step::Key(key));
        while rest.next_if_eq(&'[').is_some() {
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            if rest.next() != Some(']') {
                return Err("a list index is written [0]");
            }
            steps.push(Step::Index(digits.parse().map_err(|_| "a list index is written [0]")?));
        }
        match rest.next() {
            None => return Ok(steps),
            Some('.') => {}
            Some(_) => return Err("a `.` must follow `]`"),
        }
    }
}

fn descend<'v>(target: &'v mut Value, step: &Step) -> Result<&'v mut Value, String> {
    if target.is_null() {
        *target = match step {
            Step::Key(_) => Value::Object(Map::new()),
            Step::Index(_) => Value::Array(Vec::new()),
        };
    }
    match (target, step) {
        (Value::Object(members), Step::Key(key)) => {
            Ok(members.entry(key.clone()).or_insert(Value::Null))
        }
        (Value::Array(items), Step::Index(index)) => {
            let count = items.len();
            if *index == count {
                items.push(Value::Null);
            }
            items
                .get_mut(*index)
                .ok_or_else(|| format!("the list has {count} items; the next one is [{count}]"))
        }
        (Value::Array(_), Step::Key(key)) => {
            Err(format!("`{key}` names a member, but the value is a list"))
        }
        (_, Step::Key(key)) => {
            Err(format!("`{key}` names a member, but the value is not an object"))
        }
        (_, Step::Index(_)) => Err("an index needs a list, but the value is not one".to_owned()),
    }
}

/// Formats a path as `--set` accepts it.
struct Path<'p>(&'p [Step]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    f.write_str(if position == 0 { "" } else { "." })?;
                    for c in key.chars() {
                        let special = matches!(c, '.' | '[' | '=' | '\\');
                        write!(f, "{}{c}", if special { "\\" } else { "" })?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
