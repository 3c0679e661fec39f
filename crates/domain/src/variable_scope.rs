//! What a set of variables applies to.

use crate::ids::{EnvId, EnvTypeId, InvalidId, ProjectId, RunnerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a set of variables applies to. The order is that of precedence: of two scopes the later one wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VariableScope {
    /// The runs on a runner, of whichever environment.
    Runner(RunnerId),
    /// Every environment.
    Organization,
    /// The environments of a project, or of the projects of a group.
    Project(ProjectId),
    /// The environments of a type.
    EnvType(EnvTypeId),
    /// One environment.
    Environment(ProjectId, EnvId),
}

/// What determines which scopes cover a run.
#[derive(Clone, Copy, Debug)]
pub struct VariableTarget<'a> {
    /// The runner of the run.
    pub runner: &'a RunnerId,
    /// The project.
    pub project: &'a ProjectId,
    /// The environment.
    pub env: &'a EnvId,
    /// Its type.
    pub env_type: &'a EnvTypeId,
}

/// Why a text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// It has no known prefix.
    #[error(
        "use `runner:ID`, `organization`, `project:ID`, `env-type:ID` or `environment:PROJECT/ENV`"
    )]
    Kind,
    /// Its id is invalid.
    #[error(transparent)]
    Id(#[from] InvalidId),
}

impl VariableScope {
    /// Every scope that covers a run, the widest first: the runner, the organization, the project's groups and the
    /// project, the type, the environment.
    pub fn covering(run: VariableTarget<'_>) -> Vec<Self> {
        let VariableTarget { runner, project, env, env_type } = run;
        let mut scopes = vec![Self::Runner(runner.clone()), Self::Organization];
        scopes.extend(project.path().map(Self::Project));
        scopes.push(Self::EnvType(env_type.clone()));
        scopes.push(Self::Environment(project.clone(), env.clone()));
        scopes
    }

    /// Whether it is one of [`Self::covering`].
    pub fn covers(&self, run: VariableTarget<'_>) -> bool {
        match self {
            Self::Runner(id) => id == run.runner,
            Self::Organization => true,
            Self::Project(id) => id.contains(run.project),
            Self::EnvType(id) => id == run.env_type,
            Self::Environment(project, env) => project == run.project && env == run.env,
        }
    }
}

impl VariableScope {
    /// The path below the organization of what is kept for the scope, such as `variables`: for audit records.
    pub fn path_of(&self, kept: &str) -> String {
        match self {
            Self::Runner(id) => format!("runners/{id}/{kept}"),
            Self::Organization => kept.to_owned(),
            Self::Project(id) => format!("projects/{id}/{kept}"),
            Self::EnvType(id) => format!("env-types/{id}/{kept}"),
            Self::Environment(project, env) => format!("projects/{project}/envs/{env}/{kept}"),
        }
    }
}

impl FromStr for VariableScope {
    type Err = InvalidScope;
    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        match text.split_once(':') {
            None if text == "organization" => Ok(Self::Organization),
            Some(("runner", id)) => Ok(Self::Runner(id.parse()?)),
            Some(("project", id)) => Ok(Self::Project(id.parse()?)),
            Some(("env-type", id)) => Ok(Self::EnvType(id.parse()?)),
            Some(("environment", path)) => {
                let (project, env) = path.rsplit_once('/').ok_or(InvalidScope::Kind)?;
                Ok(Self::Environment(project.parse()?, env.parse()?))
            }
            _ => Err(InvalidScope::Kind),
        }
    }
}

impl TryFrom<String> for VariableScope {
    type Error = InvalidScope;
    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl From<VariableScope> for String {
    fn from(scope: VariableScope) -> Self {
        scope.to_string()
    }
}

impl fmt::Display for VariableScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runner(id) => write!(f, "runner:{id}"),
            Self::Organization => f.write_str("organization"),
            Self::Project(id) => write!(f, "project:{id}"),
            Self::EnvType(id) => write!(f, "env-type:{id}"),
            Self::Environment(project, env) => write!(f, "environment:{project}/{env}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_one_spelling() {
        for text in [
            "runner:a1",
            "organization",
            "project:pay/shop",
            "env-type:production",
            "environment:pay/shop/dev",
        ] {
            assert_eq!(text.parse::<VariableScope>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "org",
            "project",
            "project:",
            "runner",
            "runner:",
            "runner:A",
            "runner:pay/a",
            "agent:a1",
            "environment:dev",
            "environment:shop/",
        ] {
            assert!(text.parse::<VariableScope>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_is_covered_from_its_runner_and_the_organization_to_its_environment() {
        let run = VariableTarget {
            runner: &"eu".parse().unwrap(),
            project: &"pay/eu/shop".parse().unwrap(),
            env: &"dev".parse().unwrap(),
            env_type: &"development".parse().unwrap(),
        };
        let covering = VariableScope::covering(run);
        let texts: Vec<_> = covering.iter().map(ToString::to_string).collect();
        let expected = [
            "runner:eu",
            "organization",
            "project:pay",
            "project:pay/eu",
            "project:pay/eu/shop",
            "env-type:development",
            "environment:pay/eu/shop/dev",
        ];
        assert_eq!(texts, expected);
        assert!(covering.is_sorted(), "the order of scopes is that of precedence");
        for text in expected.iter().chain(&[
            "runner:us",
            "project:pay/eu/shop/api",
            "project:pay-eu",
            "env-type:dev",
            "environment:pay/eu/shop/development",
            "environment:pay/eu/dev",
        ]) {
            let scope: VariableScope = text.parse().unwrap();
            assert_eq!(scope.covers(run), expected.contains(text), "{text}");
        }
    }

    #[test]
    fn audit_records_name_the_path_of_what_a_scope_keeps() {
        let path = |text: &str| text.parse::<VariableScope>().unwrap().path_of("variables");
        assert_eq!(path("runner:eu"), "runners/eu/variables");
        assert_eq!(path("organization"), "variables");
        assert_eq!(path("environment:pay/shop/dev"), "projects/pay/shop/envs/dev/variables");
    }
}
