//! Faults in the settings, all reported at once. Messages do not repeat values, because any may be a secret.

use std::fmt;

/// The faults: setting and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<(String, String)>);

impl Faults {
    /// Adds a fault of `setting`.
    pub fn add(&mut self, setting: &str, reason: impl Into<String>) {
        self.0.push((setting.to_owned(), reason.into()));
    }

    /// Adds a fault: `setting` is not set.
    pub fn missing(&mut self, setting: &str, reason: &str) {
        self.add(setting, format!("is not set: {reason}"));
    }

    /// Whether there is no fault.
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
