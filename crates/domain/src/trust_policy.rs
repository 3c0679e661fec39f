//! Trust policies: which tokens of another issuer authenticate as a service account.
//!
//! A policy names the issuer, the audience that the token must have, and claims that it must have. A policy
//! that would admit foreign tokens is refused when it is saved: an issuer may sign tokens for many unrelated
//! customers.

mod bound_claim;
mod issuer;

pub use bound_claim::ClaimMatching;
pub use issuer::{InvalidIssuer, IssuerUrl};

use crate::field_error::FieldErrors;
use crate::runner::size::nests_deeper_than;
use crate::scoped_role::ScopedRole;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum number of bound claims of a policy, and of values of each.
pub const MAX_BOUND: usize = 10;
const MAX_CLAIM_NAME: usize = 128;
/// Maximum length of an inline key set, in bytes of its JSON.
pub const MAX_KEY_SET: usize = 16 * 1024;
/// How deep objects and lists may nest in a key set. RFC 7517 needs four; an attribute of the table has at most 32 with what is
/// around the key set.
const MAX_KEY_SET_DEPTH: usize = 8;

/// Claims whose values are never reused for another subject. A policy must bind one of them. `sub` is made
/// for that; the others are the project ids of build systems.
const IDENTITY_CLAIMS: [&str; 5] =
    ["sub", "repository_id", "project_id", "pipeline_id", "terraform_workspace_id"];
/// Standard claims, which Canyon validates itself.
const VALIDATED_CLAIMS: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];
/// Audiences of tokens for other services.
const FOREIGN_AUDIENCES: [&str; 3] =
    ["sts.amazonaws.com", "api://AzureADTokenExchange", "kubernetes.default.svc"];

/// "A token of this issuer for this audience with these claims authenticates as the service account."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustPolicy {
    /// The issuer of the token.
    pub issuer: IssuerUrl,
    /// The audience of the token.
    pub audience: String,
    /// How claim values are matched.
    pub bound_claims_type: ClaimMatching,
    /// For each claim, the accepted values; the token must have one of them.
    pub bound_claims: BTreeMap<String, Vec<String>>,
    /// The issuer's keys (RFC 7517), where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// The roles of its tokens, instead of those of the service account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
}

/// A requested policy, before validation.
#[derive(Clone, Debug, Default)]
pub struct PolicyRequest {
    /// See [`TrustPolicy::issuer`].
    pub issuer: String,
    /// See [`TrustPolicy::audience`].
    pub audience: String,
    /// See [`TrustPolicy::bound_claims_type`].
    pub bound_claims_type: ClaimMatching,
    /// See [`TrustPolicy::bound_claims`].
    pub bound_claims: BTreeMap<String, Vec<String>>,
    /// See [`TrustPolicy::jwks`].
    pub jwks: Option<Value>,
    /// See [`TrustPolicy::scoped_roles`].
    pub scoped_roles: Vec<ScopedRole>,
}

/// Why a token with a valid signature does not match a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It was issued by another issuer.
    #[error("it is from another issuer")]
    Issuer,
    /// It has another audience.
    #[error("its `aud` is not the audience of the policy")]
    Audience,
    /// This claim is missing, not text, or none of the bound values.
    #[error("its claim `{0}` is not as the policy binds it")]
    Claim(String),
}

impl TrustPolicy {
    /// Validates a requested policy. `is_allowed` tells for an issuer at a private address whether this
    /// installation may fetch its keys.
    ///
    /// # Errors
    ///
    /// All faults, with their paths.
    pub fn new(
        order: PolicyRequest,
        is_allowed: impl FnOnce(&IssuerUrl) -> bool,
    ) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let issuer = check_issuer(&mut faults, &order.issuer, order.jwks.as_ref(), is_allowed);
        check_audience(&mut faults, "audience", &order.audience, &order.issuer);
        check_claims(&mut faults, &order);
        let Some(issuer) = issuer else { return Err(faults) };
        faults.into_result(Self {
            issuer,
            audience: order.audience,
            bound_claims_type: order.bound_claims_type,
            bound_claims: order.bound_claims,
            jwks: order.jwks,
            scoped_roles: order.scoped_roles,
        })
    }

    /// Whether a token with these claims matches. The caller has verified that [`TrustPolicy::issuer`] signed
    /// it and that it is valid now.
    ///
    /// # Errors
    ///
    /// The first [`Mismatch`].
    pub fn admits(&self, claims: &Map<String, Value>) -> Result<(), Mismatch> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            return Err(Mismatch::Issuer);
        }
        if !claims.get("aud").is_some_and(|aud| is_for(&self.audience, aud)) {
            return Err(Mismatch::Audience);
        }
        for (name, values) in &self.bound_claims {
            let claim = claims.get(name).and_then(Value::as_str);
            let fits = |claim| {
                values.iter().any(|it| bound_claim::fits(it, claim, self.bound_claims_type))
            };
            if !claim.is_some_and(fits) {
                return Err(Mismatch::Claim(name.clone()));
            }
        }
        Ok(())
    }
}

/// `aud` is a text, or a list of texts (RFC 7519, section 4.1.3). A list with any other value is not
/// accepted.
fn is_for(audience: &str, aud: &Value) -> bool {
    match aud {
        Value::String(one) => one == audience,
        Value::Array(list) => {
            list.iter().all(Value::is_string) && list.iter().any(|it| it.as_str() == Some(audience))
        }
        _ => false,
    }
}

/// Notes the faults of an issuer and of the keys that are given for it. The issuer, if it may be trusted. `is_allowed`
/// tells for an issuer at a private address whether this installation may fetch its keys.
pub fn check_issuer(
    faults: &mut FieldErrors,
    issuer: &str,
    jwks: Option<&Value>,
    is_allowed: impl FnOnce(&IssuerUrl) -> bool,
) -> Option<IssuerUrl> {
    let issuer = IssuerUrl::new(issuer);
    let issuer = issuer.map_err(|error| faults.add("issuer", error.to_string())).ok();
    let fetched = issuer.as_ref().filter(|_| jwks.is_none());
    if fetched.is_some_and(|issuer| issuer.is_private_address() && !is_allowed(issuer)) {
        faults.add(
            "issuer",
            "is at an address that is not public: give the issuer's keys in `jwks`, or have \
             the operator name it, byte for byte, in CANYON_PRIVATE_ISSUERS",
        );
    }
    if jwks.map_or(0, |keys| keys.to_string().len()) > MAX_KEY_SET {
        faults.add("jwks", "has more than 16 KiB; leave out keys that the issuer no longer uses");
    }
    if jwks.is_some_and(|keys| nests_deeper_than(MAX_KEY_SET_DEPTH, keys)) {
        faults.add("jwks", format!("nests more than {MAX_KEY_SET_DEPTH} objects and lists"));
    }
    issuer
}

/// Notes what prevents `audience`, in the field `path`, from being the audience of `issuer`'s tokens for Canyon.
pub fn check_audience(faults: &mut FieldErrors, path: &str, audience: &str, issuer: &str) {
    let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
    if audience.is_empty() || audience.len() > bound_claim::MAX_VALUE || !is_plain {
        faults.add(path, "is required: 1 to 256 printable ASCII characters without spaces");
    } else if audience.contains('*') {
        faults.add(path, "is compared literally, so `*` has no meaning in it");
    } else if audience == issuer || FOREIGN_AUDIENCES.iter().any(|other| audience.contains(other)) {
        faults.add(
            path,
            "is that of tokens for another service, which could sign in here with them; have the \
             issuer make tokens for an audience that only Canyon has",
        );
    }
}

fn check_claims(faults: &mut FieldErrors, order: &PolicyRequest) {
    let claims = &order.bound_claims;
    if claims.len() > MAX_BOUND {
        faults.add("bound_claims", "has at most 10 claims");
        return;
    }
    for (name, values) in claims {
        let at = format!("bound_claims.{}", crate::field_error::shown(name));
        if let Some(reason) = unfit_name(name) {
            faults.add(&at, reason);
        }
        if values.is_empty() || values.len() > MAX_BOUND {
            faults.add(&at, "has 1 to 10 values");
            continue;
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(reason) = bound_claim::unfit(name, value, order.bound_claims_type) {
                let at = if values.len() == 1 { at.clone() } else { format!("{at}[{index}]") };
                faults.add(at, reason);
            }
        }
    }
    if !claims.iter().any(|(name, values)| identifies(name, values)) {
        faults.add(
            "bound_claims",
            format!(
                "must bind `sub`, or another claim whose values are never reused, without `*`: {}",
                IDENTITY_CLAIMS[1..].join(", ")
            ),
        );
    }
}

fn identifies(name: &str, values: &[String]) -> bool {
    name == "sub"
        || IDENTITY_CLAIMS.contains(&name) && values.iter().all(|value| !value.contains('*'))
}

fn unfit_name(name: &str) -> Option<&'static str> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() || name.len() > MAX_CLAIM_NAME || !is_plain {
        return Some(
            "is not the name of a claim: 1 to 128 printable ASCII characters without spaces",
        );
    }
    VALIDATED_CLAIMS.contains(&name).then_some("is validated by Canyon itself, and cannot be bound")
}

#[cfg(test)]
#[path = "trust_policy_tests.rs"]
mod tests;
