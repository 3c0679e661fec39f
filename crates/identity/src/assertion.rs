//! Tokens about runners and jobs that Canyon signs for the platforms that trust its issuer.
//!
//! KMS signs 1,000 times a second for a whole account and region (AWS KMS Developer Guide, "Request
//! quotas"), so a token is signed once and reused until shortly before it expires.

use crate::signer::{Signer, SignerError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ports::{Clock, Entropy};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A token with less time left is not reused, so that a caller has this long to use it. For a token
/// with a shorter lifetime than twice this, it is half the lifetime.
pub(crate) const MIN_REMAINING_LIFE: Duration = Duration::from_mins(1);
/// The most cached tokens.
const MAX_CACHED: usize = 1_000;
/// Claims that only the issuer sets (RFC 7519, section 4.1).
const RESERVED: [&str; 7] = ["iss", "sub", "aud", "iat", "nbf", "exp", "jti"];

/// Why a token cannot be issued.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AssertionError {
    /// The caller requested a claim that only the issuer sets.
    #[error("the claim `{0}` is reserved for the issuer")]
    Reserved(String),
    /// The key did not sign.
    #[error("cannot sign for `{subject}`")]
    Signer {
        /// Subject of the token.
        subject: String,
        /// The cause.
        #[source]
        source: Arc<SignerError>,
    },
}

/// Contents of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionRequest {
    /// Subject (`sub`).
    pub subject: String,
    /// Audience (`aud`).
    pub audience: String,
    /// Further claims.
    pub claims: Map<String, Value>,
    /// Lifetime of the token.
    pub lifetime: Duration,
}

impl AssertionRequest {
    fn key(&self) -> String {
        json!([self.subject, self.audience, self.claims, self.lifetime.as_secs()]).to_string()
    }
}

/// A pending or finished signature. Every caller that waits for it polls it, so it continues if the
/// first caller gives up.
type PendingToken = Shared<BoxFuture<'static, Result<SecretString, AssertionError>>>;

/// The longest that a token stays in the cache; one with a longer life is signed again.
const CACHE_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Cache of signed tokens, by their contents.
pub(crate) struct AssertionCache(ExpiringCache<String, CachedToken>);

impl Default for AssertionCache {
    fn default() -> Self {
        Self(ExpiringCache::new(CACHE_LIFETIME, MAX_CACHED))
    }
}

#[derive(Clone)]
struct CachedToken {
    until: Timestamp,
    pending: PendingToken,
}

impl CachedToken {
    fn is_usable(&self, now: Timestamp) -> bool {
        now < self.until && !matches!(self.pending.peek(), Some(Err(_)))
    }
}

/// The parts that sign a token.
pub(crate) struct SigningContext<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) signer: &'a Arc<dyn Signer>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) entropy: &'a dyn Entropy,
}

impl AssertionCache {
    /// A token with these contents: the cached one if enough of its life is left, or a new one.
    pub(crate) async fn get(
        &self,
        request: &AssertionRequest,
        rest: Duration,
        context: SigningContext<'_>,
    ) -> Result<SecretString, AssertionError> {
        if let Some(name) = RESERVED.iter().find(|name| request.claims.contains_key(**name)) {
            return Err(AssertionError::Reserved((*name).to_owned()));
        }
        self.pending(request, rest, &context).await
    }

    fn pending(
        &self,
        request: &AssertionRequest,
        rest: Duration,
        context: &SigningContext<'_>,
    ) -> PendingToken {
        let now = context.clock.now();
        let make = || {
            // At least half of the life is used, also of short tokens.
            let rest = rest.min(request.lifetime / 2);
            let until = now + request.lifetime.saturating_sub(rest);
            let pending = sign(claims(request, context, now), request, context).boxed().shared();
            CachedToken { until, pending }
        };
        self.0.get_or_insert(request.key(), now, |token| token.is_usable(now), make).pending
    }
}

fn claims(
    request: &AssertionRequest,
    context: &SigningContext<'_>,
    now: Timestamp,
) -> Map<String, Value> {
    let seconds = i64::try_from(request.lifetime.as_secs()).unwrap_or(i64::MAX);
    let issued = now.as_second();
    let mut claims = request.claims.clone();
    let own = [
        ("iss", Value::from(context.issuer)),
        ("sub", Value::from(request.subject.as_str())),
        ("aud", Value::from(request.audience.as_str())),
        ("iat", Value::from(issued)),
        ("nbf", Value::from(issued)),
        ("exp", Value::from(issued.saturating_add(seconds))),
        ("jti", Value::from(context.entropy.id(now).to_string())),
    ];
    claims.extend(own.map(|(name, value)| (name.to_owned(), value)));
    claims
}

/// Signs `claims` as a JWT (RFC 7519).
fn sign(
    claims: Map<String, Value>,
    request: &AssertionRequest,
    context: &SigningContext<'_>,
) -> impl Future<Output = Result<SecretString, AssertionError>> + Send + 'static {
    let (signer, subject) = (Arc::clone(context.signer), request.subject.clone());
    let signing = async move {
        let kid = signer.public_jwk().await?.kid().to_owned();
        let header = json!({ "alg": "RS256", "kid": kid, "typ": "JWT" });
        let encode = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let text = format!("{}.{}", encode(header), encode(Value::Object(claims)));
        let signature = signer.sign(text.as_bytes()).await?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
    };
    signing.map(|signed| {
        signed.map_err(|error| AssertionError::Signer { subject, source: Arc::new(error) })
    })
}

#[cfg(test)]
#[path = "assertion_tests.rs"]
mod tests;
