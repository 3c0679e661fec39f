//! Which tokens of another issuer stand for a service account.
//!
//! A policy names the issuer, the audience that the token must be made for, and claims that it must
//! have. What would let strangers in is refused when the policy is saved: an issuer's claims are as
//! good as what else it signs, and some sign for everybody.

mod bound_claim;
mod issuer;

pub use bound_claim::ClaimMatching;
pub use issuer::{IssuerUrl, UnfitIssuer};

use crate::field_error::FieldErrors;
use crate::scoped_role::ScopedRole;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The most claims that a policy binds, and the most values of each.
pub const MAX_BOUND: usize = 10;
const MAX_CLAIM_NAME: usize = 128;
/// The longest inline key set, in bytes of its JSON.
pub const MAX_KEY_SET: usize = 16 * 1024;

/// Claims that name one thing for good: no other thing can get the same value later. One of them must
/// be bound. `sub` is made for that; the others are what build systems call their projects by.
const IDENTITIES: [&str; 5] =
    ["sub", "repository_id", "project_id", "pipeline_id", "terraform_workspace_id"];
/// Claims with a meaning of their own, which Canyon judges itself.
const JUDGED: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];
/// Audiences of tokens that are made to be shown to user else.
const OF_OTHERS: [&str; 3] =
    ["sts.amazonaws.com", "api://AzureADTokenExchange", "kubernetes.default.svc"];

/// "A token of this issuer for this audience with these claims stands for the service account."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustPolicy {
    /// Who must have signed it.
    pub issuer: IssuerUrl,
    /// Whom it must be made for.
    pub audience: String,
    /// How the values are meant.
    pub bound_claims_type: ClaimMatching,
    /// For each claim the values of which it must have one.
    pub bound_claims: BTreeMap<String, Vec<String>>,
    /// The issuer's keys (RFC 7517), where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// What its tokens may do, in place of what the service account may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
}

/// A policy as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct PolicyOrder {
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

/// Why a token whose signature is good does not match a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It was signed by another issuer.
    #[error("it is for another issuer")]
    Issuer,
    /// It was made for user else.
    #[error("its `aud` is not the audience of the policy")]
    Audience,
    /// This claim is missing, or no text, or none of the bound values.
    #[error("its claim `{0}` is not as the policy binds it")]
    Claim(String),
}

impl TrustPolicy {
    /// The policy that `order` describes. `is_allowed` says of issuers at private addresses whether
    /// this installation may fetch from them.
    ///
    /// # Errors
    ///
    /// All faults, with their paths.
    pub fn new(
        order: PolicyOrder,
        is_allowed: impl FnOnce(&IssuerUrl) -> bool,
    ) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let issuer = IssuerUrl::new(&order.issuer);
        let issuer = issuer.map_err(|error| faults.add("issuer", error.to_string())).ok();
        let fetched = issuer.as_ref().filter(|_| order.jwks.is_none());
        if fetched.is_some_and(|issuer| issuer.is_private_address() && !is_allowed(issuer)) {
            faults.add(
                "issuer",
                "is at an address that is not public: give the issuer's keys in `jwks`, or have \
                 the operator name it in CANYON_PRIVATE_ISSUERS",
            );
        }
        check_audience(&mut faults, &order);
        check_claims(&mut faults, &order);
        let length = order.jwks.as_ref().map_or(0, |keys| keys.to_string().len());
        if length > MAX_KEY_SET {
            faults.add("jwks", "has more than 16 KiB; leave out keys that sign no longer");
        }
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

    /// Whether a token with these claims matches; that it is signed by [`TrustPolicy::issuer`] and
    /// valid now is shown elsewhere.
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

/// `aud` is one text, or a list of texts (RFC 7519, section 4.1.3). A list with anything else in it is
/// not understood, and so not believed.
fn is_for(audience: &str, aud: &Value) -> bool {
    match aud {
        Value::String(one) => one == audience,
        Value::Array(list) => {
            list.iter().all(Value::is_string) && list.iter().any(|it| it.as_str() == Some(audience))
        }
        _ => false,
    }
}

fn check_audience(faults: &mut FieldErrors, order: &PolicyOrder) {
    let audience = order.audience.as_str();
    let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
    if audience.is_empty() || audience.len() > bound_claim::MAX_VALUE || !is_plain {
        faults.add("audience", "is required: 1 to 256 printable ASCII characters without spaces");
    } else if audience.contains('*') {
        faults.add("audience", "is compared as it is, and `*` stands for nothing in it");
    } else if audience == order.issuer || OF_OTHERS.iter().any(|other| audience.contains(other)) {
        faults.add(
            "audience",
            "is that of tokens for user else, who could sign in with them here; have the \
             issuer make tokens for an audience that only Canyon has",
        );
    }
}

fn check_claims(faults: &mut FieldErrors, order: &PolicyOrder) {
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
                "must bind `sub`, or another claim that names one thing for good, without `*`: {}",
                IDENTITIES[1..].join(", ")
            ),
        );
    }
}

fn identifies(name: &str, values: &[String]) -> bool {
    name == "sub" || IDENTITIES.contains(&name) && values.iter().all(|value| !value.contains('*'))
}

fn unfit_name(name: &str) -> Option<&'static str> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() || name.len() > MAX_CLAIM_NAME || !is_plain {
        return Some("is no name of a claim: 1 to 128 printable ASCII characters without spaces");
    }
    JUDGED.contains(&name).then_some("is judged by Canyon itself, and cannot be bound")
}

#[cfg(test)]
#[path = "trust_policy_tests.rs"]
mod tests;
