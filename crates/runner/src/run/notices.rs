//! What the runner itself says, in the log and in the events.

use super::Run;
use crate::tofu::Tofu;
use crate::{event, render, workspace};
use canyon_domain::failure::Failure;
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::time::Duration;

/// How long OpenTofu may take to write a plan as text.
const PLAN_TEXT_TIME: Duration = Duration::from_mins(1);
/// The longest text of a plan, in bytes. A longer one is cut at the end of a line.
const MAX_PLAN_TEXT: usize = 512 * 1024;

impl Run {
    /// Adds the planned changes with their attributes to the log and the events, in OpenTofu's words, which hide
    /// sensitive values.
    pub(super) async fn show_plan(&mut self, tofu: &Tofu) {
        let file = self.workspace.path(workspace::PLAN);
        let file = file.to_string_lossy();
        let text = match tofu.answer(&["show", "-no-color", &file], PLAN_TEXT_TIME).await {
            Ok(text) => String::from_utf8_lossy(&text).trim().to_owned(),
            Err(error) => return self.warn(&format!("cannot show the attributes: {error}")),
        };
        // OpenTofu prints a sensitive value where the provider has copied it to an attribute that is not marked.
        let text = match self.plan_mask(tofu).await {
            Ok(mask) => mask.text(&text),
            Err(error) => return self.warn(&format!("cannot show the attributes: {error}")),
        };
        let text = render::shortened(&text, MAX_PLAN_TEXT);
        self.transcript.log.line(&text);
        self.record_in_clear(&event::plan_text(&text));
    }

    /// A warning in the log, and in the events, which the command line shows while the run goes on.
    pub(super) fn warn(&mut self, text: &str) {
        self.transcript.log.warn(text);
        self.record_in_clear(&event::warning(text));
    }

    /// `failure` for delivery. With an encrypted log, the words of the server that gave no module are only in the log.
    pub(super) fn without_details(&mut self, failure: Failure) -> Failure {
        if !self.transcript.is_sealed() {
            return failure;
        }
        self.transcript.log.error(&failure.message);
        let summary = failure.message.split(": ").next().unwrap_or_default();
        Failure { message: format!("{summary}; the encrypted log says why"), ..failure }
    }

    pub(super) fn record_in_clear(&mut self, event: &Value) {
        if !self.transcript.is_sealed() {
            self.record(event);
        }
    }

    /// Adds a line of the runner's own to the stream of events. OpenTofu must not write there at the same time.
    pub(super) fn record(&mut self, event: &impl Serialize) {
        let line = serde_json::to_string(event).map_err(io::Error::from);
        let written = line.and_then(|line| self.workspace.append_line(workspace::EVENTS, &line));
        if let Err(error) = written {
            self.transcript.log.warn(&format!("cannot write to the events: {error}"));
        }
    }
}
