//! What to do next when something went wrong.

use crate::error::CliError;
use canyon_api::client::ClientError;

/// The next step, if there is one to name.
pub(crate) fn hint(error: &CliError) -> Option<String> {
    match error {
        CliError::Usage { hint, .. } => hint.clone(),
        CliError::TooManyDeletions { hint, .. } => Some(hint.clone()),
        CliError::MissingSetting { what } => Some(format!(
            "after `canyon local`, run `. ~/.local/share/canyon/env`; else run `canyon login`, or \
             set {} ({what})",
            variable(what)
        )),
        CliError::Client(error) | CliError::LostSight { source: error, .. } => of_client(error),
        CliError::NotFound { nearest, .. } => Some(format!("did you mean `{nearest}`?")),
        CliError::Deployment { id, .. } => Some(format!("read its log with `canyon logs {id}`")),
        CliError::TimedOut { id, .. } | CliError::Detached { id } => Some(format!(
            "watch it with `canyon logs {id} -f`, or stop it with `canyon cancel {id}`"
        )),
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
        (ClientError::Unreachable { .. }, _) => {
            "start Canyon on this machine with `canyon local`, or correct CANYON_API_URL"
        }
        (ClientError::Foreign { .. }, _) => {
            "correct CANYON_API_URL; or find the proxy or gateway on the way that answers in Canyon's \
             place"
        }
        (_, Some(401)) => {
            "the token is wrong or has expired; run `canyon login`, or source the `env` file of \
             `canyon local` again"
        }
        (_, Some(403)) => "your token's role does not allow this; ask an admin for another one",
        (_, Some(429)) => "Canyon is busy; try again in a few seconds",
        (_, Some(500..)) => "try again; if it stays, look at the server's log",
        _ => return None,
    };
    Some(text.to_owned())
}

/// The one of `names` that `given` is probably a misspelling of.
pub(crate) fn nearest<'n>(given: &str, names: &'n [String]) -> Option<&'n str> {
    // As clap does for commands.
    const LIKENESS: f64 = 0.7;
    let likeness = |name: &str| strsim::jaro_winkler(given, name);
    names
        .iter()
        .map(|name| (likeness(name), name.as_str()))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}
