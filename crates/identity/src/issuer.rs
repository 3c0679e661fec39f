//! Canyon as an OIDC issuer: the documents that it publishes, and the tokens that it signs.
//!
//! One key signs. Retired keys stay published, so that their tokens stay valid. To rotate, publish
//! the new key beside the old one, wait until every cache of the key set has expired, sign with the
//! new key, and remove the old key when its last token has expired.

use crate::assertion::{
    AssertionCache, AssertionError, AssertionRequest, MIN_REMAINING_LIFE, SigningContext,
};
use crate::signer::{Signer, SignerError};
use canyon_domain::ports::{Clock, Entropy};
use futures::future::join_all;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// URL of the issuer of jobs' tokens, below `url`, the issuer of tokens about runners.
///
/// It is a separate issuer with keys of its own: a cloud that trusts it for jobs never accepts a
/// job as a runner. On AWS the function that the internet reaches may sign for jobs only.
pub fn jobs_issuer_url(url: &str) -> String {
    format!("{}/jobs", url.trim_end_matches('/'))
}

/// How long an incomplete key set is cached before the missing key is requested again.
const INCOMPLETE_CACHE_TIME: Duration = Duration::from_mins(1);

/// The issuer of an installation.
pub struct Issuer {
    url: String,
    active: Arc<dyn Signer>,
    retired: Vec<Arc<dyn Signer>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    published: Mutex<Option<CachedKeySet>>,
    assertions: AssertionCache,
}

/// A cached key set. The keys of a process do not change, so a complete set is valid as long as the
/// process runs.
struct CachedKeySet {
    keys: Value,
    until: Option<Timestamp>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Issuer {
    /// The issuer with address `url`. `active` signs; the `retired` keys are published with it.
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
            assertions: AssertionCache::default(),
        }
    }

    /// The issuer's name, which is its address: `iss` of all its tokens.
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
    /// Leaves out a retired key that is disabled or deleted, because its tokens must no longer be
    /// trusted. If any other key does not answer, there is no set at all: a verifier that caches an
    /// incomplete set would reject valid tokens, and a verifier that gets no set keeps its old one.
    ///
    /// # Errors
    ///
    /// [`SignerError`] if the active key is not available, or a retired one does not answer.
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
        for (position, found) in found.into_iter().enumerate() {
            match found {
                Ok(jwk) => keys.push(jwk),
                Err(error @ SignerError::Unusable { .. }) if position > 0 => {
                    tracing::error!(%error, "a retired signing key is no longer published");
                    until = Some(now + INCOMPLETE_CACHE_TIME);
                }
                Err(error) => return Err(error),
            }
        }
        // One key with two names is published once.
        let keys: BTreeMap<_, _> =
            keys.iter().map(|jwk| (jwk.kid().to_owned(), jwk.to_value())).collect();
        let keys = json!({ "keys": keys.into_values().collect::<Vec<_>>() });
        *published = Some(CachedKeySet { keys: keys.clone(), until });
        Ok(keys)
    }

    /// A token with these contents, signed by the active key. Equal requests get the same token
    /// until shortly before it expires.
    ///
    /// # Errors
    ///
    /// [`AssertionError`] if the request has a reserved claim, or the key does not sign.
    pub async fn assertion(
        &self,
        request: &AssertionRequest,
    ) -> Result<SecretString, AssertionError> {
        self.assertion_with_remaining_life(request, MIN_REMAINING_LIFE).await
    }

    /// Like [`Self::assertion`], for a caller that keeps the token for a while: at least `min_remaining_life` of
    /// its life is left, or half of its life if that is less.
    ///
    /// # Errors
    ///
    /// Like [`Self::assertion`].
    pub async fn assertion_with_remaining_life(
        &self,
        request: &AssertionRequest,
        min_remaining_life: Duration,
    ) -> Result<SecretString, AssertionError> {
        let context = SigningContext {
            issuer: &self.url,
            signer: &self.active,
            clock: self.clock.as_ref(),
            entropy: self.entropy.as_ref(),
        };
        self.assertions.get(request, min_remaining_life, context).await
    }
}

#[cfg(test)]
#[path = "issuer_tests.rs"]
mod tests;
