//! The only module that writes: results to stdout, everything else to stderr.

use crate::error::CliError;
use crate::{hint, jq, table, yaml_writer};
use canyon_domain::json::Json;
use clap::ValueEnum;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::Value;
use std::error::Error;
use std::io::{self, IsTerminal, Write};

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table, for people.
    #[default]
    Table,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Writes a command's results and notices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The format of results.
    pub(crate) format: Format,
    /// The number of columns of the terminal; `None` if stdout is not one.
    pub(crate) width: Option<usize>,
    /// The filter of `--jq`, which [`jq::check`] has accepted.
    filter: Option<&'static str>,
}

impl Output {
    /// `filter` is the expression of `--jq`.
    pub(crate) fn new(format: Format, filter: Option<&'static str>) -> Self {
        Self { format, width: terminal_size().map(|(width, _)| width), filter }
    }

    /// Writes one resource, and warns on stderr of settings in it that prevent jobs.
    pub(crate) fn resource(self, value: &Value) -> Result<(), CliError> {
        for warning in value.get("warnings").and_then(Value::as_array).into_iter().flatten() {
            let [path, reason] =
                ["path", "reason"].map(|part| warning[part].as_str().unwrap_or("?"));
            self.notice(&format!("warning: `{path}` {reason}; no job starts until it is changed"));
        }
        match self.format {
            Format::Table => self.text(&table::resource(value)),
            Format::Yaml | Format::Json => self.value(value),
        }
    }

    /// Writes a list of resources, as a table of `columns`.
    pub(crate) fn list(self, items: Vec<Value>, columns: &[&str]) -> Result<(), CliError> {
        match self.format {
            Format::Table => self.text(&table::list(&items, columns, self.width)),
            Format::Yaml | Format::Json => self.value(&Value::Array(items)),
        }
    }

    /// Writes a value as YAML or as JSON.
    pub(crate) fn value(self, value: &Value) -> Result<(), CliError> {
        if self.format == Format::Yaml {
            return self.text(&yaml_writer::write(value).map_err(io::Error::other)?);
        }
        self.json(value)
    }

    /// Writes a value as YAML or as JSON, with every digit of its numbers.
    pub(crate) fn exact(self, value: &Json) -> Result<(), CliError> {
        if self.format == Format::Yaml {
            return self.text(&yaml_writer::write_exact(value).map_err(io::Error::other)?);
        }
        self.json(value)
    }

    /// Writes a value as a line of JSON: one of many.
    pub(crate) fn json_line(self, value: &Value) -> Result<(), CliError> {
        match self.filter {
            Some(filter) => self.text(&jq::apply(filter, &value.to_string())?),
            None => self.text(&format!("{value}\n")),
        }
    }

    fn json(self, value: &impl Serialize) -> Result<(), CliError> {
        let json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        match self.filter {
            Some(filter) => self.text(&jq::apply(filter, &json)?),
            None => self.text(&format!("{json}\n")),
        }
    }

    /// Writes text unchanged.
    pub(crate) fn text(self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes unchanged, and flushes.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// Reports on stderr what the command did or is doing.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn notice(self, text: &str) {
        // If stderr is closed, no other stream is left to report that.
        let _ = writeln!(io::stderr().lock(), "{}", table::printable(text));
    }

    /// Asks a question on stderr; the user types the answer behind it.
    #[expect(clippy::unused_self, reason = "all writing goes through one value")]
    pub(crate) fn question(self, text: &str) {
        let mut stderr = io::stderr().lock();
        // If the question cannot be shown, the user does not answer it with `yes`.
        let _ = write!(stderr, "{} ", table::printable(text));
        let _ = stderr.flush();
    }

    /// Reports an error on stderr: what went wrong, why, and what to do next.
    pub(crate) fn error(self, error: &CliError) {
        self.notice(&format!("error: {}", error.headline()));
        for detail in error.details() {
            self.notice(&format!("  {detail}"));
        }
        // The errors between the message and the root come from library layers and say nothing more.
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

/// Whether stdout is a terminal, also one that does not know its size.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The columns and rows of the terminal that is stdout; `None` if it is none, or does not know its size.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten()?;
    (size.ws_col > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}
