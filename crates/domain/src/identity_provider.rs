//! Identity providers: the issuers whose people may sign in to an organization, and what their groups may do.
//!
//! A person has exactly the roles that the provider's rules give to the person's groups. A rule belongs to one
//! provider, so it never matches the group of another provider that has the same name.

mod not_admitted;

pub use not_admitted::NotAdmitted;

use crate::field_error::FieldErrors;
use crate::grant::{Grant, GrantedBy};
use crate::ids::IdentityProviderId;
use crate::principal::Role;
use crate::provider_group::is_group;
use crate::scoped_role::ScopedRole;
use crate::trust_policy::{ClaimMatching, IssuerUrl, TrustPolicy};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Maximum number of rules of a provider.
pub const MAX_RULES: usize = 50;
/// Maximum number of scopes of a provider.
pub const MAX_SCOPES: usize = 20;
/// Maximum number of groups in a token.
pub const MAX_GROUPS: usize = 500;
/// Maximum length of the name of a claim or a scope, in bytes.
const MAX_NAME: usize = 256;
/// The most rules that the details of an audit record name.
const MAX_DETAILS: usize = 20;
/// How long after the issuer signed a person's token the person's access by it ends. It bounds how long a person who
/// left a group keeps its roles.
pub const LIFE: SignedDuration = SignedDuration::from_hours(1);

/// "People with a token of this issuer for this audience have the roles that the rules give to their groups."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityProvider {
    /// Its name.
    pub id: IdentityProviderId,
    /// Its uuid. Unlike the name, a uuid is never reused.
    pub uuid: Uuid,
    /// Its purpose, for users.
    #[serde(default)]
    pub description: String,
    /// The issuer of the tokens.
    pub issuer: IssuerUrl,
    /// The client that Canyon is at the issuer: the audience of the tokens.
    pub client_id: String,
    /// What `canyon login` asks the issuer for (OpenID Connect Core, section 5.4).
    pub scopes: Vec<String>,
    /// The claim with a person's name.
    pub name_claim: String,
    /// The claim with a person's groups.
    pub groups_claim: String,
    /// The issuer's keys (RFC 7517), where Canyon cannot fetch them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// What groups may do.
    pub rules: Vec<GroupRule>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with each change. A token is valid only for the version for which it was issued.
    pub version: u64,
}

/// "The people of this group have this role."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRule {
    /// The group, as the issuer writes it.
    pub group: String,
    /// The role.
    pub role: GroupRole,
}

/// A role of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupRole {
    /// In the whole organization.
    Organization(Role),
    /// In a part of it.
    Scoped(ScopedRole),
}

/// A person who may sign in, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The issuer's id of the person (`sub`), which it gives to no other one.
    pub subject: String,
    /// The person's name as the issuer tells it. It may have any form.
    pub name: String,
    /// The person's role in the whole organization.
    pub role: Role,
    /// The person's further roles in parts of the organization.
    pub scoped_roles: Vec<ScopedRole>,
    /// Those of the person's groups for which the provider has a rule. The others are none that Canyon knows.
    pub groups: Vec<String>,
    /// When the access ends.
    pub until: Timestamp,
}

impl IdentityProvider {
    /// Which tokens its people bring.
    pub fn policy(&self) -> TrustPolicy {
        TrustPolicy {
            issuer: self.issuer.clone(),
            audience: self.client_id.clone(),
            bound_claims_type: ClaimMatching::default(),
            bound_claims: BTreeMap::new(),
            jwks: self.jwks.clone(),
            scoped_roles: Vec::new(),
        }
    }

    /// The grant of a token that is issued now.
    pub fn grant(&self) -> Grant {
        let by = GrantedBy::IdentityProvider(self.id.clone());
        Grant { by, uuid: self.uuid, version: self.version }
    }

    /// The person whom a token with these claims names. The caller has verified the token by [`Self::policy`].
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] if the claims are not usable, or no rule gives the person a role.
    pub fn admit(
        &self,
        claims: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<Person, NotAdmitted> {
        let text =
            |name: &str| claim(claims, name).and_then(Value::as_str).filter(|it| !it.is_empty());
        let subject = text("sub").ok_or(NotAdmitted::NoSubject)?.to_owned();
        let is_shared =
            claims.get("aud").and_then(Value::as_array).is_some_and(|list| list.len() > 1);
        let party = claims.get("azp").and_then(Value::as_str);
        if (is_shared || claims.contains_key("azp")) && party != Some(self.client_id.as_str()) {
            return Err(NotAdmitted::OtherParty);
        }
        // Keycloak tells its kinds of tokens apart by this claim.
        if claims.get("typ").is_some_and(|kind| kind != "ID") {
            return Err(NotAdmitted::OtherKind);
        }
        let until = end_of_access(claims, now)?;
        let groups = self.groups(claims)?;
        let (role, scoped_roles) = self.roles(&groups);
        if role == Role::None && scoped_roles.is_empty() {
            let shown = not_admitted::shown(&groups);
            return Err(NotAdmitted::NoRole(self.id.clone(), self.groups_claim.clone(), shown));
        }
        let name = text(&self.name_claim).unwrap_or(&subject).to_owned();
        let groups = self.known(&groups);
        Ok(Person { subject, name, role, scoped_roles, groups, until })
    }

    /// The roles of its groups, as the details of an audit record.
    pub fn granted(&self) -> Vec<String> {
        let of_rule = |rule: &GroupRule| match &rule.role {
            GroupRole::Organization(role) => format!("group {}: {}", rule.group, role.as_str()),
            GroupRole::Scoped(role) => format!("group {}: {role}", rule.group),
        };
        let mut details: Vec<_> = self.rules.iter().take(MAX_DETAILS).map(of_rule).collect();
        if self.rules.len() > MAX_DETAILS {
            details.push(format!("and {} more rules", self.rules.len() - MAX_DETAILS));
        }
        details
    }

    fn groups<'c>(&self, claims: &'c Map<String, Value>) -> Result<Vec<&'c str>, NotAdmitted> {
        let name = || self.groups_claim.clone();
        match claim(claims, &self.groups_claim) {
            None | Some(Value::Null) => Err(NotAdmitted::NoGroups(name())),
            Some(Value::String(group)) => Ok(vec![group]),
            Some(Value::Array(groups)) if groups.len() > MAX_GROUPS => {
                Err(NotAdmitted::TooManyGroups(name(), groups.len()))
            }
            Some(Value::Array(groups)) => {
                let texts: Option<_> = groups.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| NotAdmitted::NotTexts(name()))
            }
            Some(_) => Err(NotAdmitted::NotTexts(name())),
        }
    }

    /// Whether a rule names this group.
    pub fn knows(&self, group: &str) -> bool {
        self.rules.iter().any(|rule| rule.group == group)
    }

    /// Those of `groups` that a rule names, each once: at most as many as there are rules, however many the token has.
    fn known(&self, groups: &[&str]) -> Vec<String> {
        let mut known: Vec<String> = Vec::new();
        for GroupRule { group, .. } in &self.rules {
            if groups.contains(&group.as_str()) && !known.contains(group) {
                known.push(group.clone());
            }
        }
        known
    }

    /// The roles that rules give to these groups, compared literally.
    fn roles(&self, groups: &[&str]) -> (Role, Vec<ScopedRole>) {
        let (mut whole, mut scoped) = (Role::None, Vec::new());
        for rule in self.rules.iter().filter(|rule| groups.contains(&rule.group.as_str())) {
            match &rule.role {
                GroupRole::Organization(role) => whole = whole.max(*role),
                GroupRole::Scoped(role) if !scoped.contains(role) => scoped.push(role.clone()),
                GroupRole::Scoped(_) => {}
            }
        }
        (whole, scoped)
    }
}

/// A claim. An address that the issuer has not verified is none: people may choose it.
fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let is_verified = name != "email" || claims.get("email_verified") != Some(&Value::Bool(false));
    claims.get(name).filter(|_| is_verified)
}

/// An hour after the issuer signed the token: it knew the groups then.
fn end_of_access(claims: &Map<String, Value>, now: Timestamp) -> Result<Timestamp, NotAdmitted> {
    let whole = |number: &Value| {
        number.as_i64().or_else(|| format!("{:.0}", number.as_f64()?).parse().ok())
    };
    let issued = claims.get("iat").and_then(whole);
    let issued =
        issued.and_then(|at| Timestamp::from_second(at).ok()).ok_or(NotAdmitted::NoTime)?;
    // The issuer's clock may be ahead of ours.
    let until = issued.min(now) + LIFE;
    if until <= now { Err(NotAdmitted::TooOld) } else { Ok(until) }
}

impl GroupRule {
    /// Notes its faults, below `path`.
    pub fn check(&self, faults: &mut FieldErrors, path: &str) {
        if !is_group(&self.group) {
            faults.add(
                format!("{path}.group"),
                "is required: 1 to 256 bytes without control characters",
            );
        }
        match &self.role {
            GroupRole::Organization(Role::Viewer | Role::Deployer | Role::Admin) => {}
            GroupRole::Organization(Role::None | Role::Agent) => {
                faults.add(format!("{path}.role"), "is `viewer`, `deployer` or `admin`");
            }
            GroupRole::Scoped(role) => {
                if role.role == Role::Agent {
                    faults.add(format!("{path}.role"), "is `viewer`, `deployer` or `admin`");
                }
                role.check(faults, path);
            }
        }
    }
}

/// Claims that say nothing about the person: about the token, or what the caller chose.
const CLAIMS_OF_TOKENS: [&str; 9] =
    ["iss", "aud", "exp", "nbf", "iat", "jti", "nonce", "azp", "typ"];

/// Notes what prevents `name` from being the claim in the field `path`.
pub fn check_claim(faults: &mut FieldErrors, path: &str, name: &str) {
    if CLAIMS_OF_TOKENS.contains(&name) {
        faults.add(path, "says nothing about the person: name a claim such as `groups` or `email`");
    }
    if !is_word(name) {
        faults.add(
            path,
            "is the name of a claim: 1 to 256 printable ASCII characters without spaces",
        );
    }
}

/// Notes the faults of the field `scopes`.
pub fn check_scopes(faults: &mut FieldErrors, scopes: &[String]) {
    if scopes.len() > MAX_SCOPES || !scopes.iter().all(|scope| is_word(scope)) {
        faults.add(
            "scopes",
            format!("has at most {MAX_SCOPES} scopes of printable ASCII characters without spaces"),
        );
    } else if !scopes.iter().any(|scope| scope == "openid") {
        faults.add("scopes", "needs `openid`: without it, the issuer tells no identity");
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && (1..=MAX_NAME).contains(&text.len())
}

#[cfg(test)]
#[path = "identity_provider_tests.rs"]
mod tests;
