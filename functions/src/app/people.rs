//! Signs people in, with tokens of an identity provider.

use super::App;
use super::token_exchange::{Denied, Issued};
use canyon_domain::audit::AuditRecord;
use canyon_domain::identity_provider::Person;
use canyon_domain::ids::{IdentityProviderId, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::principal::{Principal, SignIn};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

impl App {
    /// A token for the person whom a token of the provider `id` names.
    pub(super) async fn exchange_for_person(
        &self,
        org: Organization,
        id: &str,
        subject_token: &SecretString,
    ) -> Result<Issued, Denied> {
        let id: IdentityProviderId = id.parse().map_err(|_| Denied::Unknown)?;
        let provider = self.table.identity_provider(org.uuid, &id).await?.ok_or(Denied::Unknown)?;
        let admission = self.admit(provider.uuid, &[provider.policy()], subject_token).await;
        let admission = admission
            .map_err(|denied| denied.named(format_args!("client of identity provider `{id}`")))?;
        let now = self.now();
        let person = provider.admit(&admission.claims, now).map_err(|reason| {
            tracing::info!(identity_provider = %id, %reason, "refused a sign-in");
            Denied::Known(reason.to_string())
        })?;
        let Person { subject, name, role, scoped_roles, until } = person;
        let principal = Principal {
            id: principal_of(provider.uuid, &subject),
            org: org.uuid,
            org_id: org.id,
            role,
            scoped_roles,
            runner: None,
            operator: false,
            sign_in: SignIn::default(),
        };
        let known = KnownPrincipal::new(principal.id, &name);
        let known = known.or_else(|| KnownPrincipal::new(principal.id, &subject));
        let record = AuditRecord {
            details: vec![format!("sub: {}", subject.escape_debug())],
            ..self.record(&principal, "person.sign_in", format!("identity-providers/{id}"))
        };
        let life = until.duration_since(now).unsigned_abs();
        self.issue(principal, provider.grant(), life, known, &record).await
    }
}

/// The principal that a person is. No other provider, and no later one with the same id, has a person with this
/// principal: a provider's uuid is never reused.
fn principal_of(provider: Uuid, subject: &str) -> PrincipalId {
    let digest = Sha256::new().chain_update(provider.as_bytes()).chain_update(subject).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    PrincipalId(Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_one_principal_for_each_provider() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(principal_of(one, "ada"), principal_of(one, "ada"));
        assert_ne!(principal_of(one, "ada"), principal_of(one, "grace"));
        assert_ne!(principal_of(one, "ada"), principal_of(other, "ada"));
    }
}
