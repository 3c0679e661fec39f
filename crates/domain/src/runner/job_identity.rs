//! The identity of a job at clouds: tokens of Canyon's own issuer, in files that the clouds' libraries read.
//!
//! The subject of such a token contains the deployment's target and the phase. So a cloud can allow a plan to
//! read, and only an apply to write: [`TokenPhase`] is part of what it trusts.

use crate::failure::Phase;
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, ProjectId, RunnerId, RunnerUuid,
};
use crate::kind::Kind;
use crate::mode::Mode;
use crate::role_class::{RoleCandidates, RoleClass};
use crate::runner::eks::other_partition;
use crate::runner::fields::Fields;
use crate::runner::job_roles::{CloudRoles, JobRoles};
use crate::runner::named_role::{MAX_NAMED_ROLES, NamedRole, ROLE_NAME};
use crate::runner::patterns::{
    GCP_AUDIENCE, GCP_PROJECT, GCP_SERVICE_ACCOUNT, NAME, REGION, ROLE_ARN, UUID,
};
use crate::runner::properties::properties;
use crate::runner::shape::Shape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The audience of tokens for AWS, which an IAM identity provider lists as its client id (IAM User Guide,
/// "Create an OpenID Connect (OIDC) identity provider in IAM").
pub const AWS_AUDIENCE: &str = "sts.amazonaws.com";
/// The audience of tokens for Azure (Microsoft Entra, "Workload identity federation").
pub const AZURE_AUDIENCE: &str = "api://AzureADTokenExchange";
/// Maximum number of user-defined tokens.
const MAX_TOKENS: usize = 10;

const TOKEN_NAME: Shape = Shape {
    rule: "at most 30 lower case letters, digits, `-` and `_`, starting with a letter",
    max: 30,
    fits: |text| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
    },
    published: None,
    format: None,
};

properties! {
    /// `job.identity`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct JobIdentity, check {
        /// At AWS.
        pub aws: Option<AwsIdentity> = object(AwsIdentity::read),
        /// At Google Cloud.
        pub gcp: Option<GcpIdentity> = object(GcpIdentity::read),
        /// At Azure.
        pub azure: Option<AzureIdentity> = object(AzureIdentity::read),
        /// Roles by class of job, where they differ from those above.
        pub job_roles: Option<JobRoles> = object(JobRoles::read),
        /// Roles that a request to deploy may ask for, by name.
        pub named_roles: Option<BTreeMap<String, NamedRole>> =
            object_map(MAX_NAMED_ROLES, &ROLE_NAME, NamedRole::read),
        /// Tokens for other services that trust Canyon's issuer.
        pub tokens: Option<Vec<NamedToken>> = objects(&(0..=MAX_TOKENS), NamedToken::read),
    }
}

properties! {
    /// `job.identity.aws`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AwsIdentity, check {
        /// Role of the job.
        pub role_arn: String = required_text(&ROLE_ARN),
        /// Role until the apply begins. Default: `role_arn`.
        pub plan_role_arn: Option<String> = text(&ROLE_ARN),
        /// Region, as `AWS_REGION`.
        pub region: Option<String> = text(&REGION),
    }
}

properties! {
    /// `job.identity.gcp`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GcpIdentity {
        /// The workload identity provider that trusts Canyon's issuer.
        pub audience: String = required_text(&GCP_AUDIENCE.strict()),
        /// Service account to act as. Without it, the job acts as the federated identity itself.
        pub service_account: Option<String> = text(&GCP_SERVICE_ACCOUNT.strict()),
        /// Service account until the apply begins. Default: `service_account`.
        pub plan_service_account: Option<String> = text(&GCP_SERVICE_ACCOUNT.strict()),
        /// Project, as `GOOGLE_PROJECT`.
        pub project_id: Option<String> = text(&GCP_PROJECT.strict()),
    }
}

properties! {
    /// `job.identity.azure`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AzureIdentity {
        /// Entra tenant.
        pub tenant_id: String = required_text(&UUID),
        /// Application, or managed identity, that trusts Canyon's issuer.
        pub client_id: String = required_text(&UUID),
        /// Application until the apply begins. Default: `client_id`.
        pub plan_client_id: Option<String> = text(&UUID),
        /// Subscription, as `ARM_SUBSCRIPTION_ID`.
        pub subscription_id: Option<String> = text(&UUID),
    }
}

properties! {
    /// An entry of `job.identity.tokens`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NamedToken {
        /// Names its file, and the variable with the file's path.
        pub name: String = required_text(&TOKEN_NAME),
        /// Its audience.
        pub audience: String = required_text(&NAME),
    }
}

impl NamedToken {
    /// The variable with the path of the file.
    pub fn variable(&self) -> String {
        format!("CANYON_TOKEN_FILE_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

/// The phase of a job in its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenPhase {
    /// It only reads.
    Plan,
    /// It changes resources.
    Apply,
}

impl TokenPhase {
    /// The name in tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
        }
    }

    /// The class of a run of `mode` in this phase.
    pub fn class(self, mode: Mode) -> RoleClass {
        RoleClass::of(mode, self == Self::Apply)
    }

    /// Whether an attempt that has reached `reached` may get a token of this phase. The begin of an apply is
    /// recorded before the apply.
    pub fn is_reached(self, reached: Phase, plan_only: bool) -> bool {
        match self {
            Self::Plan => true,
            Self::Apply => !plan_only && reached >= Phase::Apply,
        }
    }
}

impl AwsIdentity {
    fn check(&self, fields: &mut Fields) {
        let region = self.region.as_deref().unwrap_or_default();
        let plan = self.plan_role_arn.as_deref().unwrap_or_default();
        for (name, role) in [("role_arn", self.role_arn.as_str()), ("plan_role_arn", plan)] {
            if let Some(reason) = other_partition(role, region) {
                fields.fault(name, reason);
            }
        }
    }

    /// The role in `phase`.
    pub fn role(&self, phase: TokenPhase) -> &str {
        pick(phase, self.plan_role_arn.as_deref(), &self.role_arn)
    }
}

impl GcpIdentity {
    /// The service account in `phase`.
    pub fn account(&self, phase: TokenPhase) -> Option<&str> {
        let account = self.service_account.as_deref();
        match phase {
            TokenPhase::Plan => self.plan_service_account.as_deref().or(account),
            TokenPhase::Apply => account,
        }
    }
}

impl AzureIdentity {
    /// The application in `phase`.
    pub fn client(&self, phase: TokenPhase) -> &str {
        pick(phase, self.plan_client_id.as_deref(), &self.client_id)
    }
}

fn pick<'a>(phase: TokenPhase, plan: Option<&'a str>, apply: &'a str) -> &'a str {
    match phase {
        TokenPhase::Plan => plan.unwrap_or(apply),
        TokenPhase::Apply => apply,
    }
}

impl JobIdentity {
    /// The audiences of all its tokens.
    pub fn audiences(&self) -> BTreeSet<&str> {
        let named = self.tokens.iter().flatten().map(|token| token.audience.as_str());
        let gcp = self.gcp.as_ref().map(|gcp| gcp.audience.as_str());
        let aws = self.aws.as_ref().map(|_| AWS_AUDIENCE);
        let azure = self.azure.as_ref().map(|_| AZURE_AUDIENCE);
        named.chain(gcp).chain(aws).chain(azure).collect()
    }

    /// The named role with this name.
    pub fn named_role(&self, name: &str) -> Option<&NamedRole> {
        self.named_roles.as_ref()?.get(name)
    }

    /// The identity of a run of `mode`: its roles are chosen, those of `asked` first, and `job_roles` and `named_roles`
    /// are absent. So a program of an earlier version, which does not know these, has the same roles.
    #[must_use]
    pub fn of_run(&self, mode: Mode, asked: Option<&CloudRoles>) -> Self {
        let mut chosen = Self { job_roles: None, named_roles: None, ..self.clone() };
        let roles = |has_begun| self.job_roles.as_ref()?.of(RoleClass::of(mode, has_begun));
        let (plan, apply) = (roles(false), roles(true));
        let choose = |role: fn(&CloudRoles) -> Option<&str>,
                      older: Option<String>,
                      of_all: &str| {
            let common =
                RoleCandidates { by_request: asked.and_then(role), of_all, ..Default::default() };
            let by_older_field = older.as_deref();
            let plan = RoleCandidates { by_class: plan.and_then(role), by_older_field, ..common };
            let apply = RoleCandidates { by_class: apply.and_then(role), ..common };
            let (plan, apply) = (plan.choose().to_owned(), apply.choose().to_owned());
            (Some(plan).filter(|plan| *plan != apply), apply)
        };
        if let Some(aws) = &mut chosen.aws {
            (aws.plan_role_arn, aws.role_arn) =
                choose(CloudRoles::aws, aws.plan_role_arn.take(), &aws.role_arn);
        }
        if let Some(gcp) = &mut chosen.gcp
            && let Some(account) = &gcp.service_account
        {
            let (plan, apply) = choose(CloudRoles::gcp, gcp.plan_service_account.take(), account);
            (gcp.plan_service_account, gcp.service_account) = (plan, Some(apply));
        }
        if let Some(azure) = &mut chosen.azure {
            (azure.plan_client_id, azure.client_id) =
                choose(CloudRoles::azure, azure.plan_client_id.take(), &azure.client_id);
        }
        chosen
    }

    fn check(&self, fields: &mut Fields) {
        if let Some(roles) = &self.job_roles {
            roles.check(self, fields);
        }
        for (name, role) in self.named_roles.iter().flatten() {
            role.check(&format!("named_roles.{name}"), self, fields);
        }
        let mut variables = BTreeSet::new();
        for (index, token) in self.tokens.iter().flatten().enumerate() {
            if !variables.insert(token.variable()) {
                let reason = format!("is used by another token: both set `{}`", token.variable());
                fields.fault(&format!("tokens[{index}].name"), reason);
            }
        }
    }
}

/// The statement of a token about a job.
#[derive(Clone, Copy, Debug)]
pub struct JobStatement<'a> {
    /// The organization.
    pub org_id: &'a OrgId,
    /// The organization's uuid.
    pub org: OrgUuid,
    /// The project.
    pub project: &'a ProjectId,
    /// The project's uuid.
    pub project_uuid: Uuid,
    /// The type of the environment.
    pub env_type: &'a EnvTypeId,
    /// The environment.
    pub env: &'a EnvId,
    /// The environment's uuid.
    pub env_uuid: EnvUuid,
    /// The runner.
    pub runner: &'a RunnerId,
    /// The runner's uuid.
    pub runner_uuid: RunnerUuid,
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt's number.
    pub attempt: u32,
    /// The kind of the job.
    pub kind: Kind,
    /// The mode of the deployment.
    pub mode: Mode,
    /// The phase.
    pub phase: TokenPhase,
    /// The named role that its request asked for, instead of that of its class.
    pub named_role: Option<&'a str>,
}

impl JobStatement<'_> {
    /// The `sub`. No id contains a colon, so two targets never have the same subject. That of a named role has another end,
    /// so that clouds which see only the subject do not take other jobs for it.
    pub fn subject(&self) -> String {
        let subject = format!(
            "org:{}:project:{}:env_type:{}:env:{}:phase:{}",
            self.org_id,
            self.project,
            self.env_type,
            self.env,
            self.phase.as_str(),
        );
        match self.named_role {
            None => subject,
            Some(role) => format!("{subject}:role:{role}"),
        }
    }

    /// The role that the job has in this phase: a named one, or that of its class.
    fn role(&self) -> &str {
        self.named_role.unwrap_or_else(|| self.phase.class(self.mode).as_str())
    }

    /// The further claims, for attribute mappings. Google accepts at most 127 bytes as a subject: `env_uuid`
    /// and `phase` are short.
    pub fn claims(&self) -> Map<String, Value> {
        let claims = json!({
            "org": self.org_id,
            "org_uuid": self.org,
            "project": self.project,
            "project_uuid": self.project_uuid,
            "env_type": self.env_type,
            "env": self.env,
            "env_uuid": self.env_uuid,
            "runner": self.runner,
            "runner_uuid": self.runner_uuid,
            "deployment": self.deployment,
            "attempt": self.attempt,
            "mode": self.mode,
            "phase": self.phase,
            "kind": self.kind,
            "role": self.role(),
        });
        match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests;
