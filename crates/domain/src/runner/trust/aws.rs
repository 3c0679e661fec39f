//! AWS: the account trusts Canyon's issuer, and one role trusts one runner.

use super::kubernetes::{User, cluster_documents};
use super::{Document, TrustSubject};
use crate::job_identity::AWS_AUDIENCE;
use crate::runner::ecs::{EcsJob, ServerlessEcs};
use crate::runner::eks::{AwsAuth, Eks};
use crate::runner::patterns::partition_of;
use crate::state_storage::StateStorage;
use serde_json::{Value, json};

/// The Kubernetes group to which an EKS cluster maps the role. It must not begin with `system:`, `eks:`,
/// `aws:`, `amazon:` or `iam:` (Amazon EKS User Guide, "Creating access entries").
pub const EKS_GROUP: &str = "canyon-launcher";

/// The `aud` that AWS STS requires in the launcher's tokens (IAM User Guide, "Create an OpenID Connect
/// identity provider"). Partitions are separate: a token for one is not valid in another.
pub fn audience(auth: &AwsAuth) -> &'static str {
    match Role::of(auth).partition {
        "aws-cn" => "sts.amazonaws.com.cn",
        _ => AWS_AUDIENCE,
    }
}

/// The parts of a role's ARN.
struct Role<'a> {
    partition: &'a str,
    account: &'a str,
    name: &'a str,
}

impl<'a> Role<'a> {
    fn of(auth: &'a AwsAuth) -> Self {
        let mut parts = auth.role_arn.splitn(6, ':');
        let partition = parts.nth(1).unwrap_or("aws");
        let account = parts.nth(2).unwrap_or_default();
        let path = parts.next().unwrap_or_default();
        Self { partition, account, name: path.rsplit('/').next().unwrap_or_default() }
    }
}

/// The issuer's name in IAM: without `https://`.
fn provider(trusted: &TrustSubject) -> String {
    let name = trusted.issuer.strip_prefix("https://").unwrap_or(trusted.issuer);
    name.trim_end_matches('/').to_owned()
}

fn trust_documents(trusted: &TrustSubject, auth: &AwsAuth) -> Vec<Document> {
    let role = Role::of(auth);
    let provider = provider(trusted);
    let condition = json!({
        format!("{provider}:aud"): audience(auth),
        format!("{provider}:sub"): trusted.subject,
    });
    let arn = format!("arn:{}:iam::{}:oidc-provider/{provider}", role.partition, role.account);
    let statement = json!({
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": { "Federated": arn },
        "Condition": { "StringEquals": condition },
    });
    // Tokens of jobs, if the runner has an identity, have the same audience everywhere.
    let mut clients = vec![audience(auth)];
    clients.extend(Some(AWS_AUDIENCE).filter(|other| *other != audience(auth)));
    vec![
        Document::json(
            "OpenID Connect provider",
            format!(
                "IAM of account {}, once for all runners there: aws iam \
                 create-open-id-connect-provider --cli-input-json file://provider.json",
                role.account
            ),
            &json!({ "Url": trusted.issuer, "ClientIDList": clients }),
        ),
        Document::json(
            "Trust policy of the role",
            format!(
                "role {0}: aws iam update-assume-role-policy --role-name {0} --policy-document \
                 file://trust.json",
                role.name
            ),
            &policy(&[statement]),
        ),
    ]
}

fn permissions(auth: &AwsAuth, statements: &[Value]) -> Document {
    Document::json(
        "Permissions of the role",
        format!(
            "role {0}: aws iam put-role-policy --role-name {0} --policy-name canyon \
             --policy-document file://permissions.json",
            Role::of(auth).name
        ),
        &policy(statements),
    )
}

fn policy(statements: &[Value]) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

pub(crate) fn ecs_documents(trusted: &TrustSubject, runner: &ServerlessEcs) -> Vec<Document> {
    let mut documents = trust_documents(trusted, &runner.auth);
    documents.push(permissions(&runner.auth, &ecs_statements(trusted, &runner.auth, &runner.job)));
    documents
}

/// The launcher's permissions for tasks. AWS's Service Authorization Reference lists which actions can be
/// limited to which resources: `DescribeTaskDefinition` and `RegisterTaskDefinition` cannot be limited to
/// Canyon's names, so the roles in `iam:PassRole` limit what a definition may do.
fn ecs_statements(trusted: &TrustSubject, auth: &AwsAuth, job: &EcsJob) -> Vec<Value> {
    let account = Role::of(auth).account;
    let place = format!("arn:{}:ecs:{}:{account}", partition_of(&job.region), job.region);
    // A definition has a cluster's name or ARN.
    let name = job.cluster.rsplit('/').next().unwrap_or(&job.cluster);
    let cluster = format!("{place}:cluster/{name}");
    let tasks = format!("{place}:task/{name}/*");
    let definitions = format!("{place}:task-definition/canyon-{}-*:*", trusted.runner);
    let in_cluster = json!({ "ArnEquals": { "ecs:cluster": cluster } });
    let mut roles = vec![&job.execution_role_arn];
    roles.extend(job.task_role_arn.as_ref().filter(|role| **role != job.execution_role_arn));
    let mut statements = vec![
        json!({
            "Sid": "Definitions", "Effect": "Allow", "Resource": "*",
            "Action": ["ecs:RegisterTaskDefinition", "ecs:DescribeTaskDefinition"],
        }),
        json!({
            "Sid": "Start", "Effect": "Allow", "Resource": definitions,
            "Action": "ecs:RunTask", "Condition": in_cluster,
        }),
        json!({
            "Sid": "LookAndStop", "Effect": "Allow", "Resource": tasks,
            "Action": ["ecs:DescribeTasks", "ecs:StopTask"], "Condition": in_cluster,
        }),
        json!({
            "Sid": "Find", "Effect": "Allow", "Resource": "*",
            "Action": "ecs:ListTasks", "Condition": in_cluster,
        }),
        // For `canyon doctor`.
        json!({
            "Sid": "LookAtCluster", "Effect": "Allow", "Resource": cluster,
            "Action": "ecs:DescribeClusters",
        }),
        json!({
            "Sid": "TagWhatIsMade", "Effect": "Allow", "Resource": [definitions, tasks],
            "Action": "ecs:TagResource",
            "Condition": {
                "StringEquals": { "ecs:CreateAction": ["RegisterTaskDefinition", "RunTask"] }
            },
        }),
        json!({
            "Sid": "RolesOfTasks", "Effect": "Allow", "Resource": roles,
            "Action": "iam:PassRole",
            "Condition": { "StringEquals": { "iam:PassedToService": "ecs-tasks.amazonaws.com" } },
        }),
    ];
    if let Some(group) = &job.log_group {
        let logs = format!("arn:{}:logs:{}:{account}", partition_of(&job.region), job.region);
        statements.push(json!({
            "Sid": "Log", "Effect": "Allow",
            "Resource": format!("{logs}:log-group:{group}:log-stream:canyon/*"),
            "Action": "logs:GetLogEvents",
        }));
    }
    statements
}

pub(crate) fn eks_documents(
    trusted: &TrustSubject,
    runner: &Eks,
    storage: &StateStorage,
) -> Vec<Document> {
    let (auth, cluster) = (&runner.cluster.auth, &runner.cluster);
    let role = Role::of(auth);
    let arn = format!(
        "arn:{}:eks:{}:{}:cluster/{}",
        partition_of(&cluster.region),
        cluster.region,
        role.account,
        cluster.name
    );
    let describe = json!({
        "Sid": "FindCluster", "Effect": "Allow", "Resource": arn, "Action": "eks:DescribeCluster",
    });
    let mut documents = trust_documents(trusted, auth);
    documents.push(permissions(auth, &[describe]));
    documents.push(Document::json(
        "Access entry of the cluster",
        "aws eks create-access-entry --cli-input-json file://access-entry.json; the cluster's \
         authentication mode must be API or API_AND_CONFIG_MAP",
        &json!({
            "clusterName": cluster.name,
            "principalArn": auth.role_arn,
            "kubernetesGroups": [EKS_GROUP],
            "type": "STANDARD",
        }),
    ));
    documents.extend(cluster_documents(&runner.job, storage, &User::Group(EKS_GROUP.to_owned())));
    documents
}
