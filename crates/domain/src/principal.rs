//! Who may do what.

use crate::ids::{OrgId, OrgUuid, PrincipalId, ProjectId, RunnerId};
use crate::scoped_role::{ScopedRole, Target};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a principal may do in its organization. From the viewer on, later includes earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Nothing in the whole organization: what scoped roles allow, and no more.
    None,
    /// Asks for the work of agents, and for nothing else.
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

/// A person or machine that has proved who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Its id, which stands in audit records.
    pub id: PrincipalId,
    /// Its organization; every key is made from this one.
    pub org: OrgUuid,
    /// The name of its organization, to compare with the path.
    pub org_id: OrgId,
    /// What it may do in the whole organization.
    pub role: Role,
    /// What else it may do in parts of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// With the role `agent`: the only runner that it may serve; any of its organization without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Whether it may make further organizations.
    #[serde(default)]
    pub operator: bool,
}

impl Principal {
    /// The operator of an installation, who may make organizations and is of none of them.
    pub fn operator() -> Self {
        let (id, org) = (PrincipalId(Uuid::nil()), OrgUuid(Uuid::nil()));
        let org_id = OrgId::of_none();
        let (role, scoped_roles) = (Role::Viewer, Vec::new());
        Self { id, org, org_id, role, scoped_roles, runner: None, operator: true }
    }

    /// Whether it belongs to the organization that a path names.
    pub fn is_of(&self, org: &str) -> bool {
        !self.org.0.is_nil() && self.org_id.as_str() == org
    }

    /// Its role for all of `target`: the highest that it has there.
    pub fn role_in(&self, target: Target<'_>) -> Role {
        let there = self.scoped_roles.iter().filter(|scoped| scoped.covers(target));
        there.map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// The highest role that it has anywhere.
    pub fn highest_role(&self) -> Role {
        self.scoped_roles.iter().map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// Whether it may read that the project is there, and what it is called: it may read something in it.
    pub fn sees_project(&self, project: &ProjectId) -> bool {
        self.role >= Role::Viewer || self.scoped_roles.iter().any(|scoped| scoped.reaches(project))
    }

    /// What it may read, as the roles of one that reads in its name.
    pub fn as_reader(&self) -> (Role, Vec<ScopedRole>) {
        if self.role >= Role::Viewer {
            return (Role::Viewer, Vec::new());
        }
        let reader = |scoped: &ScopedRole| ScopedRole { role: Role::Viewer, ..scoped.clone() };
        (Role::None, self.scoped_roles.iter().map(reader).collect())
    }

    /// By what right it acts, for audit records.
    pub fn right(&self) -> String {
        if self.org.0.is_nil() {
            return "operator".to_owned();
        }
        let scoped = self.scoped_roles.iter().map(ScopedRole::to_string);
        let whole = Some(self.role.as_str().to_owned()).filter(|_| self.role != Role::None);
        whole.into_iter().chain(scoped).collect::<Vec<_>>().join("; ")
    }
}
