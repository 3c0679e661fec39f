//! Distributes each line of OpenTofu's output: to the log, to the facts, and to the stream of events.

use crate::event::{Event, RUNNER, reduced};
use crate::{facts::Facts, log::Log, render};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

/// How many lines of standard error are kept for the message of a failure.
const STDERR_LINES: usize = 10;

/// The output of OpenTofu.
#[derive(Debug)]
pub struct Transcript {
    /// The summary of the lines.
    pub facts: Facts,
    /// The log that people read.
    pub log: Log,
    /// With an encrypted log: the file of the stream of events, which OpenTofu then does not write itself.
    reduced: Option<File>,
    /// The last lines of standard error, masked.
    stderr_end: VecDeque<String>,
    applying: bool,
}

impl Transcript {
    /// Writes to `log`. With an encrypted log, also writes the reduced events to `reduced`.
    pub fn new(log: Log, reduced: Option<File>) -> Self {
        let facts = Facts::default();
        Self { facts, log, reduced, stderr_end: VecDeque::new(), applying: false }
    }

    /// Whether the log is encrypted, so that nothing may leave the job in clear.
    pub fn is_sealed(&self) -> bool {
        self.reduced.is_some()
    }

    /// Prepares for the next process.
    pub fn begin(&mut self, applying: bool) {
        self.facts.begin();
        self.stderr_end.clear();
        self.applying = applying;
    }

    /// Adds a line of standard output.
    pub fn stdout_line(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Event>(line) else {
            // Before OpenTofu has parsed the option `-json`, it prints plain text.
            if !line.trim().is_empty() {
                self.log.line(line);
            }
            return;
        };
        if event.module == RUNNER {
            return;
        }
        self.facts.take(&event);
        if let Some(text) = render::text(&event, self.applying) {
            self.log.line(&text);
        }
        if let (Some(file), Some(value)) = (&mut self.reduced, reduced(&event)) {
            // A full disk shows in the log, which cannot be written either.
            let _ = writeln!(file, "{value}");
        }
    }

    /// Adds a line of standard error.
    pub fn stderr_line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.log.line(line);
        if self.stderr_end.len() == STDERR_LINES {
            self.stderr_end.pop_front();
        }
        // Masked before it is cut: a mask does not recognize a part of a secret.
        self.stderr_end.push_back(self.log.masked(line).chars().take(300).collect());
    }

    /// Whether OpenTofu does not have one of the runner's options.
    pub fn refused_an_option(&self) -> bool {
        self.stderr_end.iter().any(|line| line.contains("flag provided but not defined"))
    }

    /// The first line of the end of standard error that contains an error, else its last line.
    pub fn stderr_error(&self) -> Option<&str> {
        let error = self.stderr_end.iter().find(|line| line.contains("rror"));
        error.or(self.stderr_end.back()).map(String::as_str)
    }
}
