//! Shows progress on stderr: a live line on a terminal, plain lines anywhere else.

use crate::output::Output;
use crate::progress::{Notice, Progress};
use crate::table::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A display of one deployment's progress.
pub(crate) struct Display {
    output: Output,
    /// `Some` on a terminal only.
    bar: Option<ProgressBar>,
}

impl Display {
    /// A display for the kind of stderr.
    pub(crate) fn new(output: Output) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { output, bar }
    }

    /// Shows the notices.
    pub(crate) fn show(&self, progress: &Progress, notices: Vec<Notice>) {
        let Some(bar) = &self.bar else {
            for item in notices {
                self.line(&plain(item));
            }
            return;
        };
        for item in notices {
            match item {
                // The live line shows these.
                Notice::Stage(_) | Notice::Resource(_) => {}
                Notice::Planned(text) | Notice::Changes(text) | Notice::Diagnostic(text) => {
                    self.line(&text);
                }
            }
        }
        bar.set_message(printable(&live(progress)));
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.notice(text)),
            None => self.output.notice(text),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn plain(notices: Notice) -> String {
    match notices {
        Notice::Stage(text)
        | Notice::Planned(text)
        | Notice::Changes(text)
        | Notice::Diagnostic(text) => text,
        Notice::Resource(text) => format!("  {text}"),
    }
}

fn live(progress: &Progress) -> String {
    let steps = match progress.steps() {
        (done, Some(total)) if total > 0 => format!(" {done}/{total}"),
        _ => String::new(),
    };
    let mut running = progress.running();
    let first = running.next().map_or_else(String::new, |address| format!("  {address}"));
    let more = match running.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{steps}{first}{more}", progress.stage())
}
