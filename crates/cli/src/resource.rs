//! The kinds of resources and their paths in the API.

use crate::error::CliError;
use crate::hint;
use crate::plain_resource::PlainKind;
use canyon_api::client::{Client, ClientError};
use serde_json::Value;

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Runner,
    RunnerRule,
    Project,
    Environment,
    Plain(PlainKind),
    ConcurrencyLimit,
    Agent,
    Token,
    /// The organization of the settings: its path is empty.
    Organization,
}

impl Kind {
    /// The kind's name in texts.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::RunnerRule => "runner rule",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::Plain(kind) => kind.noun(),
            Self::ConcurrencyLimit => "limit",
            Self::Agent => "agent",
            Self::Token => "token",
            Self::Organization => "organization",
        }
    }

    /// The columns of a list.
    pub(crate) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Runner => &["id", "type", "state", "disabled", "description", "updated_at"],
            Self::RunnerRule => {
                &["id", "runner_id", "project_id", "env_type_id", "fallback_runner_ids"]
            }
            Self::Project => &["id", "display_name", "status", "created_at"],
            Self::Environment => &ENVIRONMENT_COLUMNS,
            Self::Plain(kind) => kind.columns(),
            Self::ConcurrencyLimit => &["scope", "max_jobs", "held_by", "updated_at"],
            Self::Agent => &AGENT_COLUMNS,
            Self::Token => {
                &["id", "role", "scoped_roles", "description", "created_at", "expires_at"]
            }
            Self::Organization => &["id", "agent_requests", "created_at"],
        }
    }
}

/// Columns that may be long are last.
const ENVIRONMENT_COLUMNS: [&str; 7] =
    ["project_id", "id", "env_type_id", "runner_id", "status", "resources", "display_name"];

/// Columns that may be long are last.
const AGENT_COLUMNS: [&str; 11] = [
    "id",
    "state",
    "disabled",
    "availability",
    "runner_id",
    "labels",
    "session",
    "load",
    "version",
    "last_seen",
    "last_error",
];

/// One resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    /// The project that an environment is in.
    pub(crate) project: Option<String>,
    pub(crate) id: String,
}

impl Resource {
    pub(crate) fn new(kind: Kind, id: String) -> Self {
        Self { kind, project: None, id }
    }

    pub(crate) fn environment(project: String, id: String) -> Self {
        Self { kind: Kind::Environment, project: Some(project), id }
    }

    /// Its id, after the id of its project if it has one.
    pub(crate) fn full_name(&self) -> String {
        match &self.project {
            Some(project) => format!("{project}/{}", self.id),
            None => self.id.clone(),
        }
    }

    /// The path of the list that contains it.
    pub(crate) fn collection(&self) -> Vec<&str> {
        collection(self.kind, self.project.as_deref())
    }

    /// Its own path.
    pub(crate) fn path(&self) -> Vec<&str> {
        let mut path = self.collection();
        if self.kind != Kind::Organization {
            path.push(&self.id);
        }
        path
    }

    /// Adds the most similar name to a 404. If the project of an environment is missing, the error is about the project.
    pub(crate) async fn explain(&self, client: &Client, error: ClientError) -> CliError {
        if error.status() != Some(404) || self.kind == Kind::Organization {
            return error.into();
        }
        if let Some(project) = &self.project {
            let project = Self::new(Kind::Project, project.clone());
            if let Err(missing) = client.get(&project.path()).await
                && missing.status() == Some(404)
            {
                return project.with_nearest(client, missing).await;
            }
        }
        self.with_nearest(client, error).await
    }

    /// Adds the most similar name, if the caller sees one.
    async fn with_nearest(&self, client: &Client, error: ClientError) -> CliError {
        match self.nearest(client).await {
            Some(nearest) => {
                let hint = format!("did you mean `{nearest}`?");
                CliError::Explained { refusal: error, hint }
            }
            // The server says of a text that is no id at all only that.
            None if matches!(self.kind, Kind::RunnerRule | Kind::Token) => {
                let (noun, id) = (self.kind.noun(), &self.id);
                let plural = noun.replace(' ', "-");
                CliError::Absent {
                    message: format!("there is no {noun} `{id}`"),
                    hint: format!("list them with their ids: canyon list {plural}s"),
                }
            }
            None => error.into(),
        }
    }

    /// After an empty list of deployments: refuses the project or the environment of its filter if that does not exist.
    pub(crate) async fn require_filtered(
        client: &Client,
        project: Option<&str>,
        environment: Option<&str>,
    ) -> Result<(), CliError> {
        let named = match (project, environment) {
            (Some(project), Some(id)) => Self::environment(project.to_owned(), id.to_owned()),
            (Some(project), None) => Self::new(Kind::Project, project.to_owned()),
            (None, _) => return Ok(()),
        };
        named.require(client).await
    }

    /// After an empty list: refuses the resource of its filter if that does not exist.
    pub(crate) async fn require(&self, client: &Client) -> Result<(), CliError> {
        match self.absence(client).await {
            Some(error) => Err(self.explain(client, error).await),
            None => Ok(()),
        }
    }

    /// The refusal to read it, if it does not exist. A caller may see what is in a thing and not the thing itself, so no
    /// other refusal counts.
    pub(crate) async fn absence(&self, client: &Client) -> Option<ClientError> {
        let refusal = client.get(&self.path()).await.err()?;
        if refusal.status() != Some(404) {
            return None;
        }
        // The id of a project may be that of a group of projects.
        let group = format!("{}/", self.id);
        let is_group = self.kind == Kind::Project
            && self
                .siblings(client)
                .await
                .is_some_and(|projects| projects.iter().any(|one| one.starts_with(&group)));
        (!is_group).then_some(refusal)
    }

    /// The id, of those that the caller sees, that this one is probably a misspelling of.
    pub(crate) async fn nearest(&self, client: &Client) -> Option<String> {
        hint::nearest(&self.id, &self.siblings(client).await?).map(str::to_owned)
    }

    /// The ids in the list that would contain this resource, as far as the caller sees them.
    async fn siblings(&self, client: &Client) -> Option<Vec<String>> {
        let items = client.list(&self.collection(), &[]).await.ok()?;
        let id = |item: &Value| item.get("id").and_then(Value::as_str).map(str::to_owned);
        Some(items.iter().filter_map(id).collect())
    }

    /// Adds to the refusal of a request that names a missing project or environment what the caller sees instead.
    pub(crate) async fn explain_target(
        project: &str,
        environment: &str,
        client: &Client,
        error: ClientError,
    ) -> CliError {
        let missing = match &error {
            ClientError::Refused { body, .. } if error.status() == Some(409) => {
                match body.details.get("fields").and_then(|fields| fields[0]["path"].as_str()) {
                    Some("project_id") => Self::new(Kind::Project, project.to_owned()),
                    Some("env_id") => Self::environment(project.to_owned(), environment.to_owned()),
                    _ => return error.into(),
                }
            }
            _ => return error.into(),
        };
        let Some(seen) = missing.siblings(client).await else { return error.into() };
        let hint = match (hint::nearest(&missing.id, &seen), &seen[..]) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, []) => return error.into(),
            (None, seen) => {
                let shown = &seen[..seen.len().min(MAX_NAMES)];
                let rest = if seen.len() > MAX_NAMES { ", and others" } else { "" };
                format!("your token sees `{}`{rest}", shown.join("`, `"))
            }
        };
        CliError::Explained { refusal: error, hint }
    }
}

/// More names than this do not fit a line.
const MAX_NAMES: usize = 8;

/// The path of the list of a kind.
pub(crate) fn collection(kind: Kind, project: Option<&str>) -> Vec<&str> {
    match (kind, project) {
        (Kind::Runner, _) => vec!["runners"],
        (Kind::RunnerRule, _) => vec!["runner-rules"],
        (Kind::Project, _) => vec!["projects"],
        (Kind::Environment, Some(project)) => vec!["projects", project, "envs"],
        (Kind::Environment, None) => vec!["envs"],
        (Kind::Plain(kind), _) => kind.path().collect(),
        (Kind::ConcurrencyLimit, _) => vec!["concurrency-limits"],
        (Kind::Agent, _) => vec!["agents"],
        (Kind::Token, _) => vec!["tokens"],
        (Kind::Organization, _) => Vec::new(),
    }
}
