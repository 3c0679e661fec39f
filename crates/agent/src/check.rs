//! `canyon-agent check`: tries what the agent needs, one step after the other, and says of each that does not
//! work what to change. It starts no job, and opens no session: an agent of the same name works on.

mod line_steps;
mod network;
mod platform;
mod report;

use crate::exit::Exit;
use crate::kinds;
use crate::line;
use crate::settings::Settings;
use report::{Report, Step};
use std::path::Path;

/// Tries all. `definition` is a file with a runner's definition, whose jobs are to be tried.
pub async fn check(settings: &Settings, definition: Option<&Path>) -> Exit {
    let mut report = Report::default();
    report.ok(Step::Settings, "all that is needed is there, and nothing contradicts");
    for warning in &settings.warnings {
        report.ok(Step::Settings, format!("but: {warning}"));
    }
    match line::http_client(settings.authorities.as_ref()) {
        Ok(http) => {
            network::check(settings, &http, &mut report).await;
            line_steps::check(settings, http, &mut report).await;
        }
        Err(reason) => report.failed(Step::Tls, reason),
    }
    match kinds::of(settings) {
        Ok(kind) => platform::check(settings, &*kind, definition, &mut report).await,
        Err(error) => report.failed(Step::Platform, error.to_string()),
    }
    match report.failures() {
        0 => Exit::Done,
        1 => Exit::Broken("one step failed".to_owned()),
        many => Exit::Broken(format!("{many} steps failed")),
    }
}
