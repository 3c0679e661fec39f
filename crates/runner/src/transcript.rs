//! What OpenTofu says, heard once: for the log, for the facts, and for the stream of events.

use crate::event::{Event, reduced};
use crate::{facts::Facts, log::Log, render};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

/// How many lines of standard error are kept for a failure's message.
const LAST_WORDS: usize = 10;

/// What OpenTofu says.
#[derive(Debug)]
pub struct Transcript {
    /// The sum of it.
    pub facts: Facts,
    /// The log that people read.
    pub log: Log,
    /// With an encrypted log: the stream of events, which OpenTofu does not write itself then.
    reduced: Option<File>,
    /// The end of standard error.
    last_words: VecDeque<String>,
    applying: bool,
}

impl Transcript {
    /// Writes to `log`, and to `reduced` if events must not leave as they are.
    pub fn new(log: Log, reduced: Option<File>) -> Self {
        let facts = Facts::default();
        Self { facts, log, reduced, last_words: VecDeque::new(), applying: false }
    }

    /// Whether nothing in clear may leave.
    pub fn is_sealed(&self) -> bool {
        self.reduced.is_some()
    }

    /// A process begins.
    pub fn begin(&mut self, applying: bool) {
        self.facts.begin();
        self.last_words.clear();
        self.applying = applying;
    }

    /// A line of standard output.
    pub fn heard(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Event>(line) else {
            // Before it knows of `-json`, OpenTofu speaks plainly.
            if !line.trim().is_empty() {
                self.log.line(line);
            }
            return;
        };
        self.facts.take(&event);
        if let Some(text) = render::text(&event, self.applying) {
            self.log.line(&text);
        }
        if let (Some(file), Some(value)) = (&mut self.reduced, reduced(&event)) {
            // A full disk shows in the log, which cannot be written then either.
            let _ = writeln!(file, "{value}");
        }
    }

    /// A line of standard error.
    pub fn heard_error(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.log.line(line);
        if self.last_words.len() == LAST_WORDS {
            self.last_words.pop_front();
        }
        // A cut through a secret would leave a part of it that no mask knows.
        self.last_words.push_back(self.log.masked(line).chars().take(300).collect());
    }

    /// Whether OpenTofu does not know one of our options.
    pub fn refused_an_option(&self) -> bool {
        self.last_words.iter().any(|line| line.contains("flag provided but not defined"))
    }

    /// The first line that names an error, of what is left of standard error.
    pub fn last_words(&self) -> Option<&str> {
        let error = self.last_words.iter().find(|line| line.contains("rror"));
        error.or(self.last_words.back()).map(String::as_str)
    }
}
