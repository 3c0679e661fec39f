//! What makes the clouds trust a runner's jobs: one document for each role that they have there.
//!
//! A job's subject names its environment, and Canyon does not know which environments a role is for: the documents have
//! the words PROJECT, ENV_TYPE and ENV for that.

use super::Document;
use super::gcp::Provider;
use crate::ids::OrgId;
use crate::job_identity::{AWS_AUDIENCE, AZURE_AUDIENCE, JobIdentity, TokenPhase};
use crate::mode::Mode;
use crate::role_class::RoleClass;
use serde_json::json;
use std::collections::BTreeMap;

/// The roles at one cloud, and the classes of jobs that have each.
type Roles = BTreeMap<String, Vec<RoleClass>>;

/// Which jobs the documents are about.
#[derive(Debug)]
pub(crate) struct JobSubjects<'a> {
    /// The `iss` of jobs' tokens.
    pub(crate) issuer: &'a str,
    /// The organization.
    pub(crate) org: &'a OrgId,
}

impl JobSubjects<'_> {
    /// The subjects of the jobs of these classes, in `env`.
    fn subjects(&self, classes: &[RoleClass], env: &str) -> Vec<String> {
        let phase = |class: &RoleClass| match class {
            RoleClass::Plan => TokenPhase::Plan,
            RoleClass::Apply | RoleClass::Destroy => TokenPhase::Apply,
        };
        let mut phases: Vec<_> = classes.iter().map(phase).collect();
        phases.dedup();
        let of = |phase: TokenPhase| {
            let (org, phase) = (self.org, phase.as_str());
            format!("org:{org}:project:PROJECT:env_type:ENV_TYPE:env:{env}:phase:{phase}")
        };
        phases.into_iter().map(of).collect()
    }

    /// The trust of each role in `identity`.
    pub(crate) fn documents(&self, identity: &JobIdentity) -> Vec<Document> {
        let mut aws = Roles::new();
        let mut gcp = Roles::new();
        let mut azure = Roles::new();
        for class in RoleClass::ALL {
            let (mode, phase) = match class {
                RoleClass::Plan => (Mode::Deploy, TokenPhase::Plan),
                RoleClass::Apply => (Mode::Deploy, TokenPhase::Apply),
                RoleClass::Destroy => (Mode::Destroy, TokenPhase::Apply),
            };
            let of_run = identity.of_run(mode);
            let add = |roles: &mut Roles, role: Option<&str>| {
                let known = role.map(|role| roles.entry(role.to_owned()).or_default());
                known.into_iter().for_each(|classes| classes.push(class));
            };
            add(&mut aws, of_run.aws.as_ref().map(|aws| aws.role(phase)));
            add(&mut gcp, of_run.gcp.as_ref().and_then(|gcp| gcp.account(phase)));
            add(&mut azure, of_run.azure.as_ref().map(|azure| azure.client(phase)));
        }
        let audience = identity.gcp.as_ref().map_or("", |gcp| gcp.audience.as_str());
        let aws = aws.iter().map(|(role, classes)| self.for_aws(role, classes));
        let gcp = gcp.iter().map(|(account, classes)| self.for_gcp(audience, account, classes));
        let azure = azure.iter().map(|(client, classes)| self.for_azure(client, classes));
        aws.chain(gcp).chain(azure).collect()
    }

    fn for_aws(&self, role: &str, classes: &[RoleClass]) -> Document {
        let mut parts = role.splitn(6, ':');
        let partition = parts.nth(1).unwrap_or("aws");
        let account = parts.nth(2).unwrap_or_default();
        let name = role.rsplit('/').next().unwrap_or_default();
        let provider = self.issuer.strip_prefix("https://").unwrap_or(self.issuer);
        let policy = json!({ "Version": "2012-10-17", "Statement": [{
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": { "Federated": format!("arn:{partition}:iam::{account}:oidc-provider/{provider}") },
            "Condition": {
                "StringEquals": { format!("{provider}:aud"): AWS_AUDIENCE },
                "StringLike": { format!("{provider}:sub"): self.subjects(classes, "*") },
            },
        }]});
        let title = format!("Trust policy of the jobs' role {name} ({})", listed(classes));
        let place = format!(
            "role {name}, with your PROJECT and ENV_TYPE: aws iam update-assume-role-policy --role-name {name} \
             --policy-document file://trust.json"
        );
        Document::json(&title, place, &policy)
    }

    fn for_gcp(&self, audience: &str, account: &str, classes: &[RoleClass]) -> Document {
        let Provider { project, location, pool, .. } = Provider::of(audience);
        let pool = format!("projects/{project}/locations/{location}/workloadIdentityPools/{pool}");
        let member = |class: &RoleClass| {
            let (org, class) = (self.org, class.as_str());
            format!("principalSet://iam.googleapis.com/{pool}/attribute.job/{org}/PROJECT/{class}")
        };
        let members: Vec<_> = classes.iter().map(member).collect();
        let title = format!("Binding of the jobs' account {account} ({})", listed(classes));
        let place = format!(
            "account {account}, with your PROJECT: gcloud iam service-accounts add-iam-policy-binding for each member; \
             the provider of {} needs attribute.job=assertion.org+'/'+assertion.project+'/'+assertion.role",
            self.issuer
        );
        let binding = json!({ "role": "roles/iam.workloadIdentityUser", "members": members });
        Document::json(&title, place, &binding)
    }

    fn for_azure(&self, client: &str, classes: &[RoleClass]) -> Document {
        let credential = |subject: String| {
            json!({
                "name": format!("canyon-{}", subject.rsplit(':').next().unwrap_or_default()),
                "issuer": self.issuer,
                "subject": subject,
                "audiences": [AZURE_AUDIENCE],
            })
        };
        let subjects = self.subjects(classes, "ENV");
        let credentials: Vec<_> = subjects.into_iter().map(credential).collect();
        let title = format!("Federated credentials of the jobs' {client} ({})", listed(classes));
        let place = format!(
            "application {client}, each for each of your environments: az ad app federated-credential create --id \
             {client} --parameters @credential.json"
        );
        Document::json(&title, place, &json!(credentials))
    }
}

fn listed(classes: &[RoleClass]) -> String {
    classes.iter().map(|class| class.as_str()).collect::<Vec<_>>().join(", ")
}
