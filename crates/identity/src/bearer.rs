//! The secrets that callers present as `Authorization: Bearer`.
//!
//! Six kinds, which differ by their prefix; the prefix also lets secret scanners find leaked ones:
//!
//! - `cya_`: an API token of a person or machine. The API finds it by its hash.
//! - `cyc_`: the claim code of one attempt. Valid for one claim.
//! - `cyj_`: the token of the runner that won the claim. Valid while the attempt runs.
//! - `cyr_`: the token with which the module of that attempt may read from Canyon, and nothing else.
//!   Valid while the attempt runs.
//! - `cyw_`: the token of the program that watches the job of one attempt. Valid for one report: that
//!   the job failed.
//! - `cyk_`: the token of a service that checks the plan of one attempt. Valid for its answer.
//!
//! The last five contain their organization and deployment, so the database key comes from the
//! secret, not from the path of the request. Canyon stores only hashes.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::ports::Entropy;
use secrecy::SecretString;
use uuid::Uuid;

const API: &str = "cya_";
const CLAIM: &str = "cyc_";
const JOB: &str = "cyj_";
const READ: &str = "cyr_";
const WATCH: &str = "cyw_";
const CHECK: &str = "cyk_";
/// Longest accepted secret, in bytes. All valid ones are shorter; a longer one is rejected unread.
const MAX_LENGTH: usize = 200;

/// A parsed secret of a request, not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// An API token.
    Api(SecretHash),
    /// A claim code.
    Claim(AttemptRef, SecretHash),
    /// An attempt's token.
    Job(AttemptRef, SecretHash),
    /// The read token of an attempt's module.
    Read(AttemptRef, SecretHash),
    /// The token of the program that watches an attempt's job.
    Watch(AttemptRef, SecretHash),
    /// The token of a service that checks the plan of an attempt.
    Check(AttemptRef, SecretHash),
}

/// The attempt that a claim code or token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRef {
    /// The organization.
    pub org: OrgUuid,
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt's number.
    pub number: u32,
}

impl AttemptRef {
    fn to_bytes(self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..16].copy_from_slice(self.org.0.as_bytes());
        bytes[16..32].copy_from_slice(self.deployment.0.as_bytes());
        bytes[32..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let uuid = |range| bytes.get(range).and_then(|part| Uuid::from_slice(part).ok());
        Some(Self {
            org: OrgUuid(uuid(0..16)?),
            deployment: DeploymentId(uuid(16..32)?),
            number: u32::from_be_bytes(bytes.get(32..36)?.try_into().ok()?),
        })
    }
}

/// The hash with which a secret is stored and compared. A secret has 256 random bits, so a plain
/// hash cannot be reversed, and a comparison of hashes reveals nothing about the secret.
pub fn hash(secret: &str) -> SecretHash {
    SecretHash(URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes())))
}

/// Whether two hashes are equal, in constant time, so that the duration reveals nothing about where
/// they differ.
pub fn is_same(one: &SecretHash, other: &SecretHash) -> bool {
    verify_slices_are_equal(one.0.as_bytes(), other.0.as_bytes()).is_ok()
}

/// A new API token.
pub fn api_token(entropy: &dyn Entropy) -> SecretString {
    let mut random = [0; 32];
    entropy.fill(&mut random);
    format!("{API}{}", URL_SAFE_NO_PAD.encode(random)).into()
}

/// The token of the runner that won the claim, from 32 bytes that only the control plane can
/// derive.
pub(crate) fn job_token(attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    attempt_secret(JOB, attempt, secret)
}

/// The claim code of an attempt, from 32 bytes that only the control plane can derive.
pub(crate) fn claim_code(attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    attempt_secret(CLAIM, attempt, secret)
}

/// The token of the program that watches an attempt's job, from 32 bytes that only the control
/// plane can derive.
pub(crate) fn watch_token(attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    attempt_secret(WATCH, attempt, secret)
}

/// The read token of an attempt's module, from 32 bytes that only the control plane can derive.
pub(crate) fn read_token(attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    attempt_secret(READ, attempt, secret)
}

/// The token of a service that checks the plan of an attempt, from 32 bytes that only the control plane
/// can derive.
pub(crate) fn check_token(attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    attempt_secret(CHECK, attempt, secret)
}

fn attempt_secret(prefix: &str, attempt: AttemptRef, secret: &[u8; 32]) -> SecretString {
    let mut bytes = attempt.to_bytes().to_vec();
    bytes.extend_from_slice(secret);
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)).into()
}

/// Parses a secret; `None` if it does not have the form of one.
pub fn parse(secret: &str) -> Option<Presented> {
    if secret.len() > MAX_LENGTH {
        return None;
    }
    if secret.starts_with(API) {
        return Some(Presented::Api(hash(secret)));
    }
    let (prefix, rest) = secret.split_at_checked(4)?;
    let bytes = URL_SAFE_NO_PAD.decode(rest).ok().filter(|bytes| bytes.len() == 68)?;
    let attempt = AttemptRef::from_bytes(&bytes)?;
    match prefix {
        CLAIM => Some(Presented::Claim(attempt, hash(secret))),
        JOB => Some(Presented::Job(attempt, hash(secret))),
        READ => Some(Presented::Read(attempt, hash(secret))),
        WATCH => Some(Presented::Watch(attempt, hash(secret))),
        CHECK => Some(Presented::Check(attempt, hash(secret))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use secrecy::ExposeSecret;

    #[test]
    fn a_secret_parses_as_its_own_kind_and_attempt() {
        let attempt = AttemptRef {
            org: OrgUuid(Uuid::from_u128(1)),
            deployment: DeploymentId(Uuid::from_u128(2)),
            number: 3,
        };
        let token = job_token(attempt, &[7; 32]);
        let text = token.expose_secret();
        assert_eq!(parse(text), Some(Presented::Job(attempt, hash(text))));
        let code = claim_code(attempt, &[7; 32]);
        assert!(
            matches!(parse(code.expose_secret()), Some(Presented::Claim(a, _)) if a == attempt)
        );
        let watch = watch_token(attempt, &[7; 32]);
        assert!(
            matches!(parse(watch.expose_secret()), Some(Presented::Watch(a, _)) if a == attempt)
        );
        let check = check_token(attempt, &[7; 32]);
        assert!(
            matches!(parse(check.expose_secret()), Some(Presented::Check(a, _)) if a == attempt)
        );
        let api = api_token(&System);
        assert!(matches!(parse(api.expose_secret()), Some(Presented::Api(_))));
    }

    #[test]
    fn a_text_that_is_no_secret_of_canyon_is_not_parsed() {
        for text in ["", "x", "cyj_", "cyj_AAAA", "Bearer cya_x", "eyJhbGciOiJub25lIn0.e30.", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("cya_{}", "A".repeat(MAX_LENGTH))), None);
    }
}
