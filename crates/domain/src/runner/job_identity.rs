//! The identity of a job at clouds: tokens of Canyon's own issuer, in files that the clouds' libraries read.
//!
//! The subject of such a token contains the deployment's target and the phase. So a cloud can allow a plan to
//! read, and only an apply to write: [`TokenPhase`] is part of what it trusts.

use crate::failure::Phase;
use crate::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, ProjectId, RunnerId, RunnerUuid,
};
use crate::mode::Mode;
use crate::runner::eks::other_partition;
use crate::runner::fields::Fields;
use crate::runner::patterns::{
    GCP_AUDIENCE, GCP_PROJECT, GCP_SERVICE_ACCOUNT, NAME, REGION, ROLE_ARN, UUID,
};
use crate::runner::properties::properties;
use crate::runner::shape::Shape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
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

    fn check(&self, fields: &mut Fields) {
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
    /// The mode of the deployment.
    pub mode: Mode,
    /// The phase.
    pub phase: TokenPhase,
}

impl JobStatement<'_> {
    /// The `sub`. No id contains a colon, so two targets never have the same subject.
    pub fn subject(&self) -> String {
        format!(
            "org:{}:project:{}:env_type:{}:env:{}:phase:{}",
            self.org_id,
            self.project,
            self.env_type,
            self.env,
            self.phase.as_str(),
        )
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
        });
        match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_error::FieldErrors;

    fn read(value: Value) -> Result<JobIdentity, Vec<String>> {
        let mut errors = FieldErrors::default();
        let identity = Fields::read(value, "identity", &mut errors, JobIdentity::read);
        let faults: Vec<_> = errors.iter().map(|error| error.path.clone()).collect();
        if faults.is_empty() { Ok(identity.unwrap()) } else { Err(faults) }
    }

    #[test]
    fn an_identity_comes_back_as_it_was_given() {
        let given = json!({
            "aws": {
                "role_arn": "arn:aws:iam::123456789012:role/apply",
                "plan_role_arn": "arn:aws:iam::123456789012:role/plan", "region": "eu-west-1",
            },
            "gcp": {
                "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
                "service_account": "apply@p.iam.gserviceaccount.com",
            },
            "azure": {
                "tenant_id": "00000000-0000-7000-8000-000000000001",
                "client_id": "00000000-0000-7000-8000-000000000002",
            },
            "tokens": [{ "name": "vault-eu", "audience": "https://vault.example.com" }],
        });
        let identity = read(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&identity).unwrap(), given);
        assert_eq!(serde_json::from_value::<JobIdentity>(given).unwrap(), identity);
        assert_eq!(identity.audiences().len(), 4);
        let aws = identity.aws.unwrap();
        assert!(aws.role(TokenPhase::Plan).ends_with("/plan"));
        assert!(aws.role(TokenPhase::Apply).ends_with("/apply"));
        assert_eq!(
            identity.gcp.unwrap().account(TokenPhase::Plan),
            Some("apply@p.iam.gserviceaccount.com")
        );
        assert_eq!(identity.tokens.unwrap()[0].variable(), "CANYON_TOKEN_FILE_VAULT_EU");
    }

    #[test]
    fn every_invalid_field_is_named() {
        let faults = read(json!({
            "aws": { "role_arn": "arn:aws-cn:iam::123456789012:role/a", "region": "eu-west-1" },
            "gcp": { "audience": "sts" },
            "azure": { "tenant_id": "common" },
            "tokens": [
                { "name": "a-b", "audience": "x" }, { "name": "a_b", "audience": "y" },
                { "name": "../a", "audience": "" },
            ],
            "oracle": {},
        }))
        .unwrap_err();
        let expected = [
            "identity.aws.role_arn",
            "identity.gcp.audience",
            "identity.azure.tenant_id",
            "identity.azure.client_id",
            "identity.tokens[2].name",
            "identity.tokens[2].audience",
            "identity.tokens[1].name",
            "identity.oracle",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_plan_never_has_a_token_of_an_apply() {
        use Phase as P;
        for (reached, plan_only, expected) in [
            (P::Launch, false, false),
            (P::Plan, false, false),
            (P::Apply, false, true),
            (P::Apply, true, false),
        ] {
            assert_eq!(TokenPhase::Apply.is_reached(reached, plan_only), expected, "{reached:?}");
            assert!(TokenPhase::Plan.is_reached(reached, plan_only));
        }
    }
}
