//! The exchange of another issuer's token for one of Canyon's.
//!
//! The caller has proved nothing yet. So before its signature is verified, a request costs two reads of the table and
//! a bounded number of calls to the issuer. All refusals are the same: they reveal neither which organizations, service
//! accounts and identity providers exist nor what was wrong. The log has the reason.

use super::App;
use canyon_domain::audit::AuditRecord;
use canyon_domain::grant::Grant;
use canyon_domain::ids::{OrgId, ServiceAccountId};
use canyon_domain::inventory::Organization;
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::ports::Clock;
use canyon_domain::principal::{Principal, SignIn};
use canyon_domain::trust_policy::TrustPolicy;
use canyon_identity::bearer;
use canyon_identity::verify::{
    Admission, Fetcher, IssuerKeys, PrivateIssuers, Refusal, SystemResolver, Verifier,
};
use canyon_store::StoreError;
use canyon_store::organizations::TokenRecord;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// The lifetime of a service account's token.
pub(crate) const LIFE: Duration = Duration::from_mins(15);
/// The most tokens that a service account or a person is issued at once after a quiet time, when a fleet
/// starts up.
const BURST: f64 = 1_000.0;
/// The tokens that it is issued each second after that. With [`LIFE`] they suffice for 45,000 callers.
const RATE: f64 = 50.0;
/// The most service accounts and people with a remembered rate. Beyond that, all are forgotten.
const MAX_BUCKETS: usize = 10_000;

/// Verifies the tokens of sign-ins, and limits their rate.
pub struct SignInVerifier {
    verifier: Verifier,
    private: PrivateIssuers,
    buckets: Mutex<HashMap<Uuid, TokenBucket>>,
}

/// The tokens that a service account or a person may still be issued, as of a time.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    left: f64,
    at: Timestamp,
}

impl std::fmt::Debug for SignInVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInVerifier").finish_non_exhaustive()
    }
}

impl SignInVerifier {
    /// Fetches the keys of issuers at public addresses and of the `private` issuers over the network.
    pub fn new(private: PrivateIssuers, clock: Arc<dyn Clock>) -> Self {
        let fetcher = Fetcher::new(private.clone(), Arc::new(SystemResolver));
        let keys = IssuerKeys::new(Arc::new(fetcher), clock.clone());
        Self { verifier: Verifier::new(Arc::new(keys), clock), private, buckets: Mutex::default() }
    }

    /// The issuers on a private network whose keys may be fetched.
    pub(crate) fn private(&self) -> &PrivateIssuers {
        &self.private
    }

    /// Whether `account` may be issued one more token now. If so, it is counted as issued.
    fn try_take(&self, account: Uuid, now: Timestamp) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.clear();
        }
        let bucket = buckets.entry(account).or_insert(TokenBucket { left: BURST, at: now });
        let since = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        *bucket = TokenBucket { left: (bucket.left + since * RATE).min(BURST), at: now };
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        may
    }
}

/// Why there is no token.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The token does not prove a right to sign in.
    Unknown,
    /// A trusted issuer has signed the token, but the token has this fault.
    Known(String),
    /// Too many tokens were issued for this service account or person.
    TooMany,
    /// The table cannot be read or written.
    Store(StoreError),
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What the caller wants to sign in as.
#[derive(Clone, Debug)]
pub(crate) enum SignInAs {
    /// A service account, by its id.
    ServiceAccount(String),
    /// A person of an identity provider, by the provider's id.
    PersonOf(String),
}

/// An issued token.
pub(crate) struct Issued {
    pub(crate) secret: SecretString,
    pub(crate) life: Duration,
}

impl App {
    /// A token for the bearer of `subject_token`.
    pub(crate) async fn exchange(
        &self,
        org: &str,
        sign_in_as: &SignInAs,
        subject_token: &SecretString,
    ) -> Result<Issued, Denied> {
        let org: OrgId = org.parse().map_err(|_| Denied::Unknown)?;
        let org = self.table.organization_named(&org).await?.ok_or(Denied::Unknown)?;
        match sign_in_as {
            SignInAs::ServiceAccount(id) => self.exchange_for(org, id, subject_token).await,
            SignInAs::PersonOf(id) => self.exchange_for_person(org, id, subject_token).await,
        }
    }

    async fn exchange_for(
        &self,
        org: Organization,
        account: &str,
        subject_token: &SecretString,
    ) -> Result<Issued, Denied> {
        let id: ServiceAccountId = account.parse().map_err(|_| Denied::Unknown)?;
        let account = self.table.service_account(org.uuid, &id).await?.ok_or(Denied::Unknown)?;
        let admission = self.verified(&account.trust_policies, subject_token).await;
        let Admission { policy, subject, .. } = admission.map_err(|refusal| {
            denied(&refusal, format_args!("trust policy of service account `{}`", account.id))
        })?;
        self.count_sign_in(account.uuid)?;
        let (role, scoped_roles) = account.roles_by(policy);
        let principal = Principal {
            id: account.principal(),
            org: org.uuid,
            org_id: org.id,
            role: account.role,
            scoped_roles: account.scoped_roles.clone(),
            runner: account.runner.clone(),
            operator: false,
            sign_in: SignIn { subject: Some(subject), ..SignIn::default() },
        };
        let record = AuditRecord {
            by_right: format!("trust_policies[{policy}] of version {}", account.version),
            ..self.record(
                &principal,
                "service_account.sign_in",
                format!("service-accounts/{}", account.id),
            )
        };
        let principal = Principal { role, scoped_roles, ..principal };
        self.issue(principal, account.grant(), LIFE, None, &record).await
    }

    /// Verifies a token by `policies`.
    pub(super) async fn verified(
        &self,
        policies: &[TrustPolicy],
        subject_token: &SecretString,
    ) -> Result<Admission, Refusal> {
        self.sign_in_verifier.verifier.verify(subject_token.expose_secret(), policies).await
    }

    /// Counts one more token for the service account or the person with this uuid.
    pub(super) fn count_sign_in(&self, of: Uuid) -> Result<(), Denied> {
        let may = self.sign_in_verifier.try_take(of, self.now());
        if may { Ok(()) } else { Err(Denied::TooMany) }
    }

    /// Issues a token for `life` from now on, and notes the principal's name if one is given.
    pub(super) async fn issue(
        &self,
        principal: Principal,
        grant: Grant,
        life: Duration,
        name: Option<KnownPrincipal>,
        record: &AuditRecord,
    ) -> Result<Issued, Denied> {
        let now = self.now();
        let until = now + life;
        let secret = bearer::api_token(self.entropy.as_ref());
        let token = TokenRecord {
            hash: bearer::hash(secret.expose_secret()),
            principal,
            description: String::new(),
            created_at: now,
            expires_at: Some(until),
            labels: [].into(),
            grant: Some(grant),
        };
        // The token cannot exist: its secret is a new random number.
        self.table.issue_token(&token, until, name, record).await?;
        Ok(Issued { secret, life })
    }
}

/// The refusal for the caller, which names `policy`.
pub(super) fn denied(refusal: &Refusal, policy: std::fmt::Arguments<'_>) -> Denied {
    tracing::info!(%policy, %refusal, "refused a sign-in");
    match refusal {
        Refusal::NotVerified(_) => Denied::Unknown,
        Refusal::OutsideValidity(reason) => Denied::Known(format!("the token {reason}")),
        Refusal::NoMatchingPolicy(_) => {
            Denied::Known(format!("the token is good, but matches no {policy}: {refusal}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_identity::system::System;

    #[test]
    fn a_fleet_may_start_at_once_and_then_only_so_fast() {
        let sign_ins = SignInVerifier::new(PrivateIssuers::default(), Arc::new(System));
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let start = Timestamp::UNIX_EPOCH;
        let turns = |account, at| (0..2_000).filter(|_| sign_ins.try_take(account, at)).count();
        assert_eq!(turns(one, start), 1_000);
        assert_eq!(turns(other, start), 1_000, "each has its own");
        assert_eq!(turns(one, start + Duration::from_secs(2)), 100);
        assert_eq!(turns(one, start), 0, "a clock that goes back gives nothing");
        assert_eq!(turns(one, start + Duration::from_hours(1)), 1_000);
    }
}
