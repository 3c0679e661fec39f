//! The steps `sign_in` and `agent`: whether Canyon accepts the agent's proof of identity.

use super::report::{Report, Step};
use crate::connection::{ApiConnection, ConnectionError};
use crate::settings::Settings;
use crate::settings::served::Served;
use crate::sign_in;
use canyon_api::agent::Poll;
use canyon_api::client::Client;
use canyon_domain::ids::{AgentId, OrgId};

/// A session that no agent has: numbers begin with 1.
const NO_SESSION: u64 = 0;

/// Checks each organization of the agent.
pub(super) async fn check(settings: &Settings, http: &reqwest::Client, report: &mut Report) {
    let is_shared = settings.served.len() > 1;
    for served in &settings.served {
        report.organization = is_shared.then(|| served.org.clone());
        check_served(settings, served, http, report).await;
    }
    report.organization = None;
}

async fn check_served(
    settings: &Settings,
    served: &Served,
    http: &reqwest::Client,
    report: &mut Report,
) {
    let sign_in = match sign_in::of(settings, served, http).await {
        Ok(sign_in) => sign_in,
        Err(exit) => {
            report.failed(Step::SignIn, exit.message().unwrap_or("nothing to sign in by"));
            return report.skipped(Step::Agent, "`sign_in` failed");
        }
    };
    let (org, name) = (&served.org, &settings.name);
    let client = Client::over(http.clone(), &settings.api_url, org.as_str());
    let api = ApiConnection::new(client, name, sign_in);
    let poll = Poll { wait_seconds: 0, ..Poll::default() };
    let Err(error) = api.poll(NO_SESSION, &poll).await else {
        return report.failed(Step::Agent, "Canyon accepts a session that no agent has opened");
    };
    report_answer(org, name, api.fingerprint().as_deref(), &error, report);
}

/// Reports what the answer to a poll without a session shows. An agent with a key has a `fingerprint`, one with a token
/// has none.
fn report_answer(
    org: &OrgId,
    name: &AgentId,
    fingerprint: Option<&str>,
    error: &ConnectionError,
    report: &mut Report,
) {
    let shown = match fingerprint {
        Some(fingerprint) => format!("with its own key, whose fingerprint is {fingerprint}"),
        None => "with a token".to_owned(),
    };
    match error {
        ConnectionError::SignIn(reason) => {
            report.failed(Step::SignIn, reason);
            report.skipped(Step::Agent, "`sign_in` failed");
        }
        ConnectionError::Client(_) if error.status().is_none() => {
            report.ok(Step::SignIn, shown);
            report.skipped(Step::Agent, error);
        }
        ConnectionError::Client(_) if error.is_superseded() => {
            report.ok(Step::SignIn, shown);
            report.ok(Step::Agent, format!("Canyon accepts `{name}`, and it may work in `{org}`"));
        }
        // An unknown key may belong to an agent that is not adopted yet. A token is either valid or not.
        ConnectionError::Client(_) if error.status() == Some(401) && fingerprint.is_none() => {
            report.failed(Step::SignIn, format!("Canyon refuses the token: {error}"));
            report.skipped(Step::Agent, "`sign_in` failed");
        }
        ConnectionError::Client(_) if error.is_unknown_agent() => {
            report.ok(Step::SignIn, shown);
            let found = format!(
                "Canyon does not accept `{name}` with it, and does not say why: {error}. If the agent was started once, it \
                 waits for `canyon adopt agent {name}`. Otherwise organization `{org}` does not exist or refuses such agents \
                 (canyon get organization), or another agent has the name (canyon get agent {name})"
            );
            report.skipped(Step::Agent, found);
        }
        ConnectionError::Client(_) => {
            report.ok(Step::SignIn, shown);
            report.failed(Step::Agent, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_api::client::ClientError;
    use serde_json::json;

    #[test]
    fn an_agent_that_is_pending_or_rejected_fails_the_check_and_one_that_may_work_does_not() {
        for (status, code, failures) in [
            (409, "session_superseded", 0),
            (409, "pending", 1),
            (409, "another_agent", 1),
            (403, "rejected", 1),
            (401, "", 0),
        ] {
            let body = json!({ "error": "", "message": "", "details": { "code": code } });
            let body = Box::new(serde_json::from_value(body).unwrap());
            let refused = ClientError::Refused { status, body, retry_after: None };
            let error = ConnectionError::Client(refused);
            let mut report = Report::default();
            report_answer(
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
