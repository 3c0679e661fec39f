//! Tokens that Canyon signs about its runners and jobs, for the platforms that trust its issuer.
//!
//! KMS signs 1,000 times a second for a whole account and region (AWS KMS Developer Guide, "Request
//! quotas"), so a token is signed once and handed out until shortly before it ends.

use crate::signer::{Signer, SignerError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::seam::{Clock, Entropy};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A token that ends sooner is not handed out: whoever gets it has this long to use it. Of one that
/// lives shorter than twice that, half its life.
pub(crate) const SHORTEST_REST: Duration = Duration::from_mins(1);
/// The most remembered tokens; beyond that all are forgotten, and signed anew.
const MAX_REMEMBERED: usize = 1_000;
/// What the issuer says itself (RFC 7519, section 4.1).
const RESERVED: [&str; 7] = ["iss", "sub", "aud", "iat", "nbf", "exp", "jti"];

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AssertionError {
    /// A claim was asked for that the issuer makes itself.
    #[error("the claim `{0}` is made by the issuer")]
    Reserved(String),
    /// The key did not sign.
    #[error("cannot sign for `{subject}`")]
    Signer {
        /// Whom the token was to be about.
        subject: String,
        /// Why.
        #[source]
        source: Arc<SignerError>,
    },
}

/// What a token is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whom it is about (`sub`).
    pub subject: String,
    /// For whom it is (`aud`).
    pub audience: String,
    /// What else it says.
    pub claims: Map<String, Value>,
    /// How long it is good.
    pub life: Duration,
}

impl Statement {
    fn key(&self) -> String {
        json!([self.subject, self.audience, self.claims, self.life.as_secs()]).to_string()
    }
}

/// A signature on its way or there. Whoever waits for it drives it, so it goes on when the one that
/// asked first gives up.
type Flight = Shared<BoxFuture<'static, Result<SecretString, AssertionError>>>;

/// Signed tokens, by what they say.
#[derive(Default)]
pub(crate) struct Assertions(Mutex<HashMap<String, Remembered>>);

struct Remembered {
    until: Timestamp,
    flight: Flight,
}

impl Remembered {
    fn is_good(&self, now: Timestamp) -> bool {
        now < self.until && !matches!(self.flight.peek(), Some(Err(_)))
    }
}

/// Who signs, and when.
pub(crate) struct Mint<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) signer: &'a Arc<dyn Signer>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) entropy: &'a dyn Entropy,
}

impl Assertions {
    /// A token that makes the statement: the one of before, or a new one.
    pub(crate) async fn of(
        &self,
        statement: &Statement,
        rest: Duration,
        mint: Mint<'_>,
    ) -> Result<SecretString, AssertionError> {
        if let Some(name) = RESERVED.iter().find(|name| statement.claims.contains_key(**name)) {
            return Err(AssertionError::Reserved((*name).to_owned()));
        }
        self.flight(statement, rest, &mint).await
    }

    fn flight(&self, statement: &Statement, rest: Duration, mint: &Mint<'_>) -> Flight {
        let key = statement.key();
        let now = mint.clock.now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key).filter(|found| found.is_good(now)) {
            return found.flight.clone();
        }
        if known.len() >= MAX_REMEMBERED {
            known.retain(|_, entry| entry.is_good(now));
        }
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        let rest = rest.min(statement.life / 2);
        let until = now + statement.life.saturating_sub(rest);
        let flight = sign(claims(statement, mint, now), statement, mint).boxed().shared();
        known.insert(key, Remembered { until, flight: flight.clone() });
        flight
    }
}

fn claims(statement: &Statement, mint: &Mint<'_>, now: Timestamp) -> Map<String, Value> {
    let seconds = i64::try_from(statement.life.as_secs()).unwrap_or(i64::MAX);
    let issued = now.as_second();
    let mut claims = statement.claims.clone();
    let own = [
        ("iss", Value::from(mint.issuer)),
        ("sub", Value::from(statement.subject.as_str())),
        ("aud", Value::from(statement.audience.as_str())),
        ("iat", Value::from(issued)),
        ("nbf", Value::from(issued)),
        ("exp", Value::from(issued.saturating_add(seconds))),
        ("jti", Value::from(mint.entropy.id(now).to_string())),
    ];
    claims.extend(own.map(|(name, value)| (name.to_owned(), value)));
    claims
}

/// The JWT (RFC 7519) of `claims`.
fn sign(
    claims: Map<String, Value>,
    statement: &Statement,
    mint: &Mint<'_>,
) -> impl Future<Output = Result<SecretString, AssertionError>> + Send + 'static {
    let (signer, subject) = (Arc::clone(mint.signer), statement.subject.clone());
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
