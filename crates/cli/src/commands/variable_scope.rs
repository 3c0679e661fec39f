//! Which variables a command means: of which scope, and of which kind.

use crate::error::CliError;
use crate::plain_resource::PlainKind;
use crate::resource::{Kind as ResourceKind, Resource};
use canyon_api::client::{Client, ClientError};
use canyon_api::variable_set::VariableSet;
use clap::ValueEnum;

/// The runs that a variable is for.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Scope {
    /// For the environments of this project, or of the projects of this group
    #[arg(long, value_name = "ID", conflicts_with = "environment_type")]
    project: Option<String>,
    /// For this environment of the project alone
    #[arg(long, visible_alias = "environment", value_name = "ID", requires = "project")]
    env: Option<String>,
    /// For the environments of this type
    #[arg(long, visible_alias = "env-type", value_name = "ID")]
    environment_type: Option<String>,
    /// For the runs of every environment on this runner
    #[arg(long, value_name = "ID", conflicts_with_all = ["project", "env", "environment_type"])]
    runner: Option<String>,
}

impl Scope {
    /// The path of the set in the API; of the organization's set if no scope is given.
    pub(crate) fn path(&self) -> Vec<&str> {
        match self {
            Self { project: Some(project), env: Some(env), .. } => {
                vec!["projects", project, "envs", env, "variables"]
            }
            Self { project: Some(project), .. } => vec!["projects", project, "variables"],
            Self { environment_type: Some(id), .. } => vec!["env-types", id, "variables"],
            Self { runner: Some(id), .. } => vec!["runners", id, "variables"],
            Self { .. } => vec!["variables"],
        }
    }

    /// The scope as the API writes it; `None` if none is given.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self { project: Some(project), env: Some(env), .. } => {
                Some(format!("environment:{project}/{env}"))
            }
            Self { project: Some(project), .. } => Some(format!("project:{project}")),
            Self { environment_type: Some(id), .. } => Some(format!("env-type:{id}")),
            Self { runner: Some(id), .. } => Some(format!("runner:{id}")),
            Self { .. } => None,
        }
    }

    /// The object that the scope names; none for the organization.
    fn resource(&self) -> Option<Resource> {
        Some(match self {
            Self { project: Some(project), env: Some(env), .. } => {
                Resource::environment(project.clone(), env.clone())
            }
            Self { project: Some(id), .. } => Resource::new(ResourceKind::Project, id.clone()),
            Self { environment_type: Some(id), .. } => {
                Resource::new(ResourceKind::Plain(PlainKind::EnvironmentType), id.clone())
            }
            Self { runner: Some(id), .. } => Resource::new(ResourceKind::Runner, id.clone()),
            Self { .. } => return None,
        })
    }

    /// The variables of the scope.
    pub(crate) async fn read(&self, client: &Client) -> Result<VariableSet, CliError> {
        match client.variables(&self.path()).await {
            Ok(found) => Ok(found),
            Err(error) => Err(self.explain(client, error).await),
        }
    }

    /// Adds the most similar name to a 404 about the scope.
    pub(crate) async fn explain(&self, client: &Client, error: ClientError) -> CliError {
        match self.resource() {
            Some(resource) => resource.explain(client, error).await,
            None => error.into(),
        }
    }

    /// The flags that give it, each after a space.
    pub(crate) fn flags(&self) -> String {
        let of = |flag: &str, id: &Option<String>| {
            id.as_ref().map_or_else(String::new, |id| format!(" --{flag} {id}"))
        };
        let parts = [("project", &self.project), ("env", &self.env)];
        let others = [("environment-type", &self.environment_type), ("runner", &self.runner)];
        parts.into_iter().chain(others).map(|(flag, id)| of(flag, id)).collect()
    }

    pub(crate) fn is_given(&self) -> bool {
        self.project.is_some() || self.environment_type.is_some() || self.runner.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A variable of the module, if it declares it
    Terraform,
    /// A variable of OpenTofu's environment, for providers and programs of the module
    Environment,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::Environment => "environment",
        }
    }
}
