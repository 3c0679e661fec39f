//! Principals and their roles.

use crate::grant::GrantedBy;
use crate::ids::{EnvId, OrgId, OrgUuid, PrincipalId, ProjectId, RunnerId};
use crate::provider_group::Membership;
pub use crate::role::Role;
use crate::scoped_role::{ScopedRole, Target};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// An authenticated person or machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Its id, as in audit records.
    pub id: PrincipalId,
    /// Its organization; every key starts with this uuid.
    pub org: OrgUuid,
    /// The name of its organization, to compare with the path.
    pub org_id: OrgId,
    /// Its role in the whole organization.
    pub role: Role,
    /// Its further roles in parts of the organization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
    /// With the role `agent`: the only runner that it may serve; `None`: any of its organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// Whether it may create organizations.
    #[serde(default)]
    pub operator: bool,
    /// Which of the callers that share this principal has signed in.
    #[serde(default, skip_serializing_if = "SignIn::has_nothing_to_store")]
    pub sign_in: SignIn,
}

/// How a principal has signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// Tells the callers of one service account apart. An API token has a principal of its own, and none of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectDigest>,
    /// Of a person: those of its groups for which its identity provider had a rule then. Tokens of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// By what a caller has signed in whose token a sign-in issued. The token's record has it too.
    #[serde(skip)]
    pub by: Option<GrantedBy>,
    /// When what the caller showed expires, as far as that is known when it is shown. It is not stored.
    #[serde(skip)]
    pub until: Option<Timestamp>,
}

/// How long before a token expires a request that waits is answered: time for a last look.
const LAST_LOOK: Duration = Duration::from_secs(1);

impl SignIn {
    fn has_nothing_to_store(&self) -> bool {
        self.subject.is_none() && self.groups.is_empty()
    }

    /// The groups of a person who has signed in; `None` for other callers.
    pub fn membership(&self) -> Option<Membership<'_>> {
        match &self.by {
            Some(GrantedBy::IdentityProvider(provider)) => {
                Some(Membership { provider, groups: &self.groups })
            }
            Some(GrantedBy::ServiceAccount(_)) | None => None,
        }
    }

    /// How long a request may wait that would wait for `wanted`: its answer comes while the token is good.
    pub fn bounded(&self, wanted: Duration, now: Timestamp) -> Duration {
        let Some(until) = self.until else { return wanted };
        let left = until.duration_since(now).max(SignedDuration::ZERO).unsigned_abs();
        wanted.min(left.saturating_sub(LAST_LOOK))
    }
}

/// A digest of what an issuer's token says about its holder. A renewed token of the same holder has the same digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectDigest(pub String);

/// Names a caller: its principal, and where several callers share that, its subject too. Idempotency keys belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallerId {
    /// The principal.
    pub principal: PrincipalId,
    /// See [`SignIn::subject`].
    pub subject: Option<SubjectDigest>,
}

impl From<PrincipalId> for CallerId {
    fn from(principal: PrincipalId) -> Self {
        Self { principal, subject: None }
    }
}

/// `<uuid>` or `<uuid>@<digest>`. No uuid contains an `@`, so no two callers have one name.
impl fmt::Display for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(SubjectDigest(subject)) => write!(f, "{}@{subject}", self.principal),
            None => write!(f, "{}", self.principal),
        }
    }
}

impl From<CallerId> for String {
    fn from(caller: CallerId) -> Self {
        caller.to_string()
    }
}

impl TryFrom<String> for CallerId {
    type Error = uuid::Error;
    fn try_from(text: String) -> Result<Self, uuid::Error> {
        let (principal, subject) = match text.split_once('@') {
            Some((principal, subject)) => (principal, Some(SubjectDigest(subject.to_owned()))),
            None => (text.as_str(), None),
        };
        Ok(Self { principal: PrincipalId(principal.parse()?), subject })
    }
}

impl Principal {
    /// The operator of an installation, who may create organizations and belongs to none.
    pub fn operator() -> Self {
        let (id, org) = (PrincipalId(Uuid::nil()), OrgUuid(Uuid::nil()));
        let org_id = OrgId::none();
        let (role, scoped_roles, sign_in) = (Role::Viewer, Vec::new(), SignIn::default());
        Self { id, org, org_id, role, scoped_roles, runner: None, operator: true, sign_in }
    }

    /// A principal in whose name Canyon deploys to one environment: it may read what `reader` may, and deploy there.
    pub fn to_deploy(
        id: PrincipalId,
        (org, org_id): (OrgUuid, OrgId),
        reader: (Role, Vec<ScopedRole>),
        (project, env): (&ProjectId, &EnvId),
    ) -> Self {
        let (role, mut scoped_roles) = reader;
        let here = ScopedRole::new(Role::Deployer).in_project(project.clone());
        scoped_roles.push(ScopedRole { env: Some(env.clone()), ..here });
        let sign_in = SignIn::default();
        Self { id, org, org_id, role, scoped_roles, runner: None, operator: false, sign_in }
    }

    /// Which caller it is.
    pub fn caller(&self) -> CallerId {
        CallerId { principal: self.id, subject: self.sign_in.subject.clone() }
    }

    /// Whether it belongs to the organization of a path.
    pub fn is_of(&self, org: &str) -> bool {
        !self.org.0.is_nil() && self.org_id.as_str() == org
    }

    /// Its highest role for the whole of `target`.
    pub fn role_in(&self, target: Target<'_>) -> Role {
        let there = self.scoped_roles.iter().filter(|scoped| scoped.covers(target));
        there.map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// Its highest role in any scope.
    pub fn highest_role(&self) -> Role {
        self.scoped_roles.iter().map(|scoped| scoped.role).fold(self.role, Role::max)
    }

    /// Whether it may see the project and its name: it may read something in it.
    pub fn sees_project(&self, project: &ProjectId) -> bool {
        self.role >= Role::Viewer || self.scoped_roles.iter().any(|scoped| scoped.reaches(project))
    }

    /// The roles of a reader that may read the same as this principal, and change nothing.
    pub fn as_reader(&self) -> (Role, Vec<ScopedRole>) {
        if self.role >= Role::Viewer {
            return (Role::Viewer, Vec::new());
        }
        let reader = |scoped: &ScopedRole| ScopedRole { role: Role::Viewer, ..scoped.clone() };
        (Role::None, self.scoped_roles.iter().map(reader).collect())
    }

    /// The roles by which it acts, for audit records.
    pub fn right(&self) -> String {
        if self.org.0.is_nil() {
            return "operator".to_owned();
        }
        let scoped = self.scoped_roles.iter().map(ScopedRole::to_string);
        let whole = Some(self.role.as_str().to_owned()).filter(|_| self.role != Role::None);
        whole.into_iter().chain(scoped).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_reads_back_and_one_without_a_subject_is_written_as_its_principal_alone() {
        let principal = PrincipalId(Uuid::from_u128(7));
        let plain = CallerId::from(principal);
        let subject = Some(SubjectDigest("x@y".to_owned()));
        for caller in [plain.clone(), CallerId { principal, subject }] {
            let written = serde_json::to_string(&caller).unwrap();
            assert_eq!(serde_json::from_str::<CallerId>(&written).unwrap(), caller);
        }
        // As items of the table have it that name the principal alone.
        let stored = serde_json::to_string(&principal).unwrap();
        assert_eq!(serde_json::from_str::<CallerId>(&stored).unwrap(), plain);
        assert_eq!(plain.to_string(), principal.to_string());
    }

    #[test]
    fn groups_are_stored_with_a_sign_in_and_one_of_an_earlier_version_has_none() {
        let groups = vec!["leads".to_owned()];
        let sign_in = SignIn { groups, ..SignIn::default() };
        assert!(!sign_in.has_nothing_to_store());
        let stored = serde_json::to_string(&sign_in).unwrap();
        assert_eq!(stored, r#"{"groups":["leads"]}"#);
        assert_eq!(serde_json::from_str::<SignIn>(&stored).unwrap(), sign_in);
        let earlier: SignIn = serde_json::from_str(r#"{"subject":"x"}"#).unwrap();
        assert_eq!(earlier.groups, Vec::<String>::new());
        // They are those of an identity provider, so without one they count nowhere.
        assert_eq!(sign_in.membership(), None);
    }

    #[test]
    fn a_request_waits_no_longer_than_its_token_is_good_and_is_answered_before_that_ends() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wanted = Duration::from_secs(25);
        for (until, expected) in [
            (None, 25),
            (Some(200), 25),
            (Some(126), 25),
            (Some(110), 9),
            (Some(101), 0),
            (Some(90), 0),
        ] {
            let sign_in = SignIn { until: until.map(at), ..SignIn::default() };
            assert_eq!(sign_in.bounded(wanted, at(100)).as_secs(), expected, "{until:?}");
        }
    }
}
