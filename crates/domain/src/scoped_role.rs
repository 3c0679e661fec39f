//! Roles that apply in a part of an organization.
//!
//! A [`Principal`](crate::principal::Principal) has one role in the whole organization, which may be
//! [`Role::None`], and scoped roles. For each resource, the highest role that covers it applies: a scoped
//! role only adds permissions.
//!
//! ```
//! use canyon_domain::principal::Role;
//! use canyon_domain::scoped_role::{ScopedRole, Target};
//!
//! let role = ScopedRole::new(Role::Deployer).in_project("payments".parse()?);
//! let (inside, beside) = ("payments/api".parse()?, "payments-eu".parse()?);
//! assert!(role.covers(Target::Project(&inside)));
//! assert!(!role.covers(Target::Project(&beside)));
//! assert!(!role.covers(Target::Organization));
//! # Ok::<(), canyon_domain::ids::InvalidId>(())
//! ```

use crate::field_error::FieldErrors;
use crate::ids::{EnvId, EnvTypeId, ProjectId};
use crate::role::Role;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of scoped roles of a principal.
pub const MAX_SCOPED_ROLES: usize = 20;

/// A role in the intersection of the scopes that it names. It names at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopedRole {
    /// The role: viewer, deployer or admin.
    pub role: Role,
    /// In this project, or in the projects of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// In environments of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type: Option<EnvTypeId>,
    /// In this environment of [`Self::project`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvId>,
}

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A resource of the whole organization: runners, rules, tokens.
    Organization,
    /// A project.
    Project(&'a ProjectId),
    /// An environment that is being created.
    NewEnvironment {
        /// Its project.
        project: &'a ProjectId,
        /// Its type.
        env_type: &'a EnvTypeId,
    },
    /// An environment and its deployments.
    Environment {
        /// Its project.
        project: &'a ProjectId,
        /// The environment.
        env: &'a EnvId,
        /// Its type; `None` for deployments that an earlier version accepted.
        env_type: Option<&'a EnvTypeId>,
    },
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organization => f.write_str("the whole organization"),
            Self::Project(id) => write!(f, "project `{id}`"),
            Self::NewEnvironment { project, env_type } => {
                write!(f, "project `{project}` for new environments of type `{env_type}`")
            }
            Self::Environment { project, env, .. } => {
                write!(f, "environment `{env}` of project `{project}`")
            }
        }
    }
}

impl ScopedRole {
    /// A role without a scope.
    pub fn new(role: Role) -> Self {
        Self { role, project: None, env_type: None, env: None }
    }

    /// The same role, limited to this project or group.
    #[must_use]
    pub fn in_project(self, project: ProjectId) -> Self {
        Self { project: Some(project), ..self }
    }

    /// Whether it applies to the whole of `target`.
    pub fn covers(&self, target: Target<'_>) -> bool {
        match target {
            Target::Organization => false,
            Target::Project(id) => {
                self.env_type.is_none()
                    && self.env.is_none()
                    && self.project.as_ref().is_some_and(|own| own.contains(id))
            }
            // A role for an environment's name may not create it, because its creator chooses the type, and
            // the type decides on the runner.
            Target::NewEnvironment { project, env_type } => {
                self.env.is_none() && self.reaches(project) && self.is_of_type(Some(env_type))
            }
            Target::Environment { project, env, env_type } => {
                self.reaches(project)
                    && self.env.as_ref().is_none_or(|own| own == env)
                    && self.is_of_type(env_type)
            }
        }
    }

    /// Whether it may apply to something in the project. An environment belongs to exactly one project, not
    /// to those below it.
    pub fn reaches(&self, project: &ProjectId) -> bool {
        match (&self.project, &self.env) {
            (None, _) => true,
            (Some(own), None) => own.contains(project),
            (Some(own), Some(_)) => own == project,
        }
    }

    fn is_of_type(&self, env_type: Option<&EnvTypeId>) -> bool {
        self.env_type.as_ref().is_none_or(|own| Some(own) == env_type)
    }

    /// Whether it allows everything that `other` does.
    pub fn includes(&self, other: &Self) -> bool {
        let same_project = match (&self.project, &other.project) {
            (None, _) => true,
            (Some(own), Some(theirs)) => own.contains(theirs),
            (Some(_), None) => false,
        };
        self.role >= other.role
            && same_project
            && (self.env.is_none() || self.env == other.env && self.project == other.project)
            && (self.env_type.is_none() || self.env_type == other.env_type)
    }

    /// Notes its faults, below `path`.
    pub fn check(&self, faults: &mut FieldErrors, path: &str) {
        if self.role < Role::Viewer {
            faults.add(format!("{path}.role"), "is `viewer`, `deployer` or `admin`");
        }
        if self.project.is_none() && self.env_type.is_none() {
            faults.add(
                path,
                "names a `project_id`, an `env_type_id` or both; for the whole organization use `role`",
            );
        }
        if self.env.is_some() && self.project.is_none() {
            faults.add(format!("{path}.env_id"), "needs its `project_id`");
        }
        if self.env.is_some() && self.env_type.is_some() {
            faults.add(format!("{path}.env_type_id"), "follows from the environment; leave it out");
        }
    }
}

/// Notes the faults of a principal's role and scoped roles together.
pub fn check_together(faults: &mut FieldErrors, role: Role, scoped: &[ScopedRole]) {
    match role {
        Role::None if scoped.is_empty() => {
            faults.add("role", "`none` needs `scoped_roles`: without them it has no permission");
        }
        Role::Agent if !scoped.is_empty() => {
            faults.add("scoped_roles", "cannot be used with the role `agent`");
        }
        _ => {}
    }
}

/// The scopes that both may read; `None` means everything.
pub fn intersection(
    one: Option<Vec<ScopedRole>>,
    other: Option<Vec<ScopedRole>>,
) -> Option<Vec<ScopedRole>> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (one, other) => return one.or(other),
    };
    let within = |narrow: &[ScopedRole], wide: &[ScopedRole]| -> Vec<ScopedRole> {
        let is_within = |role: &&ScopedRole| wide.iter().any(|wide| wide.includes(role));
        narrow.iter().filter(is_within).cloned().collect()
    };
    let mut shared = within(&one, &other);
    shared.extend(within(&other, &one).into_iter().filter(|role| !one.contains(role)));
    Some(shared)
}

/// For audit records: `deployer in project shop, environments of type dev`.
impl fmt::Display for ScopedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in ", self.role.as_str())?;
        match (&self.project, &self.env) {
            (Some(project), Some(env)) => write!(f, "environment {env} of project {project}")?,
            (Some(project), None) => write!(f, "project {project}")?,
            (None, _) => f.write_str("all projects")?,
        }
        match &self.env_type {
            Some(env_type) => write!(f, ", environments of type {env_type}"),
            None => Ok(()),
        }
    }
}

/// What a principal with these roles may do, as the details of an audit record.
pub fn granted(role: Role, scoped_roles: &[ScopedRole]) -> Vec<String> {
    let whole = (role != Role::None).then(|| format!("role: {}", role.as_str()));
    let scoped = scoped_roles.iter().map(|scoped| format!("role: {scoped}"));
    whole.into_iter().chain(scoped).collect()
}

#[cfg(test)]
#[path = "scoped_role_tests.rs"]
mod tests;
