//! Machines that sign in without a secret of Canyon's: by a token of an issuer that a policy trusts.

use crate::ids::{PrincipalId, RunnerId, ServiceAccountId};
use crate::principal::Role;
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
    /// What it may do.
    pub role: Role,
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
