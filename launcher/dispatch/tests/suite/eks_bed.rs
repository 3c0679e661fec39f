//! An account with an EKS cluster: the strict STS and EKS of `tests/strict`, and the real cluster,
//! whose API server uses them as its authenticator.

use crate::bed::{Bed, Facts, issuer_of_canyon};
use crate::ecs_bed::start;
use crate::forwarder::issuer;
use crate::kubernetes_connect::bind;
use aws_credential_types::provider::SharedCredentialsProvider;
use canyon_dispatch::AmbientAws;
use canyon_dispatch::kubernetes::ClusterSource;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::federation::{Endpoints, Federation, RunnerIdentity};
use canyon_identity::system::System;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use uuid::Uuid;

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-central-1";
/// The account's only cluster.
pub(crate) const CLUSTER: &str = "production";
/// A role that may describe clusters and has an access entry.
pub(crate) const AGENT: &str = "agent";
/// A role that may describe clusters and has no access entry.
pub(crate) const WITHOUT_ENTRY: &str = "without-entry";
/// A role that may not describe clusters and has an access entry.
pub(crate) const WITHOUT_DESCRIBE: &str = "without-describe";
/// The session name of an agent.
const SESSION: &str = "east-1";

/// The servers, which the API server uses as its authenticator. Dropping this value ends them.
pub(crate) struct Eks {
    program: Child,
    endpoints: Endpoints,
    registration: PathBuf,
}

impl Eks {
    /// A cluster in which every role with an access entry has the permissions of Canyon's account
    /// in the namespace of `bed`.
    pub(crate) async fn before(bed: &Bed) -> Self {
        let facts = Facts::of_cluster();
        // The strict STS verifies tokens with the issuer's keys.
        issuer(facts).await;
        let user = format!("agent-of-{}", bed.namespace);
        bind(bed, &format!("{user}:{SESSION}")).await;
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("state.json");
        std::fs::write(&config, state(facts, &user).to_string()).unwrap();
        let (program, addresses) = start(&["strict"], &config);
        let endpoints = Endpoints::from_variables(&|name| match name {
            "AWS_ENDPOINT_URL_STS" => addresses.get("aws_sts").cloned(),
            "AWS_ENDPOINT_URL_EKS" => addresses.get("aws_eks").cloned(),
            _ => None,
        });
        let registration =
            Path::new(facts.get("AUTHENTICATORS")).join(format!("eks-{}", bed.namespace));
        let authenticator = addresses["authenticator"].trim_start_matches("http://");
        std::fs::write(&registration, authenticator).unwrap();
        Self { program, endpoints, registration }
    }

    /// The cluster of this name, as an agent with this role finds it: with a session of the role,
    /// which a pod gets for its web identity.
    pub(crate) async fn cluster(&self, name: &str, role: &str) -> ClusterSource {
        let federation =
            Federation::new(issuer_of_canyon(), self.endpoints.clone(), Arc::new(System));
        let auth = AwsAuth { role_arn: arn_of(role), ..AwsAuth::default() };
        let who = RunnerIdentity { org: OrgUuid(Uuid::nil()), runner: RunnerUuid(Uuid::nil()) };
        let session = federation.aws(who, &auth, REGION, SESSION).await.unwrap();
        let provider = SharedCredentialsProvider::new(session);
        let ambient = AmbientAws::new(provider, federation.aws_http(), self.endpoints.clone());
        let (region, cluster) = (REGION.to_owned(), name.to_owned());
        ClusterSource::EksIam { ambient: Arc::new(ambient), region, cluster }
    }
}

impl Drop for Eks {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.registration);
        // The servers end when their input does.
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

fn arn_of(role: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{role}")
}

/// The state of the servers.
fn state(facts: &Facts, user: &str) -> Value {
    let issuer = facts.get("ISSUER_URL");
    let host = issuer.trim_start_matches("https://");
    let policy = |statement: Value| json!({ "Version": "2012-10-17", "Statement": statement });
    let trust = policy(json!({
        "Effect": "Allow",
        "Principal": { "Federated": format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{host}") },
        "Action": "sts:AssumeRoleWithWebIdentity",
    }));
    let describes = policy(json!({
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": format!("arn:aws:eks:{REGION}:{ACCOUNT}:cluster/*"),
    }));
    let role = |policies: &[&Value]| json!({ "trust_policy": trust, "policies": policies });
    let username = format!("{user}:") + "{{SessionName}}";
    let entry = |role: &str| json!({ "principal_arn": arn_of(role), "username": username });
    json!({
        "issuers": [{ "url": issuer, "ca_file": facts.get("ISSUER_CA_FILE") }],
        "api_server": {
            "server": facts.get("SERVER"),
            "ca_file": facts.get("CA_FILE"),
            "ca_key_file": facts.get("CA_KEY_FILE"),
        },
        "aws": {
            "accounts": { ACCOUNT: {
                "oidc_providers": [{ "url": issuer, "client_ids": ["sts.amazonaws.com"] }],
                "roles": {
                    AGENT: role(&[&describes]), WITHOUT_ENTRY: role(&[&describes]), WITHOUT_DESCRIBE: role(&[]),
                },
            } },
            "clusters": [{
                "name": CLUSTER, "region": REGION, "account": ACCOUNT,
                "access_entries": [entry(AGENT), entry(WITHOUT_DESCRIBE)],
            }],
        },
    })
}
