//! Principals and their roles.

use crate::ids::{OrgId, OrgUuid, PrincipalId, ProjectId, RunnerId};
use crate::scoped_role::{ScopedRole, Target};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A role in an organization. From the viewer on, later includes earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No permission in the whole organization; only scoped roles apply.
    None,
    /// Polls for the work of agents, and nothing else.
    Agent,
    /// Reads everything but secrets.
    Viewer,
    /// Also deploys and cancels.
    Deployer,
    /// Also changes runners, rules, projects and tokens.
    Admin,
}

impl Role {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Agent => "agent",
            Self::Viewer => "viewer",
            Self::Deployer => "deployer",
            Self::Admin => "admin",
        }
    }
}

/// An authenticated person or machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Its id, as in audit records.
    pub id: PrincipalId,
    /// Its organization; every key starts with this uuid.
    pub org: OrgUuid,
    /// The name of its organization, to compare with the path.
    pub org_id: OrgId,
    /// Its role in the whole organization.
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// With the role `agent`: the only runner that it may serve; `None`: any of its organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Whether it may create organizations.
    #[serde(default)]
    pub operator: bool,
}

impl Principal {
    /// The operator of an installation, who may create organizations and belongs to none.
    pub fn operator() -> Self {
        let (id, org) = (PrincipalId(Uuid::nil()), OrgUuid(Uuid::nil()));
        let org_id = OrgId::of_none();
        let (role, scoped_roles) = (Role::Viewer, Vec::new());
        Self { id, org, org_id, role, scoped_roles, runner: None, operator: true }
    }

    /// Whether it belongs to the organization of a path.
    pub fn is_of(&self, org: &str) -> bool {
        !self.org.0.is_nil() && self.org_id.as_str() == org
    }

    /// Its highest role for the whole of `target`.
    pub fn role_in(&self, target: Target<'_>) -> Role {
        let there = self.scoped_roles.iter().filter(|scoped| scoped.covers(target));
        there.map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// Its highest role in any scope.
    pub fn highest_role(&self) -> Role {
        self.scoped_roles.iter().map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// Whether it may see the project and its name: it may read something in it.
    pub fn sees_project(&self, project: &ProjectId) -> bool {
        self.role >= Role::Viewer || self.scoped_roles.iter().any(|scoped| scoped.reaches(project))
    }

    /// The roles of a reader that may read the same as this principal, and change nothing.
    pub fn as_reader(&self) -> (Role, Vec<ScopedRole>) {
        if self.role >= Role::Viewer {
            return (Role::Viewer, Vec::new());
        }
        let reader = |scoped: &ScopedRole| ScopedRole { role: Role::Viewer, ..scoped.clone() };
        (Role::None, self.scoped_roles.iter().map(reader).collect())
    }

    /// The roles by which it acts, for audit records.
    pub fn right(&self) -> String {
        if self.org.0.is_nil() {
            return "operator".to_owned();
        }
        let scoped = self.scoped_roles.iter().map(ScopedRole::to_string);
        let whole = Some(self.role.as_str().to_owned()).filter(|_| self.role != Role::None);
        whole.into_iter().chain(scoped).collect::<Vec<_>>().join("; ")
    }
}
