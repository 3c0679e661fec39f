//! The only place that writes: results to stdout, everything else to stderr.

use crate::error::CliError;
use crate::{hint, table, yaml};
use canyon_domain::json::Json;
use clap::ValueEnum;
use serde_json::Value;
use std::error::Error;
use std::io::{self, Write};

/// The form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Where a command says what it has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The form of results.
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    /// One thing; what cannot work in it is told on stderr too.
    pub(crate) fn thing(self, value: &Value) -> Result<(), CliError> {
        for warning in value.get("warnings").and_then(Value::as_array).into_iter().flatten() {
            let [path, reason] =
                ["path", "reason"].map(|part| warning[part].as_str().unwrap_or("?"));
            self.notice(&format!("warning: `{path}` {reason}; no job starts until it is changed"));
        }
        match self.format {
            Format::Table => self.text(&table::thing(value)),
            Format::Yaml | Format::Json => self.value(value),
        }
    }

    /// A list of things, as a table of `columns`.
    pub(crate) fn list(self, items: Vec<Value>, columns: &[&str]) -> Result<(), CliError> {
        match self.format {
            Format::Table => self.text(&table::list(&items, columns)),
            Format::Yaml | Format::Json => self.value(&Value::Array(items)),
        }
    }

    /// A value as YAML, or as JSON.
    pub(crate) fn value(self, value: &Value) -> Result<(), CliError> {
        if self.format == Format::Yaml {
            return self.text(&yaml::write(value).map_err(io::Error::other)?);
        }
        let json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        self.text(&format!("{json}\n"))
    }

    /// A value as YAML, or as JSON, with every digit of its numbers.
    pub(crate) fn exact(self, value: &Json) -> Result<(), CliError> {
        if self.format == Format::Yaml {
            return self.text(&yaml::write_exact(value).map_err(io::Error::other)?);
        }
        let json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        self.text(&format!("{json}\n"))
    }

    /// Text as it is.
    pub(crate) fn text(self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// Bytes as they are, at once.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// Says what was done or is going on, on stderr.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn notice(self, text: &str) {
        // There is nowhere left to say that stderr is closed.
        let _ = writeln!(io::stderr().lock(), "{}", table::printable(text));
    }

    /// Says what is asked, on stderr; the answer is typed behind it.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn question(self, text: &str) {
        let mut stderr = io::stderr().lock();
        // A question that cannot be shown is not answered with `yes`.
        let _ = write!(stderr, "{} ", table::printable(text));
        let _ = stderr.flush();
    }

    /// Says what went wrong, why, and what to do next, on stderr.
    pub(crate) fn error(self, error: &CliError) {
        self.notice(&format!("error: {error}"));
        for detail in error.details() {
            self.notice(&format!("  {detail}"));
        }
        // Between the message and the root there are only layers of libraries.
        let mut root = error.source();
        while let Some(deeper) = root.and_then(Error::source) {
            root = Some(deeper);
        }
        if let Some(root) = root {
            self.notice(&format!("  because: {root}"));
        }
        if let Some(hint) = hint::hint(error) {
            self.notice(&format!("hint: {hint}"));
        }
    }
}
