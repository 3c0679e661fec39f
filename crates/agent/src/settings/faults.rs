//! What is wrong with the settings, all of it at once. Values are not repeated: any may be a secret.

use std::fmt;

/// What is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<(String, String)>);

impl Faults {
    /// `setting` is at fault, for this reason.
    pub fn add(&mut self, setting: &str, reason: impl Into<String>) {
        self.0.push((setting.to_owned(), reason.into()));
    }

    /// `setting` is missing.
    pub fn missing(&mut self, setting: &str, reason: &str) {
        self.add(setting, format!("is not set: {reason}"));
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> =
            self.0.iter().map(|(setting, reason)| format!("{setting} {reason}")).collect();
        lines.sort();
        lines.dedup();
        f.write_str(&lines.join("\n"))
    }
}
