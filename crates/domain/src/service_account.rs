//! Machines that sign in without a secret from Canyon: with a token of an issuer that a policy trusts.

use crate::field_error::FieldErrors;
use crate::grant::{Grant, GrantedBy};
use crate::ids::{PrincipalId, RunnerId, ServiceAccountId};
use crate::principal::Role;
use crate::scoped_role::ScopedRole;
use crate::trust_policy::TrustPolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum number of trust policies of a service account.
pub const MAX_POLICIES: usize = 10;

/// "A caller with a token that one of these policies trusts is this principal."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAccount {
    /// Its name.
    pub id: ServiceAccountId,
    /// Its uuid, which is the principal's id in audit records. Unlike the name, a uuid is never reused.
    pub uuid: Uuid,
    /// Its purpose, for users.
    #[serde(default)]
    pub description: String,
    /// Its role in the whole organization.
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// With the role `agent`: the only runner that it may serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// The tokens that may sign in as it.
    pub trust_policies: Vec<TrustPolicy>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with each change. A token is valid only for the version for which it was issued.
    pub version: u64,
}

impl ServiceAccount {
    /// The principal of its callers.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(self.uuid)
    }

    /// The roles of a token that the policy with this index has admitted.
    pub fn roles_by(&self, policy: usize) -> (Role, Vec<ScopedRole>) {
        match self.trust_policies.get(policy) {
            Some(policy) if !policy.scoped_roles.is_empty() => {
                (Role::None, policy.scoped_roles.clone())
            }
            _ => (self.role, self.scoped_roles.clone()),
        }
    }

    /// Notes the policies that would allow more than the service account.
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

    /// The grant of a token that is issued now.
    pub fn grant(&self) -> Grant {
        let by = GrantedBy::ServiceAccount(self.id.clone());
        Grant { by, uuid: self.uuid, version: self.version }
    }
}
