//! Who may do what.

use crate::ids::{OrgId, OrgUuid, PrincipalId, RunnerId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a principal may do in its organization. From the viewer on, later includes earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
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
    /// What it may do.
    pub role: Role,
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
        Self { id, org, org_id: OrgId::of_none(), role: Role::Viewer, runner: None, operator: true }
    }

    /// Whether it belongs to the organization that a path names.
    pub fn is_of(&self, org: &str) -> bool {
        !self.org.0.is_nil() && self.org_id.as_str() == org
    }

    /// By what right it acts, for audit records.
    pub fn right(&self) -> &'static str {
        if self.org.0.is_nil() { "operator" } else { self.role.as_str() }
    }
}
