//! Canyon as an OIDC issuer: what it publishes about itself, and what it signs.
//!
//! One key signs; the others only stay published, so that what they have signed stays good. To
//! rotate, publish the new key beside the old one, let every cache of the key set run out, let the
//! new one sign, and withdraw the old one when its last token has ended.

use crate::assertion::{AssertionError, Assertions, Mint, SHORTEST_REST, Statement};
use crate::signer::{Signer, SignerError};
use canyon_domain::seam::{Clock, Entropy};
use futures::future::join_all;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Canyon's name as the issuer of jobs' tokens, below `url`, its name as the issuer of those about runners.
///
/// It is another one, with keys of its own: what a cloud trusts for its jobs can never let Canyon in as a runner. On AWS
/// the function that the internet reaches may sign for jobs alone.
pub fn of_jobs(url: &str) -> String {
    format!("{}/jobs", url.trim_end_matches('/'))
}

/// How long a key set in which a key is missing is handed out before that key is tried again.
const INCOMPLETE: Duration = Duration::from_mins(1);

/// The issuer of an installation.
pub struct Issuer {
    url: String,
    active: Arc<dyn Signer>,
    retired: Vec<Arc<dyn Signer>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    published: Mutex<Option<Published>>,
    assertions: Assertions,
}

/// A key set. The keys of a process do not change, so a complete one is good for its life.
struct Published {
    keys: Value,
    until: Option<Timestamp>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Issuer {
    /// The issuer whose address is `url`. `active` signs; the `retired` keys are published with it.
    pub fn new(
        url: &str,
        active: Arc<dyn Signer>,
        retired: Vec<Arc<dyn Signer>>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            active,
            retired,
            clock,
            entropy,
            published: Mutex::default(),
            assertions: Assertions::default(),
        }
    }

    /// The issuer's name, which is its address: `iss` of all that it signs.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The discovery document (OpenID Connect Discovery 1.0, section 3).
    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.url,
            "jwks_uri": format!("{}/.well-known/jwks", self.url),
            "subject_types_supported": ["public"],
            "response_types_supported": ["id_token"],
            "claims_supported": ["sub", "aud", "iss", "exp", "iat", "nbf", "jti"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid"],
        })
    }

    /// The public keys (RFC 7517).
    ///
    /// A retired key that is disabled or deleted is left out: what it signed is no longer to be
    /// trusted. When any other key does not answer there is no set at all: whoever reads an
    /// incomplete one would refuse good tokens for as long as it keeps it, and whoever reads none
    /// goes on with the one it has.
    ///
    /// # Errors
    ///
    /// [`SignerError`] when the active key cannot be had, or a retired one did not answer.
    pub async fn jwks(&self) -> Result<Value, SignerError> {
        let mut published = self.published.lock().await;
        let now = self.clock.now();
        if let Some(known) = &*published
            && known.until.is_none_or(|end| now < end)
        {
            return Ok(known.keys.clone());
        }
        let signers = std::iter::once(&self.active).chain(&self.retired);
        let found = join_all(signers.map(|signer| signer.public_jwk())).await;
        let mut keys = Vec::new();
        let mut until = None;
        for (place, found) in found.into_iter().enumerate() {
            match found {
                Ok(jwk) => keys.push(jwk),
                Err(error @ SignerError::Unusable { .. }) if place > 0 => {
                    tracing::error!(%error, "a retired signing key is no longer published");
                    until = Some(now + INCOMPLETE);
                }
                Err(error) => return Err(error),
            }
        }
        // One key under two names is one key.
        let keys: BTreeMap<_, _> =
            keys.iter().map(|jwk| (jwk.kid().to_owned(), jwk.to_value())).collect();
        let keys = json!({ "keys": keys.into_values().collect::<Vec<_>>() });
        *published = Some(Published { keys: keys.clone(), until });
        Ok(keys)
    }

    /// A token that makes the statement, signed by the active key. The same statement gives the
    /// same token until shortly before that ends.
    ///
    /// # Errors
    ///
    /// [`AssertionError`] when the statement has a claim of the issuer's own, or the key does not
    /// sign.
    pub async fn assertion(&self, statement: &Statement) -> Result<SecretString, AssertionError> {
        self.lasting_assertion(statement, SHORTEST_REST).await
    }

    /// The same, for whoever keeps the token for a while: at least `rest` of its life is left, or half
    /// of it if that is less.
    ///
    /// # Errors
    ///
    /// As [`Issuer::assertion`].
    pub async fn lasting_assertion(
        &self,
        statement: &Statement,
        rest: Duration,
    ) -> Result<SecretString, AssertionError> {
        let mint = Mint {
            issuer: &self.url,
            signer: &self.active,
            clock: self.clock.as_ref(),
            entropy: self.entropy.as_ref(),
        };
        self.assertions.of(statement, rest, mint).await
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
