//! What an issued token depends on: the service account or the identity provider by which its holder has signed in.

use crate::ids::{IdentityProviderId, ServiceAccountId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The state of the resource by which a token was issued. The token is valid while that state is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The resource.
    #[serde(flatten)]
    pub by: GrantedBy,
    /// Its uuid. Unlike an id, a uuid is never reused.
    pub uuid: Uuid,
    /// Its version, which increases with each change.
    pub version: u64,
}

/// A resource by which callers sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantedBy {
    /// A service account, for a machine.
    ServiceAccount(ServiceAccountId),
    /// An identity provider, for a person.
    IdentityProvider(IdentityProviderId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_of_a_service_account_is_stored_as_earlier_versions_stored_it() {
        let stored =
            r#"{"service_account":"ci","uuid":"00000000-0000-0000-0000-000000000007","version":3}"#;
        let grant: Grant = serde_json::from_str(stored).unwrap();
        assert_eq!(grant.by, GrantedBy::ServiceAccount("ci".parse().unwrap()));
        assert_eq!(serde_json::to_string(&grant).unwrap(), stored);
    }
}
