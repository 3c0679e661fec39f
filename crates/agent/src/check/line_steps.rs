//! What the agent shows, and whether Canyon takes it.

use super::report::{Report, Step};
use crate::line::{Line, LineError};
use crate::server_clock::ServerClock;
use crate::settings::Settings;
use crate::sign_in;
use canyon_api::agent::Poll;
use canyon_domain::ids::{AgentId, OrgId};
use std::sync::Arc;

/// A session that no agent has: the first has the number 1.
const NO_SESSION: u64 = 0;

pub(super) async fn check(settings: &Settings, http: reqwest::Client, report: &mut Report) {
    let sign_in = match sign_in::of(settings, &http).await {
        Ok(sign_in) => sign_in,
        Err(exit) => {
            report.failed(Step::SignIn, exit.message().unwrap_or("nothing to sign in by"));
            return report.skipped(Step::Agent, "`sign_in` failed");
        }
    };
    let clock = Arc::new(ServerClock::default());
    let (url, org, name) = (&settings.api_url, &settings.org, &settings.name);
    let line = Line::new(http, url, org, name, sign_in, clock);
    let poll = Poll { wait_seconds: 0, ..Poll::default() };
    let Err(error) = line.poll(NO_SESSION, &poll).await else {
        return report.failed(Step::Agent, "Canyon knows a session that nobody can have opened");
    };
    say(org, name, line.fingerprint().as_deref(), &error, report);
}

/// What an answer to no session says of the agent, which shows a key with this fingerprint, or a token.
fn say(
    org: &OrgId,
    name: &AgentId,
    fingerprint: Option<&str>,
    error: &LineError,
    report: &mut Report,
) {
    let shown = match fingerprint {
        Some(fingerprint) => format!("by its own key with the fingerprint {fingerprint}"),
        None => "by a token".to_owned(),
    };
    match error {
        LineError::SignIn(reason) => {
            report.failed(Step::SignIn, reason);
            report.skipped(Step::Agent, "`sign_in` failed");
        }
        LineError::Unreachable { .. }
        | LineError::Gateway { .. }
        | LineError::Unreadable { .. } => {
            report.ok(Step::SignIn, shown);
            report.skipped(Step::Agent, error);
        }
        LineError::Refused { .. } if error.is_superseded() => {
            report.ok(Step::SignIn, shown);
            report.ok(Step::Agent, format!("Canyon knows `{name}` by that, and it may work"));
        }
        // A key is nobody's until it is adopted; a token is good or not.
        LineError::Refused { status: 401, .. } if fingerprint.is_none() => {
            report.failed(Step::SignIn, format!("Canyon does not take the token: {error}"));
            report.skipped(Step::Agent, "`sign_in` failed");
        }
        LineError::Refused { .. } if error.is_stranger() => {
            report.ok(Step::SignIn, shown);
            let found = format!(
                "Canyon does not take `{name}` by that, and does not say why: {error}. An agent that was started once \
                 waits for `canyon adopt agent {name}`, unless organization `{org}` does not exist or refuses such agents \
                 (canyon get organization), or another agent has the name (canyon get agent {name})"
            );
            report.skipped(Step::Agent, found);
        }
        LineError::Refused { .. } => {
            report.ok(Step::SignIn, shown);
            report.failed(Step::Agent, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_nobody_has_adopted_fails_the_check_and_one_that_may_work_does_not() {
        for (status, code, failures) in [
            (409, "session_superseded", 0),
            (409, "pending", 1),
            (409, "another_agent", 1),
            (403, "rejected", 1),
            (401, "", 0),
        ] {
            let (code, message) = (code.to_owned(), String::new());
            let error = LineError::Refused { status, code, message, pause: None, standby: false };
            let mut report = Report::default();
            say(
                &"acme".parse().unwrap(),
                &"east-1".parse().unwrap(),
                Some("f"),
                &error,
                &mut report,
            );
            assert_eq!(report.failures(), failures, "{error:?}");
        }
    }
}
