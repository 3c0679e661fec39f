//! The key by which a repeated request finds the deployment of the first.

use canyon_domain::deployment::Deployment;
use canyon_domain::ids::PrincipalId;
use canyon_domain::principal::CallerId;
use canyon_store::deployments::IdempotencyRecord;
use jiff::SignedDuration;
use uuid::Uuid;

/// How long Canyon remembers what its own requests have led to: longer than any outage after which it repeats one.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// An `Idempotency-Key`, and the SHA-256 of the body that came with it.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The caller. Keys of different callers are independent.
    pub of: CallerId,
    /// The key.
    pub key: String,
    /// The body's digest, in hexadecimal.
    pub body: String,
    /// How long the key identifies its deployment.
    pub life: SignedDuration,
}

impl Idempotency {
    /// A key of a request that Canyon makes itself. `key` is unique among all callers, so it is no caller's: what the request says
    /// may change until it is repeated.
    pub(super) fn of_canyon(key: String) -> Self {
        let of = PrincipalId(Uuid::nil()).into();
        Self { of, body: key.clone(), key, life: REMEMBERED }
    }

    /// What is stored of it with `deployment`.
    pub(super) fn record(&self, deployment: &Deployment) -> IdempotencyRecord {
        IdempotencyRecord {
            by: self.of.clone(),
            key: self.key.clone(),
            body: self.body.clone(),
            deployment: deployment.id,
            expires_at: deployment.created_at + self.life,
        }
    }
}
