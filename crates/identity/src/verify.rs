//! Verification of tokens of other issuers: is the token signed by an issuer that a policy trusts,
//! is it valid now, and which policy does it match?
//!
//! It is RFC 7519 in its strictest reading, with the advice of RFC 8725. The algorithm follows from
//! the key and not from the token. Header members that could make a verifier fetch or trust a key
//! from the token are rejected. No claim counts before the signature is verified. The reason of a
//! rejection up to there is only logged: a sender who saw it could approach a valid token step by
//! step.

mod compact;
mod fetch;
mod issuer_keys;
mod key_set;
mod private_issuers;
mod strict_json;

pub use fetch::{Fetch, FetchError, Fetcher, Resolve, SystemResolver};
pub use issuer_keys::IssuerKeys;
pub use key_set::{InvalidKeySet, KeySet};
pub use private_issuers::{PrivateIssuers, PrivateIssuersError};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::ports::Clock;
use canyon_domain::principal::SubjectDigest;
use canyon_domain::trust_policy::{IssuerUrl, Mismatch, TrustPolicy};
use compact::Compact;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Tolerated difference between the issuer's clock and ours.
const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// Verifies tokens.
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<IssuerKeys>,
    clock: Arc<dyn Clock>,
}

/// Result of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The position of the first policy that it matches.
    pub policy: usize,
    /// Tells its holder apart from other holders of tokens that the same policies admit.
    pub subject: SubjectDigest,
    /// Its claims, which the issuer of the policy has signed.
    pub claims: Map<String, Value>,
}

/// Why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No proof that a trusted issuer signed it. The reason is for the log.
    #[error("{0}")]
    NotVerified(String),
    /// A trusted issuer signed it, and it is not valid now.
    #[error("the token {0}")]
    OutsideValidity(&'static str),
    /// It is valid, and no policy of its issuer matches: the policy's position, and why.
    #[error("{}", reasons(.0))]
    NoMatchingPolicy(Vec<(usize, Mismatch)>),
}

fn reasons(mismatches: &[(usize, Mismatch)]) -> String {
    let reason =
        |(index, mismatch): &(usize, Mismatch)| format!("trust_policies[{index}]: {mismatch}");
    mismatches.iter().map(reason).collect::<Vec<_>>().join("; ")
}

impl Refusal {
    fn unproved(reason: &str) -> Self {
        Self::NotVerified(reason.to_owned())
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that gets the keys of issuers from `keys`.
    pub fn new(keys: Arc<IssuerKeys>, clock: Arc<dyn Clock>) -> Self {
        Self { keys, clock }
    }

    /// The first of `policies` that `token` matches, and who holds the token.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when it matches none.
    pub async fn verify(
        &self,
        token: &str,
        policies: &[TrustPolicy],
    ) -> Result<Admission, Refusal> {
        let token = Compact::read(token).map_err(Refusal::unproved)?;
        let issuer = token.claims.get("iss").and_then(Value::as_str);
        let of_issuer = |policy: &TrustPolicy| Some(policy.issuer.as_str()) == issuer;
        let of_issuer: Vec<_> =
            policies.iter().enumerate().filter(|(_, policy)| of_issuer(policy)).collect();
        if of_issuer.is_empty() {
            return Err(Refusal::unproved("no policy trusts its issuer"));
        }
        // The policies of an issuer may have different keys: each key counts only for its own
        // policy.
        let mut proved = Vec::new();
        let mut last = None;
        for (index, policy) in of_issuer {
            match self.signed(&token, policy).await {
                Ok(()) => proved.push((index, policy)),
                Err(reason) => last = Some(reason),
            }
        }
        if proved.is_empty() {
            return Err(Refusal::NotVerified(last.unwrap_or_default()));
        }
        check_times(&token.claims, self.clock.now()).map_err(Refusal::OutsideValidity)?;
        let mut mismatches = Vec::new();
        for (index, policy) in proved {
            match policy.admits(&token.claims) {
                Ok(()) => {
                    let subject = subject(policy, &token.claims);
                    return Ok(Admission { policy: index, subject, claims: token.claims });
                }
                Err(mismatch) => mismatches.push((index, mismatch)),
            }
        }
        Err(Refusal::NoMatchingPolicy(mismatches))
    }

    async fn signed(&self, token: &Compact<'_>, policy: &TrustPolicy) -> Result<(), String> {
        let by = |keys: &KeySet| keys.verify(token);
        match &policy.jwks {
            Some(keys) => by(&KeySet::from_value(keys).map_err(|error| error.to_string())?),
            None => by(&*self.fetched(token, &policy.issuer).await?),
        }
    }

    async fn fetched(
        &self,
        token: &Compact<'_>,
        issuer: &IssuerUrl,
    ) -> Result<Arc<KeySet>, String> {
        self.keys.get(issuer, |keys| keys.knows(token)).await
    }
}

/// The digest of the issuer, the audience, `sub`, and the claims that `policy` binds: two pipelines may share `sub` and differ
/// in another claim. A renewed token has the same values, and a change of the issuer's keys or of another policy changes none.
fn subject(policy: &TrustPolicy, claims: &Map<String, Value>) -> SubjectDigest {
    let names = policy.bound_claims.keys().map(String::as_str).chain(["iss", "sub"]);
    let told: BTreeMap<_, _> = names.filter_map(|name| claims.get_key_value(name)).collect();
    let text = json!({ "audience": policy.audience, "claims": told }).to_string();
    SubjectDigest(URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes())))
}

/// Checks the times of a token at `now` (RFC 7519, section 4.1). A time that is not a number is not
/// the same as no time.
fn check_times(claims: &Map<String, Value>, now: Timestamp) -> Result<(), &'static str> {
    let now = now.as_second();
    let skew = CLOCK_SKEW.as_secs().cast_signed();
    let Some(end) = time(claims, "exp")? else {
        return Err("has no `exp`; issue a token with an expiry");
    };
    if end <= now - skew {
        return Err("has expired; send a new one");
    }
    if time(claims, "nbf")?.is_some_and(|start| start > now + skew) {
        return Err("is not valid yet (`nbf`); check the issuer's clock");
    }
    if ["sub", "jti"].iter().any(|name| claims.get(*name).is_some_and(|it| !it.is_string())) {
        return Err("has a `sub` or `jti` that is not a string");
    }
    if time(claims, "iat")?.is_some_and(|at| at > now + skew) {
        return Err("was issued in the future (`iat`); check the issuer's clock");
    }
    Ok(())
}

/// A time in whole seconds; a fraction is dropped.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, &'static str> {
    const MAX: f64 = 253_402_300_799.0; // The end of the year 9999.
    let Some(value) = claims.get(name) else { return Ok(None) };
    let Value::Number(number) = value else {
        return Err("has a time (`exp`, `nbf` or `iat`) that is not a number");
    };
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) if (0..=253_402_300_799).contains(&whole) => Ok(Some(whole)),
        (None, Some(fraction)) if (0.0..=MAX).contains(&fraction) => {
            let whole = format!("{:.0}", fraction.trunc()).parse();
            whole.map(Some).map_err(|_| "has a time that is not a number")
        }
        _ => Err("has a time (`exp`, `nbf` or `iat`) that is not a date"),
    }
}
