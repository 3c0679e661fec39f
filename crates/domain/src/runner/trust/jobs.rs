//! What makes the clouds trust a runner's jobs: one document for each role that they have there.
//!
//! A job's subject names its environment, and Canyon does not know which environments a role is for: the documents have
//! the words `PROJECT`, `ENV_TYPE` and `ENV` for that.

use super::Document;
use super::gcp::Provider;
use crate::ids::OrgId;
use crate::job_identity::{AWS_AUDIENCE, AZURE_AUDIENCE, JobIdentity, TokenPhase};
use crate::mode::Mode;
use crate::role_class::RoleClass;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that have one role: the value of the claim `role`, and the phases in which they have it.
#[derive(Clone, Debug)]
struct Holder {
    role: String,
    phases: &'static [TokenPhase],
    is_named: bool,
}

/// The roles at one cloud, and the jobs that have each.
type Roles = BTreeMap<String, Vec<Holder>>;

const PLAN: &[TokenPhase] = &[TokenPhase::Plan];
const APPLY: &[TokenPhase] = &[TokenPhase::Apply];
const BOTH: &[TokenPhase] = &[TokenPhase::Plan, TokenPhase::Apply];

/// Which jobs the documents are about.
#[derive(Debug)]
pub(crate) struct JobSubjects<'a> {
    /// The `iss` of jobs' tokens.
    pub(crate) issuer: &'a str,
    /// The organization.
    pub(crate) org: &'a OrgId,
}

impl JobSubjects<'_> {
    /// The subjects of these jobs, in `env`.
    fn subjects(&self, holders: &[Holder], env: &str) -> BTreeSet<String> {
        let org = self.org;
        let mut subjects = BTreeSet::new();
        for Holder { role, phases, is_named } in holders {
            let role = if *is_named { format!(":role:{role}") } else { String::new() };
            subjects.extend(phases.iter().map(|phase| {
                let phase = phase.as_str();
                format!("org:{org}:project:PROJECT:env_type:ENV_TYPE:env:{env}:phase:{phase}{role}")
            }));
        }
        subjects
    }

    /// The trust of each role in `identity`.
    pub(crate) fn documents(&self, identity: &JobIdentity) -> Vec<Document> {
        let classes = [
            (RoleClass::Plan, Mode::Deploy, PLAN),
            (RoleClass::Apply, Mode::Deploy, APPLY),
            (RoleClass::Destroy, Mode::Destroy, APPLY),
        ];
        let of_classes = classes.map(|(class, mode, phases)| {
            let role = class.as_str().to_owned();
            (identity.of_run(mode, None), Holder { role, phases, is_named: false })
        });
        let of_names = identity.named_roles.iter().flatten().map(|(name, named)| {
            let holder = Holder { role: name.clone(), phases: BOTH, is_named: true };
            (identity.of_run(Mode::Deploy, Some(&named.roles)), holder)
        });
        let (mut aws, mut gcp, mut azure) = (Roles::new(), Roles::new(), Roles::new());
        for (of_run, holder) in of_classes.into_iter().chain(of_names) {
            for phase in holder.phases {
                let phases = match phase {
                    TokenPhase::Plan => PLAN,
                    TokenPhase::Apply => APPLY,
                };
                // A named role that leaves out a cloud has there the roles of the classes, in each phase another.
                let add = |roles: &mut Roles, role: Option<&str>| {
                    if let Some(role) = role {
                        let holders = roles.entry(role.to_owned()).or_default();
                        holders.push(Holder { phases, ..holder.clone() });
                    }
                };
                add(&mut aws, of_run.aws.as_ref().map(|aws| aws.role(*phase)));
                add(&mut gcp, of_run.gcp.as_ref().and_then(|gcp| gcp.account(*phase)));
                add(&mut azure, of_run.azure.as_ref().map(|azure| azure.client(*phase)));
            }
        }
        let audience = identity.gcp.as_ref().map_or("", |gcp| gcp.audience.as_str());
        let aws = aws.iter().map(|(role, holders)| self.for_aws(role, holders));
        let gcp = gcp.iter().map(|(account, holders)| self.for_gcp(audience, account, holders));
        let azure = azure.iter().map(|(client, holders)| self.for_azure(client, holders));
        aws.chain(gcp).chain(azure).collect()
    }

    fn for_aws(&self, role: &str, holders: &[Holder]) -> Document {
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
                "StringLike": { format!("{provider}:sub"): self.subjects(holders, "*") },
            },
        }]});
        let title = format!("Trust policy of the jobs' role {name} ({})", listed(holders));
        let place = format!(
            "role {name}, with your PROJECT and ENV_TYPE: aws iam update-assume-role-policy --role-name {name} \
             --policy-document file://trust.json"
        );
        Document::json(&title, place, &policy)
    }

    fn for_gcp(&self, audience: &str, account: &str, holders: &[Holder]) -> Document {
        let Provider { project, location, pool, .. } = Provider::of(audience);
        let pool = format!("projects/{project}/locations/{location}/workloadIdentityPools/{pool}");
        let mut members = BTreeSet::new();
        for Holder { role, phases, .. } in holders {
            members.extend(phases.iter().map(|phase| {
                let (org, phase) = (self.org, phase.as_str());
                format!("principalSet://iam.googleapis.com/{pool}/attribute.job/{org}/PROJECT/{phase}/{role}")
            }));
        }
        let title = format!("Binding of the jobs' account {account} ({})", listed(holders));
        let place = format!(
            "account {account}, with your PROJECT: gcloud iam service-accounts add-iam-policy-binding for each member; \
             the provider of {} needs attribute.job=assertion.org+'/'+assertion.project+'/'+assertion.phase+'/'+assertion.role",
            self.issuer
        );
        let binding = json!({ "role": "roles/iam.workloadIdentityUser", "members": members });
        Document::json(&title, place, &binding)
    }

    fn for_azure(&self, client: &str, holders: &[Holder]) -> Document {
        let credential = |subject: String| {
            json!({
                "name": format!("canyon-{}", subject.split(":phase:").nth(1).unwrap_or_default().replace(':', "-")),
                "issuer": self.issuer,
                "subject": subject,
                "audiences": [AZURE_AUDIENCE],
            })
        };
        let subjects = self.subjects(holders, "ENV");
        let credentials: Vec<_> = subjects.into_iter().map(credential).collect();
        let title = format!("Federated credentials of the jobs' {client} ({})", listed(holders));
        let place = format!(
            "application {client}, each for each of your environments: az ad app federated-credential create --id \
             {client} --parameters @credential.json"
        );
        Document::json(&title, place, &json!(credentials))
    }
}

fn listed(holders: &[Holder]) -> String {
    let mut names: Vec<_> = holders.iter().map(|holder| holder.role.as_str()).collect();
    names.dedup();
    names.join(", ")
}
