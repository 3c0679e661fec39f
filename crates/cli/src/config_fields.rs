//! The members of an object of the settings' file, and what is wrong with them.

use crate::suggestion;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Map, Value};

/// What is wrong with the file. No fault shows a value: it may be a token.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    pub(crate) fn add(&mut self, fault: String) {
        self.0.push(fault);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All faults as one text.
    pub(crate) fn text(&self) -> String {
        self.0.join("; ")
    }
}

/// Reads an object member by member.
pub(crate) struct Fields<'v> {
    path: String,
    members: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    /// The object `value` at `path`; a null is an empty object. `known` has the names of its members: every other name
    /// is a fault. A misspelt one would otherwise be ignored, and another server or organization used.
    pub(crate) fn new(
        value: &'v Value,
        path: &str,
        known: &[&str],
        faults: &mut Faults,
    ) -> Option<Self> {
        let fields = Self::of_any_name(value, path, faults)?;
        for name in fields.members.keys().filter(|name| !known.contains(&name.as_str())) {
            let shown = fields.path_of(name);
            faults.add(match suggestion::closest(name, known.iter().copied()).as_slice() {
                [] => format!("`{shown}` is not a setting (the settings are {})", listed(known)),
                [nearest, ..] => format!("`{shown}` is not a setting; did you mean `{nearest}`?"),
            });
        }
        Some(fields)
    }

    /// The same for an object whose members have names of the user.
    pub(crate) fn of_any_name(value: &'v Value, path: &str, faults: &mut Faults) -> Option<Self> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        let members = match value {
            Value::Object(members) => members,
            Value::Null => &EMPTY,
            _ => {
                let what = if path.is_empty() { "it".to_owned() } else { format!("`{path}`") };
                faults.add(format!("{what} is not an object with keys"));
                return None;
            }
        };
        Some(Self { path: path.to_owned(), members })
    }

    /// The path of the member `name`, without control characters.
    pub(crate) fn path_of(&self, name: &str) -> String {
        let name = name.escape_debug();
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }

    /// All members.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'v str, &'v Value)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// A member, unless it is absent or null.
    pub(crate) fn member(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str, faults: &mut Faults) -> Option<String> {
        let value = self.member(name)?;
        if !value.is_string() {
            faults.add(format!("`{}` is not a text: put it in quotes", self.path_of(name)));
        }
        value.as_str().map(str::to_owned)
    }

    /// A text that must be there; empty after a fault.
    pub(crate) fn required(&self, name: &str, faults: &mut Faults) -> String {
        if self.member(name).is_none() {
            faults.add(format!("`{}` is missing", self.path_of(name)));
        }
        self.text(name, faults).unwrap_or_default()
    }

    /// A secret text.
    pub(crate) fn secret(&self, name: &str, faults: &mut Faults) -> Option<SecretString> {
        self.text(name, faults).map(SecretString::from)
    }

    /// A time.
    pub(crate) fn time(&self, name: &str, faults: &mut Faults) -> Option<Timestamp> {
        let time = self.text(name, faults)?.parse().ok();
        if time.is_none() {
            let path = self.path_of(name);
            faults.add(format!("`{path}` is not a time such as 2026-01-31T12:00:00Z"));
        }
        time
    }
}

fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}
