//! Environment variables that were written for the agents of other products, and the settings that they become.
//!
//! They are the weakest source of settings: a flag, a variable of Canyon or a line of the file takes precedence. The
//! agent warns of them at its start, without their values.

use super::boolean;
use super::faults::Faults;
use super::layers::{Given, Layer};
use super::names::{DATA, DATA_VARIABLE, NAMES};
use std::collections::BTreeMap;

/// What a variable is for this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The same as this variable.
    Same(&'static str),
    /// A prefix: with the rest of its name the same as the variable with this prefix.
    Prefix(&'static str),
    /// A path, which means the same as this variable's if it has one group.
    Path(&'static str),
    /// Host and port of a server. Another variable says whether the server has TLS.
    Address { new: &'static str, tls: &'static str },
    /// The agent reads it together with a variable that becomes this one.
    PartOf(&'static str),
    /// It cannot mean the same here. What to use instead.
    NotRead(&'static str),
    /// The same for a boolean: if it is false, there is nothing to say.
    NotReadIfTrue(&'static str),
}

use Meaning::{Address, NotRead, NotReadIfTrue, PartOf, Path, Prefix, Same};

const OWN_AUTHORITIES: &str =
    "the agent always verifies certificates; set CANYON_CA_FILE to a file with your authorities";
const OTHER_TOKEN: &str = "Canyon does not know this token; without CANYON_TOKEN, the agent has its own key, which an \
     administrator adopts";

/// The variables. An exact name comes before a prefix of it.
const FORMER: [(&str, Meaning); 21] = [
    ("THARSIS_API_URL", Same("CANYON_API_URL")),
    ("THARSIS_ENDPOINT", Same("CANYON_API_URL")),
    ("THARSIS_RUNNER_PATH", Path("CANYON_RUNNER_PATH")),
    ("THARSIS_RUNNER_ID", NotRead("set CANYON_RUNNER_PATH=ORG/RUNNER")),
    ("THARSIS_SERVICE_ACCOUNT_PATH", Path("CANYON_SERVICE_ACCOUNT_PATH")),
    ("THARSIS_SERVICE_ACCOUNT_ID", NotRead("set CANYON_SERVICE_ACCOUNT_PATH=ORG/ACCOUNT")),
    (
        "THARSIS_SERVICE_ACCOUNT_TOKEN",
        NotRead("set CANYON_IDENTITY_TOKEN_FILE to a file with a token"),
    ),
    ("THARSIS_STATIC_TOKEN", NotRead(OTHER_TOKEN)),
    ("THARSIS_CREDENTIAL_HELPER_CMD_PATH", Same("CANYON_CREDENTIAL_HELPER_CMD_PATH")),
    ("THARSIS_CREDENTIAL_HELPER_CMD_ARGS", Same("CANYON_CREDENTIAL_HELPER_CMD_ARGS")),
    ("THARSIS_SERVICE_DISCOVERY_HOST", Same("CANYON_SERVICE_DISCOVERY_HOST")),
    ("THARSIS_TLS_SKIP_VERIFY", NotReadIfTrue(OWN_AUTHORITIES)),
    ("THARSIS_JOB_DISPATCHER_TYPE", Same("CANYON_JOB_DISPATCHER_TYPE")),
    (
        "THARSIS_JOB_DISPATCHER_DATA_IMAGE",
        NotRead(
            "it runs other jobs; set CANYON_JOB_DISPATCHER_DATA_IMAGE to your image of canyon-runner",
        ),
    ),
    ("THARSIS_JOB_DISPATCHER_DATA_", Prefix(DATA_VARIABLE)),
    ("WAYPOINT_SERVER_ADDR", Address { new: "CANYON_API_URL", tls: "WAYPOINT_SERVER_TLS" }),
    ("WAYPOINT_SERVER_TLS", PartOf("CANYON_API_URL")),
    ("WAYPOINT_SERVER_TLS_SKIP_VERIFY", NotReadIfTrue(OWN_AUTHORITIES)),
    ("WAYPOINT_SERVER_TOKEN", NotRead(OTHER_TOKEN)),
    (
        "WAYPOINT_SERVER_COOKIE",
        NotRead("Canyon has no cookie; name the runner with CANYON_RUNNER_PATH=ORG/RUNNER"),
    ),
    ("WAYPOINT_RUNNER_ID", Same("CANYON_AGENT_NAME")),
];

/// Settings with which an agent signs in without a service account.
const OWN_SIGN_IN: [&str; 3] = ["token", "key_file", "key_secret"];
/// Settings for signing in as a service account.
const OF_ACCOUNTS: [&str; 3] =
    ["service_account_path", "credential_helper_cmd_path", "credential_helper_cmd_args"];

/// The variables that the agent found, as settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FormerNames {
    /// The settings that `newer` does not have.
    pub layer: Layer,
    notes: Vec<String>,
}

impl FormerNames {
    /// Reads `variables`. `newer` are the settings that take precedence.
    pub fn read(
        variables: impl IntoIterator<Item = (String, String)>,
        newer: &Layer,
        faults: &mut Faults,
    ) -> Self {
        let set = variables.into_iter().filter(|(_, value)| !value.is_empty());
        let set: BTreeMap<String, String> = set.collect();
        let mut found = Self::default();
        for (former, meaning) in FORMER {
            if let Prefix(_) = meaning {
                let is_exact = |name: &str| FORMER.iter().any(|(exact, _)| *exact == name);
                for (name, value) in set.range(former.to_owned()..) {
                    if name.starts_with(former) && !is_exact(name) {
                        found.take(name, value, meaning, &set, newer, faults);
                    }
                }
            } else if let Some(value) = set.get(former) {
                found.take(former, value, meaning, &set, newer, faults);
            }
        }
        found
    }

    /// The warning for the log, if there are such variables.
    pub fn warning(&self) -> Option<String> {
        let notes = self.notes.join("; ");
        (!notes.is_empty())
            .then(|| format!("rename settings that have names of another product: {notes}"))
    }

    fn take(
        &mut self,
        former: &str,
        value: &str,
        meaning: Meaning,
        all: &BTreeMap<String, String>,
        newer: &Layer,
        faults: &mut Faults,
    ) {
        let (new, value) = match meaning {
            Same(new) => (new.to_owned(), value.to_owned()),
            Prefix(new) => {
                let rest = FORMER.iter().find_map(|(prefix, of)| {
                    former.strip_prefix(prefix).filter(|_| *of == meaning)
                });
                (format!("{new}{}", rest.unwrap_or_default()), value.to_owned())
            }
            Path(new) => {
                // With several groups, any of them may be the organization.
                if value.split('/').count() > 2 && !newer.0.contains_key("org") {
                    let name = new.trim_start_matches("CANYON_").trim_end_matches("_PATH");
                    let name = name.rsplit('_').next().unwrap_or(name);
                    self.not_read(former, &format!("Canyon has no groups; set {new}=ORG/{name}"));
                    return;
                }
                (new.to_owned(), value.to_owned())
            }
            Address { new, tls } => {
                let has_tls = all.get(tls).and_then(|word| boolean(word)).unwrap_or_default();
                let scheme = if has_tls { "https" } else { "http" };
                let is_url = value.contains("://");
                let url = if is_url { value.to_owned() } else { format!("{scheme}://{value}") };
                (new.to_owned(), url)
            }
            PartOf(new) => {
                self.is_read(former, new);
                return;
            }
            NotReadIfTrue(_) if boolean(value) == Some(false) => return,
            NotRead(instead) | NotReadIfTrue(instead) => {
                self.not_read(former, instead);
                return;
            }
        };
        self.set(former, &new, value, newer, faults);
    }

    fn set(&mut self, former: &str, new: &str, value: String, newer: &Layer, faults: &mut Faults) {
        let Some(key) = key_of(new) else { return };
        let own = || OWN_SIGN_IN.iter().find_map(|own| newer.0.get(*own));
        let by = newer.0.get(&key).or_else(|| own().filter(|_| OF_ACCOUNTS.contains(&&*key)));
        if let Some(by) = by {
            self.not_read(former, &format!("{} is set, so remove it", by.origin));
            return;
        }
        match self.layer.0.get(&key) {
            Some(other) if other.value != value => {
                let reason = format!("has another value than {}; set only {new}", other.origin);
                faults.add(former, reason);
            }
            Some(_) => self.is_read(former, new),
            None => {
                self.is_read(former, new);
                self.layer.0.insert(key, Given { value, origin: former.to_owned() });
            }
        }
    }

    fn is_read(&mut self, former: &str, new: &str) {
        self.notes.push(format!("{former} is read as {new}"));
    }

    fn not_read(&mut self, former: &str, instead: &str) {
        self.notes.push(format!("{former} is not read: {instead}"));
    }
}

/// The key of a variable of Canyon.
fn key_of(variable: &str) -> Option<String> {
    if let Some(name) = variable.strip_prefix(DATA_VARIABLE) {
        return Some(format!("{DATA}.{}", name.to_ascii_lowercase()));
    }
    let name = NAMES.iter().find(|name| name.variables.contains(&variable))?;
    Some(name.key.to_owned())
}

#[cfg(test)]
mod tests;
