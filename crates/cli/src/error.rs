//! The errors of the command line.

use crate::assignment::AssignmentError;
use crate::exit::Exit;
use canyon_api::client::ClientError;
use canyon_api::error::ErrorBody;
use canyon_domain::yaml::YamlError;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Why a command failed. [`crate::hint`] has the hint for each error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The arguments contradict each other, or a file is invalid.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// A required setting is missing.
    #[error("no {what} is set")]
    MissingSetting {
        /// The setting.
        what: &'static str,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// The verb for what failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Invalid or refused YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A `--set` that is invalid.
    #[error("--set {0}")]
    Assignment(AssignmentError),
    /// The server could not be reached, refused, or failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A refusal to which the command knows more than the server says, such as a similar name that exists.
    #[error("{refusal}")]
    Explained {
        /// The server's refusal; not called `source`, since its text is already the whole message.
        refusal: ClientError,
        /// What the user can do.
        hint: String,
    },
    /// Something that the command searched for does not exist.
    #[error("{message}")]
    Absent {
        /// What does not exist.
        message: String,
        /// What the user can do.
        hint: String,
    },
    /// The command found a state that prevents it.
    #[error("{message}")]
    Obstacle {
        /// What prevents it.
        message: String,
        /// The things in question, a line for each.
        details: Vec<String>,
        /// What the user can do.
        hint: Option<String>,
    },
    /// A short id names more than one deployment.
    #[error("{} deployments have an id that begins or ends with `{given}`", matches.len())]
    Ambiguous {
        /// The short id.
        given: String,
        /// The deployments, a line for each.
        matches: Vec<String>,
    },
    /// The deployment did not succeed.
    #[error("deployment {id} {status}{}", class_and_message(.failure.as_ref()))]
    Deployment {
        /// Its id.
        id: String,
        /// How it ended.
        status: String,
        /// The class and message of the failure.
        failure: Option<(String, String)>,
    },
    /// Its plan deletes or replaces more than a limit allows.
    #[error("{message}")]
    TooManyDeletions {
        /// How many the plan deletes or replaces, and which limit it exceeds.
        message: String,
        /// How to raise the limit.
        hint: String,
    },
    /// Canyon could not destroy the resources of an environment that it was to delete.
    #[error("{message}")]
    DeletionFailed {
        /// Which environment, and why.
        message: String,
        /// What the user can do.
        hint: String,
    },
    /// The command stopped waiting for a deletion.
    #[error("environment {project}/{env} is not deleted yet; Canyon continues")]
    DeletionContinues {
        /// The project of the environment.
        project: String,
        /// The environment.
        env: String,
        /// Ctrl-C ended the wait, and not `--timeout`.
        is_interrupted: bool,
    },
    /// A question was not answered with `yes`.
    #[error("not confirmed; nothing was changed")]
    NotConfirmed,
    /// Ctrl-C before anything was changed.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// `--timeout` passed before the end.
    #[error("deployment {id} did not end within {seconds} s; it continues")]
    TimedOut {
        /// Its id.
        id: String,
        /// How long the command waited.
        seconds: u64,
    },
    /// The command could not reach the server for too long while it waited for a deployment.
    #[error("cannot follow deployment {id} any longer; it continues")]
    ConnectionLost {
        /// Its id.
        id: String,
        /// The last error.
        #[source]
        source: ClientError,
    },
    /// Ctrl-C while the command waited for a deployment.
    #[error("interrupted; deployment {id} continues")]
    Detached {
        /// Its id.
        id: String,
    },
    /// The asynchronous runtime cannot start.
    #[error("cannot start on this machine")]
    Runtime(#[source] std::io::Error),
    /// `canyon local` stopped.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Local(#[from] canyon_local::LocalError),
    /// A person could not sign in.
    #[error("{message}")]
    SignIn {
        /// What prevented it.
        message: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// Results cannot be written.
    #[error("cannot write the result")]
    Output(#[from] std::io::Error),
}

fn class_and_message(failure: Option<&(String, String)>) -> String {
    failure.map_or_else(String::new, |(class, message)| format!(" ({class}): {message}"))
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    pub(crate) fn usage_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn file(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }

    /// Whether Canyon refuses it to this caller.
    #[cfg(feature = "local")]
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Client(error) if error.status() == Some(403))
    }

    /// The same error; if Canyon refuses a request that only a run on this machine needs, it says what that needs.
    #[cfg(feature = "local")]
    pub(crate) fn of_local_run(mut self) -> Self {
        if let Self::Client(ClientError::Refused { status: 403, body, .. }) = &mut self {
            "--local registers this machine as an agent for a while, and adopts it: your token needs the role `admin` in \
             the organization for that"
                .clone_into(&mut body.message);
        }
        self
    }

    /// The exit code for this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. }
            | Self::MissingSetting { .. }
            | Self::File { .. }
            | Self::Yaml(_)
            | Self::Assignment(_)
            | Self::Ambiguous { .. } => Exit::Usage,
            Self::Explained { refusal: source, .. }
            | Self::Client(source)
            | Self::ConnectionLost { source, .. } => of_client(source),
            Self::Deployment { .. }
            | Self::TooManyDeletions { .. }
            | Self::DeletionFailed { .. }
            | Self::NotConfirmed => Exit::DeploymentFailed,
            Self::DeletionContinues { is_interrupted: true, .. } => Exit::Interrupted,
            Self::TimedOut { .. } | Self::DeletionContinues { .. } => Exit::TimedOut,
            Self::SignIn { .. } => Exit::Refused,
            Self::Absent { .. } => Exit::NotFound,
            Self::Obstacle { .. } => Exit::Conflict,
            Self::Detached { .. } | Self::Interrupted => Exit::Interrupted,
            #[cfg(feature = "local")]
            Self::Local(_) => Exit::Server,
            Self::Runtime(_) | Self::Output(_) => Exit::Server,
        }
    }

    /// The details, as lines: of a refusal the invalid fields and the environments that prevent the change; or the
    /// deployments to choose from.
    pub(crate) fn details(&self) -> Vec<String> {
        if let Self::Obstacle { details: lines, .. } | Self::Ambiguous { matches: lines, .. } = self
        {
            return shortened(lines.clone());
        }
        let (Self::Client(ClientError::Refused { body, .. })
        | Self::Explained { refusal: ClientError::Refused { body, .. }, .. }) = self
        else {
            return Vec::new();
        };
        let list = |name: &str| {
            let list = body.details.get(name).and_then(Value::as_array);
            list.map(Vec::as_slice).unwrap_or_default()
        };
        let environments: Vec<String> =
            list("environments").iter().filter_map(environment_line).collect();
        let fields = list("fields");
        let mut lines: Vec<String> = match repeated(body) {
            // The message is the whole sentence about the one field.
            Some(1) => Vec::new(),
            Some(_) | None => fields.iter().filter_map(field_line).collect(),
        };
        lines.extend(shortened(environments));
        lines
    }

    /// The first line: the message, unless the lines of [`Self::details`] say all of it.
    pub(crate) fn headline(&self) -> String {
        match self {
            Self::Client(ClientError::Refused { body, .. })
            | Self::Explained { refusal: ClientError::Refused { body, .. }, .. } => {
                match repeated(body) {
                    Some(count) if count > 1 => format!("the request has {count} faults"),
                    Some(_) | None => self.to_string(),
                }
            }
            _ => self.to_string(),
        }
    }
}

/// More environments or deployments than this do not help the user.
const MAX_LINES: usize = 20;

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// How many fields a refusal names, if its message repeats the reason of each.
fn repeated(body: &ErrorBody) -> Option<usize> {
    let fields = body.details.get("fields")?.as_array()?;
    let reasons = fields.iter().map(|field| field.get("reason").and_then(Value::as_str));
    let repeats = |reason: Option<&str>| reason.is_some_and(|reason| body.message.contains(reason));
    reasons.into_iter().all(repeats).then_some(fields.len())
}

fn field_line(field: &Value) -> Option<String> {
    let text = |name: &str| field.get(name).and_then(Value::as_str);
    let path = text("path").filter(|path| !matches!(*path, "" | ".")).unwrap_or("the body");
    text("reason").map(|reason| format!("{path}: {reason}"))
}

fn environment_line(environment: &Value) -> Option<String> {
    let text = |name: &str| environment.get(name).and_then(Value::as_str);
    Some(format!("environment {}/{}", text("project_id")?, text("id")?))
}

impl From<AssignmentError> for CliError {
    fn from(error: AssignmentError) -> Self {
        Self::Assignment(error)
    }
}

fn of_client(error: &ClientError) -> Exit {
    match error.status() {
        Some(403) => Exit::Forbidden,
        Some(404) => Exit::NotFound,
        Some(409) => Exit::Conflict,
        Some(400..=499) => Exit::Refused,
        Some(_) => Exit::Server,
        None => Exit::Unreachable,
    }
}
