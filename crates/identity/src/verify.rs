//! Tokens of other issuers, judged: is this one signed by an issuer that a policy trusts, is it good
//! now, and which policy does it match?
//!
//! RFC 7519 as narrow as it can be read, with the advice of RFC 8725: the algorithm follows from the key
//! and not from the token, what could make a reader fetch or trust a key from the token is refused, and
//! nothing in it counts before its signature is good. Why a token is refused up to there is for the
//! log; its sender is told no more than that it is, so that nobody can feel the way to a good one.

mod compact;
mod fetch;
mod issuer_keys;
mod key_set;
mod private_issuers;
mod strict_json;

pub use fetch::{Fetch, FetchError, Fetcher, Resolve, SystemResolver};
pub use issuer_keys::IssuerKeys;
pub use key_set::{KeySet, UnfitKeys};
pub use private_issuers::{PrivateIssuers, PrivateIssuersError};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::principal::SubjectDigest;
use canyon_domain::seam::Clock;
use canyon_domain::trust_policy::{IssuerUrl, Mismatch, TrustPolicy};
use compact::Compact;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How far the issuer's clock may be from ours.
const SKEW: Duration = Duration::from_mins(1);

/// Judges tokens.
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<IssuerKeys>,
    clock: Arc<dyn Clock>,
}

/// What a good token opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The position of the first policy that it matches.
    pub policy: usize,
    /// Tells its holder apart from other holders of tokens that the same policies admit.
    pub subject: SubjectDigest,
}

/// Why a token is not good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing shows that a trusted issuer has signed it. The reason is for the log.
    #[error("{0}")]
    Unproved(String),
    /// An issuer that is trusted has signed it, and it is not good now.
    #[error("the token {0}")]
    Untimely(&'static str),
    /// It is good, and no policy of its issuer matches: the policy's position, and why.
    #[error("{}", reasons(.0))]
    Unmatched(Vec<(usize, Mismatch)>),
}

fn reasons(mismatches: &[(usize, Mismatch)]) -> String {
    let reason =
        |(index, mismatch): &(usize, Mismatch)| format!("trust_policies[{index}]: {mismatch}");
    mismatches.iter().map(reason).collect::<Vec<_>>().join("; ")
}

impl Refusal {
    fn unproved(reason: &str) -> Self {
        Self::Unproved(reason.to_owned())
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that has the keys of issuers from `keys`.
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
        // An issuer's policies may hold different keys: each counts for its own alone.
        let mut proved = Vec::new();
        let mut last = None;
        for (index, policy) in of_issuer {
            match self.signed(&token, policy).await {
                Ok(()) => proved.push((index, policy)),
                Err(reason) => last = Some(reason),
            }
        }
        if proved.is_empty() {
            return Err(Refusal::Unproved(last.unwrap_or_default()));
        }
        timely(&token.claims, self.clock.now()).map_err(Refusal::Untimely)?;
        let mut mismatches = Vec::new();
        for (index, policy) in proved {
            match policy.admits(&token.claims) {
                Ok(()) => {
                    let subject = subject(policy, &token.claims);
                    return Ok(Admission { policy: index, subject });
                }
                Err(mismatch) => mismatches.push((index, mismatch)),
            }
        }
        Err(Refusal::Unmatched(mismatches))
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
        self.keys.having(issuer, |keys| keys.knows(token)).await
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

/// Whether a token with these claims is good at `now` (RFC 7519, section 4.1). A time that is no number
/// is not the same as none.
fn timely(claims: &Map<String, Value>, now: Timestamp) -> Result<(), &'static str> {
    let now = now.as_second();
    let skew = SKEW.as_secs().cast_signed();
    let Some(end) = time(claims, "exp")? else {
        return Err("has no `exp`; a token that never ends is not taken");
    };
    if end <= now - skew {
        return Err("has expired; send a new one");
    }
    if time(claims, "nbf")?.is_some_and(|start| start > now + skew) {
        return Err("is not good yet (`nbf`); the issuer's clock may be wrong");
    }
    if ["sub", "jti"].iter().any(|name| claims.get(*name).is_some_and(|it| !it.is_string())) {
        return Err("has a `sub` or `jti` that is no text");
    }
    if time(claims, "iat")?.is_some_and(|at| at > now + skew) {
        return Err("was issued in the future (`iat`); the issuer's clock may be wrong");
    }
    Ok(())
}

/// A time in whole seconds; a fraction is cut off.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, &'static str> {
    const MAX: f64 = 253_402_300_799.0; // The end of the year 9999.
    let Some(value) = claims.get(name) else { return Ok(None) };
    let Value::Number(number) = value else {
        return Err("has a time (`exp`, `nbf` or `iat`) that is no number");
    };
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) if (0..=253_402_300_799).contains(&whole) => Ok(Some(whole)),
        (None, Some(fraction)) if (0.0..=MAX).contains(&fraction) => {
            let whole = format!("{:.0}", fraction.trunc()).parse();
            whole.map(Some).map_err(|_| "has a time that is no number")
        }
        _ => Err("has a time (`exp`, `nbf` or `iat`) that is no date"),
    }
}
