//! Signs people in, with tokens of an identity provider.

use super::App;
use super::token_exchange::{Denied, Issued, denied};
use canyon_domain::audit::AuditRecord;
use canyon_domain::identity_provider::{IdentityProvider, Person};
use canyon_domain::ids::{IdentityProviderId, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::principal::{Principal, SignIn};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use uuid::Builder;

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
        let admission = self.verified(&[provider.policy()], subject_token).await;
        let admission = admission.map_err(|refusal| {
            denied(&refusal, format_args!("client of identity provider `{id}`"))
        })?;
        let now = self.now();
        let person = provider.admit(&admission.claims, now).map_err(|reason| {
            tracing::info!(identity_provider = %id, %reason, "refused a sign-in");
            Denied::Known(reason.to_string())
        })?;
        let Person { subject, name, role, scoped_roles, groups, until } = person;
        let id_of_person = principal_of(&provider, &subject);
        // Each person has an allowance of its own: one without a role, or with a faulty program, delays no other.
        self.count_sign_in(id_of_person.0)?;
        let principal = Principal {
            id: id_of_person,
            org: org.uuid,
            org_id: org.id,
            role,
            scoped_roles,
            runner: None,
            operator: false,
            sign_in: SignIn { groups, ..SignIn::default() },
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
/// principal: a provider's uuid is never reused. Nor has the same provider, when it gets another issuer: `sub` is the
/// issuer's.
fn principal_of(provider: &IdentityProvider, subject: &str) -> PrincipalId {
    let digest = Sha256::new()
        .chain_update(provider.uuid.as_bytes())
        .chain_update(provider.issuer.as_str())
        // No issuer has this byte.
        .chain_update([0])
        .chain_update(subject)
        .finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    PrincipalId(Builder::from_custom_bytes(bytes).into_uuid())
}
