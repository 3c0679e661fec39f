//! The one symmetric key of an installation: it seals secrets at rest, and derives claim codes and
//! tokens of attempts.

use crate::bearer::{self, AttemptRef};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::plan_check::PlanCheckId;
use canyon_domain::plan_task::PlanKey;
use canyon_domain::ports::Entropy;
use secrecy::SecretString;

/// Length of the key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// The key, split into one for each use (HKDF, RFC 5869), so that no use can help to break another.
pub struct MasterKey {
    seal: LessSafeKey,
    claims: hmac::Key,
    jobs: hmac::Key,
    reads: hmac::Key,
    watches: hmac::Key,
    digests: hmac::Key,
    plans: hmac::Key,
    checks: hmac::Key,
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(***)")
    }
}

/// The key does not have [`KEY_LENGTH`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key has {KEY_LENGTH} bytes")]
pub struct InvalidKey;

/// A sealed text cannot be opened: it was changed, moved to another context, or sealed with another
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a stored secret cannot be decrypted; restore the master key that sealed it, or set the secret again"
)]
pub struct UnsealError;

impl MasterKey {
    /// The master key with these bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if there are not exactly [`KEY_LENGTH`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidKey> {
        if bytes.len() != KEY_LENGTH {
            return Err(InvalidKey);
        }
        let derive = |purpose: &[u8]| -> Result<[u8; 32], InvalidKey> {
            let mut key = [0; 32];
            Salt::new(HKDF_SHA256, b"canyon")
                .extract(bytes)
                .expand(&[purpose], HKDF_SHA256)
                .and_then(|okm| okm.fill(&mut key))
                .map_err(|_| InvalidKey)?;
            Ok(key)
        };
        let seal = UnboundKey::new(&AES_256_GCM, &derive(b"seal")?).map_err(|_| InvalidKey)?;
        let claims = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"claim")?);
        let jobs = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"job")?);
        let reads = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"read")?);
        let watches = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"watch")?);
        let digests = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"digest")?);
        let plans = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"plan")?);
        let checks = hmac::Key::new(hmac::HMAC_SHA256, &derive(b"check")?);
        let seal = LessSafeKey::new(seal);
        Ok(Self { seal, claims, jobs, reads, watches, digests, plans, checks })
    }

    /// The claim code of an attempt. Equal attempt and fence give an equal code, so a launch with
    /// unknown outcome is retried with the same bytes, and the code is not stored.
    pub fn claim_code(&self, attempt: AttemptRef, fence: u64) -> SecretString {
        bearer::claim_code(attempt, &tag(&self.claims, attempt, fence))
    }

    /// The token of the runner `claimant` that won the claim of an attempt. An equal claimant gets
    /// an equal token, so a repeated claim revokes nothing.
    pub fn job_token(&self, attempt: AttemptRef, fence: u64, claimant: &str) -> SecretString {
        let text = format!("{}.{claimant}", text_of(attempt, fence));
        bearer::job_token(attempt, &sign(&self.jobs, &text))
    }

    /// The read token of an attempt's module. Derived from attempt and fence, like the claim code.
    pub fn read_token(&self, attempt: AttemptRef, fence: u64) -> SecretString {
        bearer::read_token(attempt, &tag(&self.reads, attempt, fence))
    }

    /// The token of the program that watches an attempt's job. Derived from attempt and fence like
    /// the claim code, so it is not stored either.
    pub fn watch_token(&self, attempt: AttemptRef, fence: u64) -> SecretString {
        bearer::watch_token(attempt, &tag(&self.watches, attempt, fence))
    }

    /// The token with which the service of a check answers about the plan that `attempt` has made. It is derived, so it
    /// is stored nowhere, and a repeated request has the same one.
    pub fn check_token(&self, attempt: AttemptRef, check: &PlanCheckId) -> SecretString {
        let AttemptRef { org, deployment, number } = attempt;
        let text = format!("{org}.{deployment}.{number}.{check}");
        bearer::check_token(attempt, &sign(&self.checks, &text))
    }

    /// A digest, in base64, of a text that may contain a secret. It tells equal texts from different ones; without the
    /// key, a short secret could be guessed from a digest.
    pub fn digest(&self, text: &str) -> String {
        STANDARD_NO_PAD.encode(sign(&self.digests, text))
    }

    /// The key of the plan of a deployment. It is derived, so it is stored nowhere.
    pub fn plan_key(&self, org: OrgUuid, deployment: DeploymentId) -> PlanKey {
        PlanKey::new(sign(&self.plans, &format!("{org}.{deployment}")))
    }

    /// Seals `text` for `context`: it cannot be opened with another, so a secret of one
    /// record cannot be copied into another record.
    ///
    /// # Errors
    ///
    /// [`UnsealError`], which does not occur: the cipher accepts every text of this size.
    pub fn seal(
        &self,
        context: &str,
        text: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<String, UnsealError> {
        let mut nonce = [0; NONCE_LEN];
        entropy.fill(&mut nonce);
        let mut sealed = text.to_vec();
        let aad = Aad::from(context.as_bytes());
        self.seal
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(|_| UnsealError)?;
        Ok(STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Opens a text that was sealed for `context`.
    ///
    /// # Errors
    ///
    /// [`UnsealError`] if it was changed, moved, or sealed with another key.
    pub fn open(&self, context: &str, sealed: &str) -> Result<Vec<u8>, UnsealError> {
        let bytes = STANDARD_NO_PAD.decode(sealed).map_err(|_| UnsealError)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN).ok_or(UnsealError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError)?;
        let mut rest = rest.to_vec();
        let aad = Aad::from(context.as_bytes());
        let opened = self.seal.open_in_place(nonce, aad, &mut rest).map_err(|_| UnsealError)?;
        Ok(opened.to_vec())
    }
}

fn tag(key: &hmac::Key, attempt: AttemptRef, fence: u64) -> [u8; 32] {
    sign(key, &text_of(attempt, fence))
}

fn text_of(attempt: AttemptRef, fence: u64) -> String {
    format!("{}.{}.{}.{fence}", attempt.org, attempt.deployment, attempt.number)
}

fn sign(key: &hmac::Key, text: &str) -> [u8; 32] {
    let mut secret = [0; 32];
    secret.copy_from_slice(hmac::sign(key, text.as_bytes()).as_ref());
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use secrecy::ExposeSecret;
    use uuid::Uuid;

    fn key(byte: u8) -> MasterKey {
        MasterKey::new(&[byte; KEY_LENGTH]).unwrap()
    }

    #[test]
    fn a_sealed_text_opens_only_with_its_own_context_and_key() {
        let sealed = key(1).seal("runner a", b"secret", &System).unwrap();
        assert_eq!(key(1).open("runner a", &sealed).unwrap(), b"secret");
        assert_eq!(key(1).open("runner b", &sealed), Err(UnsealError));
        assert_eq!(key(2).open("runner a", &sealed), Err(UnsealError));
        assert_eq!(key(1).open("runner a", &sealed[1..]), Err(UnsealError));
        assert_eq!(MasterKey::new(&[0; 31]).unwrap_err(), InvalidKey);
    }

    #[test]
    fn a_digest_is_the_same_for_the_same_text_and_key_only() {
        assert_eq!(key(1).digest("a"), key(1).digest("a"));
        assert_ne!(key(1).digest("a"), key(1).digest("b"));
        assert_ne!(key(1).digest("a"), key(2).digest("a"));
    }

    #[test]
    fn each_deployment_has_its_own_key_for_its_plan() {
        let of = |k: u8, org, deployment| {
            let org = OrgUuid(Uuid::from_u128(org));
            key(k).plan_key(org, DeploymentId(Uuid::from_u128(deployment)))
        };
        assert_eq!(of(1, 1, 1), of(1, 1, 1));
        for other in [of(2, 1, 1), of(1, 2, 1), of(1, 1, 2)] {
            assert_ne!(of(1, 1, 1), other);
        }
    }

    #[test]
    fn each_check_of_each_plan_has_its_own_token() {
        let of = |k: u8, number, check: &str| {
            let (org, deployment) = (OrgUuid(Uuid::from_u128(1)), DeploymentId(Uuid::from_u128(2)));
            let attempt = AttemptRef { org, deployment, number };
            key(k).check_token(attempt, &check.parse().unwrap()).expose_secret().to_owned()
        };
        assert_eq!(of(1, 1, "security"), of(1, 1, "security"));
        for other in [of(2, 1, "security"), of(1, 2, "security"), of(1, 1, "cost")] {
            assert_ne!(of(1, 1, "security"), other);
        }
    }

    #[test]
    fn a_claim_code_and_a_token_are_the_same_for_the_same_attempt_fence_and_claimant_only() {
        let attempt = |number| AttemptRef {
            org: OrgUuid(Uuid::from_u128(1)),
            deployment: DeploymentId(Uuid::from_u128(2)),
            number,
        };
        let code = |k: u8, number, fence| {
            key(k).claim_code(attempt(number), fence).expose_secret().to_owned()
        };
        assert_eq!(code(1, 1, 5), code(1, 1, 5));
        for other in [code(1, 2, 5), code(1, 1, 6), code(2, 1, 5)] {
            assert_ne!(code(1, 1, 5), other);
        }
        let token = |k: u8, number, fence, claimant: &str| {
            key(k).job_token(attempt(number), fence, claimant).expose_secret().to_owned()
        };
        assert_eq!(token(1, 1, 5, "me"), token(1, 1, 5, "me"));
        let others = [
            token(1, 1, 5, "you"),
            token(1, 2, 5, "me"),
            token(1, 1, 6, "me"),
            token(2, 1, 5, "me"),
        ];
        for other in others {
            assert_ne!(token(1, 1, 5, "me"), other);
        }
        // Neither token reveals the other.
        let read = key(1).read_token(attempt(1), 5).expose_secret().to_owned();
        assert_ne!(read.split_at(4).1, code(1, 1, 5).split_at(4).1);
    }
}
