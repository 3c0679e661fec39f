//! Hints: what the user can do after an error.

use crate::error::CliError;
use crate::suggestion;
use canyon_api::client::ClientError;
use canyon_api::error::{AUTHOR, NOT_AN_APPROVER};
use std::error::Error;

/// The hint for an error, if it has one.
pub(crate) fn hint(error: &CliError) -> Option<String> {
    match error {
        CliError::Usage { hint, .. } => hint.clone(),
        CliError::TooManyDeletions { hint, .. } | CliError::Absent { hint, .. } => {
            Some(hint.clone())
        }
        CliError::DeletionFailed { hint, .. } => Some(hint.clone()),
        CliError::DeletionContinues { project, env, .. } => Some(format!(
            "its status is in `canyon get environment {project} {env}`, and the log of its run in \
             `canyon logs {project} {env}`"
        )),
        CliError::Obstacle { hint, .. } | CliError::SignIn { hint, .. } => hint.clone(),
        CliError::Ambiguous { .. } => Some("give more characters of the id".to_owned()),
        CliError::MissingSetting { what } => Some(format!(
            "after `canyon local`, run `. ~/.local/share/canyon/env`; otherwise run `canyon login`, or \
             set {} ({what})",
            variable(what)
        )),
        CliError::Client(error) | CliError::ConnectionLost { source: error, .. } => {
            of_client(error)
        }
        CliError::Explained { hint, .. } => Some(hint.clone()),
        CliError::Deployment { id, .. } => Some(format!("read its log with `canyon logs {id}`")),
        CliError::TimedOut { id, .. } | CliError::Detached { id } => {
            Some(format!("follow it with `canyon wait {id}`, or stop it with `canyon cancel {id}`"))
        }
        CliError::Yaml(_)
        | CliError::Assignment(_)
        | CliError::File { .. }
        | CliError::NotConfirmed
        | CliError::Interrupted
        | CliError::Runtime(_)
        | CliError::Output(_) => None,
        #[cfg(feature = "local")]
        CliError::Local(_) => None,
    }
}

fn variable(what: &str) -> &'static str {
    match what {
        "organization" => "CANYON_ORG",
        "token" => "CANYON_TOKEN",
        _ => "CANYON_API_URL", // the address
    }
}

fn of_client(error: &ClientError) -> Option<String> {
    let text = match (error, error.status()) {
        (ClientError::Unreachable { source, .. }, _) if is_of_certificate(source) => AUTHORITIES,
        (ClientError::Unreachable { .. }, _) => {
            "start Canyon on this machine with `canyon local`, or correct CANYON_API_URL"
        }
        (ClientError::NotCanyon { .. }, _) => {
            "correct CANYON_API_URL; or find the proxy or gateway on the network path that answers instead \
             of Canyon"
        }
        (_, Some(401)) => {
            "the token is wrong or has expired; run `canyon login`, or source the `env` file of \
             `canyon local` again"
        }
        (_, Some(403)) => match code(error) {
            Some(AUTHOR) => {
                "another approver must approve it; or end it without an apply: `canyon discard`"
            }
            Some(NOT_AN_APPROVER) => {
                "`canyon whoami` shows your roles and groups; ask an approver for the review, or an administrator to change the \
                 rule for approvals"
            }
            _ => "your token's role does not allow this; ask an administrator for another role",
        },
        (_, Some(429)) => "Canyon is busy; try again in a few seconds",
        (_, Some(500..)) => "try again; if the error persists, read the server's log",
        _ => return None,
    };
    Some(text.to_owned())
}

/// The code for programs of Canyon's refusal.
fn code(error: &ClientError) -> Option<&str> {
    let ClientError::Refused { body, .. } = error else { return None };
    body.code()
}

/// The hint for a certificate that this machine does not trust.
pub(crate) const AUTHORITIES: &str = "if the certificate is of an authority of your own, name the file with that \
     authority (PEM) in SSL_CERT_FILE";

/// Whether a connection failed because of the server's certificate.
pub(crate) fn is_of_certificate(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.to_string().contains("peer certificate") {
            return true;
        }
        next = cause.source();
    }
    false
}

/// The name that `given` is probably a misspelling of.
pub(crate) fn nearest<'n>(given: &str, names: &'n [String]) -> Option<&'n str> {
    suggestion::closest(given, names.iter().map(String::as_str)).first().copied()
}
