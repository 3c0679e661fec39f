//! Machines that sign in without a secret of Canyon's: by a token of an issuer that a policy trusts.

use crate::field_error::FieldErrors;
use crate::ids::{PrincipalId, RunnerId, ServiceAccountId};
use crate::principal::Role;
use crate::scoped_role::ScopedRole;
use crate::trust_policy::TrustPolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The most trust policies of a service account.
pub const MAX_POLICIES: usize = 10;

/// "Whoever shows a token that one of these policies trusts is this principal."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAccount {
    /// Its name.
    pub id: ServiceAccountId,
    /// This life of it. It is the principal's id, so audit records name it.
    pub uuid: Uuid,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What it may do in the whole organization.
    pub role: Role,
    /// What else it may do in parts of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// For the role `agent`: only as agent of this runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Who may sign in as it.
    pub trust_policies: Vec<TrustPolicy>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Grows with each change. A token is good for the version that it was issued under.
    pub version: u64,
}

impl ServiceAccount {
    /// Whom its callers act as.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(self.uuid)
    }

    /// What a token may do that the policy with this index has let in.
    pub fn roles_by(&self, policy: usize) -> (Role, Vec<ScopedRole>) {
        match self.trust_policies.get(policy) {
            Some(policy) if !policy.scoped_roles.is_empty() => {
                (Role::None, policy.scoped_roles.clone())
            }
            _ => (self.role, self.scoped_roles.clone()),
        }
    }

    /// Notes which policies would allow more than the service account may do.
    pub fn check_policies(&self, faults: &mut FieldErrors) {
        let allows = |narrow: &ScopedRole| {
            let whole = self.role >= Role::Viewer && self.role >= narrow.role;
            whole || self.scoped_roles.iter().any(|own| own.includes(narrow))
        };
        for (index, policy) in self.trust_policies.iter().enumerate() {
            for (place, narrow) in policy.scoped_roles.iter().enumerate() {
                if !allows(narrow) {
                    faults.add(
                        format!("trust_policies[{index}].scoped_roles[{place}]"),
                        "allows more than the service account itself may do: widen its `role` or `scoped_roles`",
                    );
                }
            }
        }
    }

    /// What a token that is issued now is bound to.
    pub fn grant(&self) -> Grant {
        Grant { service_account: self.id.clone(), uuid: self.uuid, version: self.version }
    }
}

/// What a token was issued under. It is good while that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The service account.
    pub service_account: ServiceAccountId,
    /// Which life of it.
    pub uuid: Uuid,
    /// Which version of that.
    pub version: u64,
}

impl Grant {
    /// Whether `now` is the service account as it was when the token was issued.
    pub fn stands(&self, now: Option<&ServiceAccount>) -> bool {
        now.is_some_and(|now| now.uuid == self.uuid && now.version == self.version)
    }
}
