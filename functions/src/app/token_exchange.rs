//! The exchange of another issuer's token for one of Canyon's.
//!
//! The caller has proved nothing yet. So before its signature is verified, a request costs two reads of the table and
//! a bounded number of calls to the issuer. All refusals are the same: they reveal neither which organizations and
//! service accounts exist nor what was wrong. The log has the reason.

use super::App;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgId, ServiceAccountId};
use canyon_domain::ports::Clock;
use canyon_domain::principal::{Principal, SignIn};
use canyon_domain::service_account::ServiceAccount;
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

/// The lifetime of an issued token.
pub(crate) const LIFE: Duration = Duration::from_mins(15);
/// The most tokens that a service account is issued at once after a quiet time, when a fleet starts up.
const BURST: f64 = 1_000.0;
/// The tokens that it is issued each second after that. With [`LIFE`] they suffice for 45,000 callers.
const RATE: f64 = 50.0;
/// The most service accounts with a remembered rate. Beyond that, all are forgotten.
const MAX_BUCKETS: usize = 10_000;

/// Verifies the tokens of sign-ins, and limits their rate.
pub struct SignInVerifier {
    verifier: Verifier,
    private: PrivateIssuers,
    buckets: Mutex<HashMap<Uuid, TokenBucket>>,
}

/// The tokens that a service account may still be issued, as of a time.
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
    /// An issuer that the service account trusts has signed the token, but the token has this fault.
    Known(String),
    /// Too many tokens were issued for this service account.
    TooMany,
    /// The table cannot be read or written.
    Store(StoreError),
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl App {
    /// A token of the service account for the bearer of `subject_token`.
    pub(crate) async fn exchange(
        &self,
        org: &str,
        service_account: &str,
        subject_token: &SecretString,
    ) -> Result<SecretString, Denied> {
        let (principal, account) = self.principal_and_account(org, service_account).await?;
        let policies = &account.trust_policies;
        let judged =
            self.sign_in_verifier.verifier.verify(subject_token.expose_secret(), policies).await;
        let admission = judged.map_err(|refusal| denied(&account, &refusal))?;
        if !self.sign_in_verifier.try_take(account.uuid, self.now()) {
            return Err(Denied::TooMany);
        }
        self.issue(principal, &account, admission).await
    }

    /// The service account, and the principal that signs in as it.
    async fn principal_and_account(
        &self,
        org: &str,
        account: &str,
    ) -> Result<(Principal, ServiceAccount), Denied> {
        let unknown = |_| Denied::Unknown;
        let org: OrgId = org.parse().map_err(unknown)?;
        let id: ServiceAccountId = account.parse().map_err(unknown)?;
        let org = self.table.organization_named(&org).await?.ok_or(Denied::Unknown)?;
        let account = self.table.service_account(org.uuid, &id).await?.ok_or(Denied::Unknown)?;
        let principal = Principal {
            id: account.principal(),
            org: org.uuid,
            org_id: org.id,
            role: account.role,
            scoped_roles: account.scoped_roles.clone(),
            runner: account.runner.clone(),
            operator: false,
            sign_in: SignIn::default(),
        };
        Ok((principal, account))
    }

    async fn issue(
        &self,
        principal: Principal,
        account: &ServiceAccount,
        admission: Admission,
    ) -> Result<SecretString, Denied> {
        let Admission { policy, subject } = admission;
        let now = self.now();
        let until = now + LIFE;
        let secret = bearer::api_token(self.entropy.as_ref());
        let (role, scoped_roles) = account.roles_by(policy);
        let sign_in = SignIn { subject: Some(subject), ..SignIn::default() };
        let principal = Principal { role, scoped_roles, sign_in, ..principal };
        let record = AuditRecord {
            by_right: format!("trust_policies[{policy}] of version {}", account.version),
            details: Vec::new(),
            ..self.record(
                &principal,
                "service_account.sign_in",
                format!("service-accounts/{}", account.id),
            )
        };
        let token = TokenRecord {
            hash: bearer::hash(secret.expose_secret()),
            principal,
            description: String::new(),
            created_at: now,
            expires_at: Some(until),
            labels: [].into(),
            grant: Some(account.grant()),
        };
        // The token cannot exist: its secret is a new random number.
        self.table.issue_token(&token, until, &record).await?;
        Ok(secret)
    }
}

fn denied(account: &ServiceAccount, refusal: &Refusal) -> Denied {
    tracing::info!(service_account = %account.id, %refusal, "refused a sign-in");
    match refusal {
        Refusal::NotVerified(_) => Denied::Unknown,
        Refusal::OutsideValidity(reason) => Denied::Known(format!("the token {reason}")),
        Refusal::NoMatchingPolicy(_) => Denied::Known(format!(
            "the token is good, but matches no trust policy of service account `{}`: {refusal}",
            account.id
        )),
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
