//! Everything that Canyon's own scripts fetch is pinned: they refuse altered content, and crates with known
//! vulnerabilities. The real scripts run on a copy of this checkout in which one pin was changed: a client cannot
//! distinguish altered content from an altered pin.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advisories;
mod images;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A copy of this checkout, without files that git ignores.
pub(crate) struct Checkout(TempDir);

impl Checkout {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = "git ls-files --cached --others --exclude-standard --deduplicate -z |
            tar --create --null --files-from - --ignore-failed-read | tar --extract --directory \"$0\"";
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", copy]).arg(folder.path()).current_dir(root);
        assert!(command.stderr(Stdio::null()).status().unwrap().success(), "cannot copy {root}");
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Changes a file; the change must make a difference.
    pub(crate) fn edit(&self, name: &str, change: impl Fn(&str) -> String) {
        let before = fs::read_to_string(self.path(name)).unwrap();
        let after = change(&before);
        assert_ne!(before, after, "{name} is as it was");
        self.write(name, &after);
    }

    /// Runs a command of `scripts` in the copy.
    pub(crate) fn script(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Answer {
        let mut command = Command::new("timeout");
        command.arg("300").arg(self.path("scripts").join(arguments[0])).args(&arguments[1..]);
        command.envs(variables.iter().copied()).env_remove("CI");
        Answer::of(command.output().unwrap())
    }
}

/// The output of a script, and whether it succeeded.
pub(crate) struct Answer {
    text: String,
    success: bool,
}

impl Answer {
    fn of(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self { text: String::from_utf8_lossy(&text).into_owned(), success: output.status.success() }
    }

    #[track_caller]
    pub(crate) fn refuses_with(&self, words: &[&str]) {
        assert!(!self.success, "it passed: {}", self.text);
        self.has(words);
    }

    #[track_caller]
    pub(crate) fn passes_with(&self, words: &[&str]) {
        assert!(self.success, "it failed: {}", self.text);
        self.has(words);
    }

    #[track_caller]
    fn has(&self, words: &[&str]) {
        for word in words {
            assert!(self.text.contains(word), "it does not say {word:?}: {}", self.text);
        }
    }
}

/// The text with the character after each `mark` replaced, so that the checksums differ.
pub(crate) fn other_sums(text: &str, mark: &str) -> String {
    let mut parts = text.split(mark);
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        changed.push_str(mark);
        changed.push_str(&other_start(part));
    }
    changed
}

/// The text with its first character replaced.
pub(crate) fn other_start(text: &str) -> String {
    let other = if text.starts_with('0') { "1" } else { "0" };
    other.to_owned() + text.get(1..).unwrap_or_default()
}

/// A folder's path as text, for an environment variable.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
