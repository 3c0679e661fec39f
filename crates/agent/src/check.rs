//! `canyon-agent check`: tries each step that the agent needs, and says what to change if one fails. It starts no job
//! and opens no session, so an agent of the same name is not disturbed.

mod connection_steps;
mod network;
mod platform;
mod report;

use crate::connection;
use crate::exit::Exit;
use crate::kinds;
use crate::settings::Settings;
use report::{Report, Step};
use std::path::Path;

/// Tries all steps. `definition` is a file with a runner's definition whose jobs are tried.
pub async fn check(settings: &Settings, definition: Option<&Path>) -> Exit {
    let mut report = Report::default();
    report.ok(Step::Settings, "all required settings are set, and none contradicts another");
    for warning in &settings.warnings {
        report.ok(Step::Settings, format!("warning: {warning}"));
    }
    match connection::http_client(settings.authorities.as_ref()) {
        Ok(http) => {
            network::check(settings, &http, &mut report).await;
            connection_steps::check(settings, &http, &mut report).await;
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
