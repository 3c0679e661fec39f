//! `named_roles` of a job's identity: roles that a request to deploy may ask for.

use super::fields::Fields;
use super::job_identity::JobIdentity;
use super::job_roles::CloudRoles;
use super::shape::Shape;
use crate::ids::EnvTypeId;
use crate::kind::Kind;
use crate::requested_role::{RequestedRole, is_role_name};
use crate::runner::properties::properties;
use serde::{Deserialize, Serialize};

/// The most named roles of one runner.
pub(super) const MAX_NAMED_ROLES: usize = 20;
const REASON: &str = "reason";

const fn shape(max: usize, rule: &'static str, fits: fn(&str) -> bool) -> Shape {
    Shape { rule, max, fits, published: None, format: None }
}

pub(super) const ROLE_NAME: Shape = shape(
    63,
    "lower case letters, digits and single hyphens, starting with a letter, and no name of a class (`plan`, `apply`, \
     `destroy`, `action`, `sync`, `check`)",
    is_role_name,
);
const KIND: Shape =
    shape(10, "`tofu` or `container`", |text| Kind::ALL.iter().any(|kind| kind.as_str() == text));
const REQUIREMENT: Shape = shape(10, "`reason`", |text| text == REASON);
const ENV_TYPE: Shape =
    shape(63, "the id of an environment type", |text| text.parse::<EnvTypeId>().is_ok());

properties! {
    /// An entry of `job.identity.named_roles`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NamedRole {
        /// Kinds of jobs that may have it. Default: all.
        pub kinds: Option<Vec<String>> = texts(&(1..=10), &KIND),
        /// Types of the environments whose jobs may have it. Default: all.
        pub env_types: Option<Vec<String>> = texts(&(1..=50), &ENV_TYPE),
        /// What a request for it needs: `reason`.
        pub requires: Option<Vec<String>> = texts(&(0..=10), &REQUIREMENT),
        /// With `false`, an administrator must enable it first, for at most 8 hours. Default: true.
        pub enabled: Option<bool> = flag(),
        /// Its roles at clouds.
        pub roles: CloudRoles = flatten,
    }
}

/// Why a job cannot have a named role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleRefusal {
    /// It is for other jobs.
    #[error("role '{role}' is not allowed for kind '{}' in environments of type '{env_type}'", kind.as_str())]
    NotAllowed {
        /// The role.
        role: String,
        /// The kind of the job.
        kind: Kind,
        /// The type of the environment.
        env_type: EnvTypeId,
    },
    /// It requires a reason.
    #[error("is required by role `{0}`")]
    NoReason(String),
    /// It is disabled.
    #[error(
        "role `{0}` is disabled; an administrator enables it for at most 8 hours with: canyon enable role RUNNER {0} \
         --reason TEXT"
    )]
    Disabled(String),
}

impl NamedRole {
    /// Whether an administrator must enable it before a use.
    pub fn must_be_enabled(&self) -> bool {
        self.enabled == Some(false)
    }

    /// Why a job of `kind` in an environment of type `env_type` cannot have this role. `is_enabled` tells whether an administrator
    /// has enabled it for now.
    pub fn refusal(
        &self,
        asked: &RequestedRole,
        kind: Kind,
        env_type: &EnvTypeId,
        is_enabled: bool,
    ) -> Option<RoleRefusal> {
        let role = asked.name.to_string();
        let allows = |names: &Option<Vec<String>>, name: &str| {
            names.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
        };
        let requires_reason = self.requires.iter().flatten().any(|what| what == REASON);
        if !allows(&self.kinds, kind.as_str()) || !allows(&self.env_types, env_type.as_str()) {
            return Some(RoleRefusal::NotAllowed { role, kind, env_type: env_type.clone() });
        }
        if requires_reason && asked.reason.is_none() {
            return Some(RoleRefusal::NoReason(role));
        }
        (self.must_be_enabled() && !is_enabled).then_some(RoleRefusal::Disabled(role))
    }

    /// Notes what does not fit to the rest of `identity`. `path` is this role's.
    pub(super) fn check(&self, path: &str, identity: &JobIdentity, fields: &mut Fields) {
        if self.roles == CloudRoles::default() && !fields.is_faulty(path) {
            fields.fault(
                path,
                "names no role at a cloud: give `aws_role_arn`, `gcp_service_account` or `azure_client_id`",
            );
        }
        self.roles.check(path, identity, fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_refused_by_type_of_environment_reason_and_whether_it_is_enabled() {
        let texts = |text: &str| Some(vec![text.to_owned()]);
        let production = NamedRole { env_types: texts("production"), ..NamedRole::default() };
        let explained = NamedRole { requires: texts(REASON), ..NamedRole::default() };
        let disabled = NamedRole { enabled: Some(false), ..NamedRole::default() };
        let given = Some("incident 12");
        for (role, env_type, reason, is_enabled, expected) in [
            (&NamedRole::default(), "dev", None, false, None),
            (&NamedRole { kinds: texts("tofu"), ..NamedRole::default() }, "dev", None, false, None),
            (
                &NamedRole { kinds: texts("container"), ..NamedRole::default() },
                "dev",
                None,
                false,
                Some("role 'fix' is not allowed for kind 'tofu' in environments of type 'dev'"),
            ),
            (&production, "production", None, false, None),
            (
                &production,
                "dev",
                None,
                true,
                Some("role 'fix' is not allowed for kind 'tofu' in environments of type 'dev'"),
            ),
            (&explained, "dev", given, false, None),
            (&explained, "dev", None, false, Some("is required by role `fix`")),
            (&disabled, "dev", None, true, None),
            (&disabled, "dev", given, false, Some("role `fix` is disabled")),
        ] {
            let reason = reason.map(str::to_owned);
            let asked = RequestedRole { name: "fix".parse().unwrap(), reason };
            let refusal = role.refusal(&asked, Kind::Tofu, &env_type.parse().unwrap(), is_enabled);
            let text = refusal.map(|refusal| refusal.to_string());
            let fits = match (expected, &text) {
                (None, None) => true,
                (Some(expected), Some(text)) => text.starts_with(expected),
                _ => false,
            };
            assert!(fits, "{role:?} in {env_type}: {text:?}");
        }
    }
}
