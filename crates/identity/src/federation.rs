//! Canyon's own tokens exchanged for those of clouds, so that no secret of any cloud is stored.
//!
//! Each runner has one subject, `org:<uuid>:runner:<uuid>`, that no other runner ever has: what a
//! cloud trusts is this life of this runner.

pub mod endpoints;
mod error;

pub use endpoints::Endpoints;
pub use error::FederationError;

use crate::assertion::Statement;
use crate::issuer::Issuer;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::seam::Clock;
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;

/// How long a token for a cloud is good. It is exchanged at once.
const ASSERTION_LIFE: Duration = Duration::from_mins(10);

/// The runner that a cloud is to let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunnerIdentity {
    /// Whose runner it is.
    pub org: OrgUuid,
    /// The runner.
    pub runner: RunnerUuid,
}

impl RunnerIdentity {
    /// The `sub` of the runner's tokens.
    pub fn subject(&self) -> String {
        format!("org:{}:runner:{}", self.org, self.runner)
    }
}

/// Exchanges tokens, and remembers what it got until shortly before that ends.
pub struct Federation {
    issuer: Arc<Issuer>,
    endpoints: Endpoints,
    clock: Arc<dyn Clock>,
}

impl Federation {
    /// Signs with `issuer`, and calls the clouds at `endpoints`.
    pub fn new(issuer: Arc<Issuer>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        Self { issuer, endpoints, clock }
    }

    /// Where the clouds are.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Canyon's own token about `who`, for `audience`.
    ///
    /// # Errors
    ///
    /// [`FederationError`] when it cannot be signed.
    pub async fn assertion(
        &self,
        who: RunnerIdentity,
        audience: &str,
    ) -> Result<SecretString, FederationError> {
        let statement = Statement {
            subject: who.subject(),
            audience: audience.to_owned(),
            claims: serde_json::Map::new(),
            life: ASSERTION_LIFE,
        };
        Ok(self.issuer.assertion(&statement).await?)
    }
}
