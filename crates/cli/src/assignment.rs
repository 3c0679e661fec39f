//! `--set path=value`: one value at one place of a document.
//!
//! A path has keys and list positions: `runner_configuration.job.subnets[0]`. A backslash takes the
//! meaning from the next character, as in `labels.example\.com/team`. A list grows by one when the
//! position after its last item is set.

use crate::yaml::{self, Tree};
use serde_json::{Map, Value};
use std::fmt;

/// Where a value goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A member of an object.
    Key(String),
    /// A position in a list.
    Index(usize),
}

/// Why an assignment was refused. The value is never repeated: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub(crate) struct AssignmentError {
    /// The path as it was given.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) reason: String,
}

/// A path and the text that was given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Where.
    pub(crate) path: Vec<Step>,
    /// What, not yet interpreted.
    pub(crate) text: String,
}

/// What texts below these keys mean is decided by how they look; everything else at the top of a
/// request is text, so that `--set description=123` stays what was typed.
const CONFIGURATIONS: [&str; 4] =
    ["runner_configuration", "state_storage_configuration", "job", "agents"];

/// What is typed already at the top of a request: true, false, or `null` for "no limit".
const TYPED: [&str; 4] = ["disabled", "run_untagged_jobs", "migrate", "deletion_protection"];

impl Assignment {
    /// Takes `path=value` apart.
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

    /// The value: typed below a configuration, else the text itself.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when the text begins like a list, an object or a quotation, but is none.
    pub(crate) fn value(&self) -> Result<Value, AssignmentError> {
        let root = match self.path.first() {
            Some(Step::Key(key)) => key.as_str(),
            Some(Step::Index(_)) | None => "",
        };
        let is_inside = CONFIGURATIONS.contains(&root) && self.path.len() > 1;
        let value = if is_inside || TYPED.contains(&root) {
            typed(&self.text)
        } else if CONFIGURATIONS.contains(&root) {
            structured(&self.text)
        } else {
            Ok(Value::String(self.text.clone()))
        };
        value.map_err(|reason| self.refuse(reason))
    }

    /// Puts the value into `document`, making the objects and lists on the way.
    ///
    /// # Errors
    ///
    /// [`AssignmentError`] when something on the way is of another kind.
    pub(crate) fn apply(&self, document: &mut Value) -> Result<(), AssignmentError> {
        let value = self.value()?;
        let mut place = document;
        for step in &self.path {
            place = descend(place, step).map_err(|reason| self.refuse(reason))?;
        }
        *place = value;
        Ok(())
    }

    fn refuse(&self, reason: impl Into<String>) -> AssignmentError {
        AssignmentError { path: Path(&self.path).to_string(), reason: reason.into() }
    }
}

/// A text by its looks: `true`, `3` and `null` are values, quotes make text, brackets and braces
/// make lists and objects (YAML, and so JSON); anything else is text, with its `#` and `: `.
///
/// # Errors
///
/// Why it only looks like a list, an object, a quotation or a number.
pub(crate) fn typed(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::String(String::new()));
    }
    if text.starts_with(['[', '{', '"', '\'']) { structured(text) } else { Ok(yaml::typed(text)?) }
}

/// A text that may be a list, an object or a quotation, and is nothing but text otherwise.
///
/// # Errors
///
/// Why it only looks like one.
pub(crate) fn structured<T: Tree>(text: &str) -> Result<T, String> {
    if !text.starts_with(['[', '{', '"', '\'']) {
        return Ok(T::text(text.to_owned()));
    }
    yaml::parse(text, "value").map_err(|error| {
        format!("{} (column {}); put text that begins so in quotes", error.reason, error.column)
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
                return Err("a list position is written [0]");
            }
            steps.push(Step::Index(digits.parse().map_err(|_| "a list position is written [0]")?));
        }
        match rest.next() {
            None => return Ok(steps),
            Some('.') => {}
            Some(_) => return Err("a `.` must follow `]`"),
        }
    }
}

fn descend<'v>(place: &'v mut Value, step: &Step) -> Result<&'v mut Value, String> {
    if place.is_null() {
        *place = match step {
            Step::Key(_) => Value::Object(Map::new()),
            Step::Index(_) => Value::Array(Vec::new()),
        };
    }
    match (place, step) {
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
        (Value::Array(_), Step::Key(key)) => Err(format!("`{key}` is looked up in a list")),
        (_, Step::Key(key)) => {
            Err(format!("`{key}` is looked up in something that has no members"))
        }
        (_, Step::Index(_)) => {
            Err("a position is looked up in something that is no list".to_owned())
        }
    }
}

/// A path in the form in which it is given.
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
