//! Keys of what callers sign in with.

use super::{Key, org};
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::{IdentityProviderId, OrgUuid, PrincipalId, ServiceAccountId};
use uuid::Uuid;

/// A token by the hash of its secret. The only item that Canyon finds without an organization: the
/// token names it.
pub fn token_by_secret(hash: &SecretHash) -> Key {
    Key::new(format!("token#{}", hash.0), "T")
}

/// A token in its organization's list.
pub fn token(of: OrgUuid, id: Uuid) -> Key {
    Key::new(tokens(of), id.to_string())
}

/// Partition of an organization's tokens.
pub fn tokens(of: OrgUuid) -> String {
    format!("{}#tokens", org(of))
}

/// A service account.
pub fn service_account(of: OrgUuid, id: &ServiceAccountId) -> Key {
    Key::new(service_accounts(of), id.as_str())
}

/// Partition of an organization's service accounts.
pub fn service_accounts(of: OrgUuid) -> String {
    format!("{}#serviceaccounts", org(of))
}

/// An identity provider.
pub fn identity_provider(of: OrgUuid, id: &IdentityProviderId) -> Key {
    Key::new(identity_providers(of), id.as_str())
}

/// Partition of the identity providers of an organization, by id.
pub fn identity_providers(of: OrgUuid) -> String {
    format!("{}#identityproviders", org(of))
}

/// The name of a principal.
pub fn known_principal(of: OrgUuid, id: PrincipalId) -> Key {
    Key::new(known_principals(of), id.0.simple().to_string())
}

/// Partition of the names of an organization's principals.
pub fn known_principals(of: OrgUuid) -> String {
    format!("{}#principals", org(of))
}
