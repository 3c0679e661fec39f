//! A fault of a policy, with its place in the text.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is wrong with a policy, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The name of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The line, from 1 on.
    #[serde(default)]
    pub line: u32,
    /// The column, from 1 on.
    #[serde(default)]
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl Fault {
    /// One without a place.
    pub(crate) fn of_whole(message: impl Into<String>) -> Self {
        Self { module: None, line: 0, column: 0, message: message.into() }
    }

    /// Reads an error of the interpreter. It draws the line, and a mark below it:
    ///
    /// ```text
    ///
    /// --> a.rego:2:24
    ///   |
    /// 2 | deny contains msg if { x > 1
    ///   |                        ^
    /// error: use of undefined variable `x` is unsafe
    /// ```
    pub(crate) fn read(error: &str) -> Self {
        let message = error.split_once("\nerror: ").map_or(error, |(_, message)| message);
        let message = message.lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
        let place = error.lines().find_map(|line| line.strip_prefix("--> "));
        let mut parts = place.into_iter().flat_map(|place| place.rsplitn(3, ':'));
        let column = parts.next().and_then(|digits| digits.parse().ok());
        let line = parts.next().and_then(|digits| digits.parse().ok());
        match (parts.next(), line, column) {
            (Some(module), Some(line), Some(column)) => {
                Self { module: Some(module.to_owned()), line, column, message }
            }
            _ => Self::of_whole(message),
        }
    }

    /// The place and the message, for a reader who knows the module.
    pub fn in_module(&self) -> String {
        let Self { line, column, message, .. } = self;
        format!("line {line}, column {column}: {message}")
    }
}

/// `a.rego:2:24: use of undefined variable`
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, line, column, message } = self;
        match module {
            Some(module) => write!(f, "{module}:{line}:{column}: {message}"),
            None => f.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_interpreter_gives_place_and_message() {
        let text = "\n--> a.rego:2:24\n  |\n2 | deny\n  |  ^\nerror: recursion detected:\n--> b.rego:4:1\n  |\nerror: x";
        assert_eq!(Fault::read(text).to_string(), "a.rego:2:24: recursion detected");
        assert_eq!(Fault::read("not a valid rule path").to_string(), "not a valid rule path");
        assert_eq!(Fault::read("--> a.rego\nerror: b").to_string(), "b");
    }
}
