//! The clouds' own services in front of a cluster: strict servers that judge Canyon's tokens by the configuration that
//! Canyon prints for a runner.

use super::bed::{Bed, bed};
use super::programs;
use super::server::Variables;
use super::strict::Strict;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// The application's object id in its tenant, which Canyon cannot know.
pub(crate) const OBJECT_ID: &str = "33333333-3333-4333-8333-333333333333";

/// The servers, which the API server uses as its authenticator.
#[derive(Debug)]
pub(crate) struct Clouds {
    strict: Strict,
    registration: PathBuf,
}

impl Clouds {
    pub(crate) fn start() -> Self {
        let strict = Strict::start("strict", None);
        let registration = PathBuf::from(bed().get("AUTHENTICATORS")).join(Bed::unique("clouds"));
        let authenticator = strict.address("authenticator").trim_start_matches("http://");
        std::fs::write(&registration, authenticator).unwrap();
        Self { strict, registration }
    }

    /// The server's settings for the clouds.
    pub(crate) fn variables(&self) -> Variables {
        self.strict.variables(&[
            ("AWS_ENDPOINT_URL_STS", "aws_sts"),
            ("AWS_ENDPOINT_URL_EKS", "aws_eks"),
            ("CANYON_GCP_STS_URL", "gcp_sts"),
            ("CANYON_GCP_IAM_CREDENTIALS_URL", "gcp_iam_credentials"),
            ("CANYON_GKE_URL", "gke"),
            ("AZURE_AUTHORITY_HOST", "azure_authority"),
            ("CANYON_AZURE_RESOURCE_MANAGER_URL", "azure_resource_manager"),
        ])
    }

    /// Configures the clouds with `state`, and with the facts that they all need.
    pub(crate) async fn configure(&self, mut state: Value) {
        state["api_server"] = json!({
            "server": bed().get("SERVER"),
            "ca_file": bed().get("CA_FILE"),
            "ca_key_file": bed().get("CA_KEY_FILE"),
        });
        self.strict.configure(state).await;
    }

    /// Every secret that they have issued.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        self.strict.secrets().await
    }
}

impl Drop for Clouds {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.registration);
    }
}

/// The content of a YAML file, read by the same Python.
pub(crate) fn yaml(path: &str) -> Value {
    let read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let python = programs::given("CANYON_TEST_AWS_PYTHON");
    let output = Command::new(python).args(["-B", "-c", read, path]).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The content of a document that Canyon wants configured.
pub(crate) fn document(trust: &Value, title: &str) -> Value {
    let documents = trust["documents"].as_array().unwrap();
    let found = documents.iter().find(|document| document["title"] == title);
    let found = found.unwrap_or_else(|| panic!("no `{title}` in {trust:#}"));
    serde_json::from_str(found["text"].as_str().unwrap()).unwrap()
}

/// A project of Google Cloud with this trust, and a cluster.
pub(crate) fn google(trust: &Value, cluster: &Value) -> Value {
    let provider = document(trust, "Workload identity provider");
    let project = cluster["project_id"].as_str().unwrap();
    let account = cluster["auth"]["gcp_service_account"].as_str().unwrap();
    json!({ "gcp": {
        "providers": [{
            "name": provider["name"],
            "issuer": provider["oidc"]["issuerUri"],
            "attribute_mapping": provider["attributeMapping"],
        }],
        "service_accounts": {
            account: { "bindings": [document(trust, "Binding of the service account")] },
        },
        "projects": { project: { "bindings": [document(trust, "Binding of the project")] } },
        "clusters": [{
            "project": project, "location": cluster["location"], "name": cluster["name"],
        }],
    } })
}

/// An AWS account with this trust, and a cluster.
pub(crate) fn amazon(trust: &Value, cluster: &Value) -> Value {
    let provider = document(trust, "OpenID Connect provider");
    let entry = document(trust, "Access entry of the cluster");
    let arn: Vec<&str> = cluster["auth"]["role_arn"].as_str().unwrap().split([':', '/']).collect();
    let (account, role) = (arn[4], arn[6]);
    json!({ "aws": {
        "accounts": { account: {
            "oidc_providers": [{ "url": provider["Url"], "client_ids": provider["ClientIDList"] }],
            "roles": { role: {
                "trust_policy": document(trust, "Trust policy of the role"),
                "policies": [document(trust, "Permissions of the role")],
            } },
        } },
        "clusters": [{
            "name": entry["clusterName"], "region": cluster["region"], "account": account,
            "access_entries": [{
                "principal_arn": entry["principalArn"],
                "username": "launcher:{{SessionName}}",
                "groups": entry["kubernetesGroups"],
            }],
        }],
    } })
}

/// A tenant of Microsoft Entra with this trust, and a cluster.
pub(crate) fn microsoft(trust: &Value, cluster: &Value) -> Value {
    let credential = document(trust, "Federated credential");
    let assignment = document(trust, "Role assignment");
    let [tenant, client] =
        ["tenant_id", "client_id"].map(|name| cluster["auth"][name].as_str().unwrap());
    json!({ "azure": {
        "tenants": { tenant: { "applications": { client: {
            "object_id": OBJECT_ID,
            "federated_credentials": [{
                "issuer": credential["issuer"],
                "subject": credential["subject"],
                "audiences": credential["audiences"],
            }],
        } } } },
        "role_assignments": [{
            "principal_id": OBJECT_ID, "role": assignment["role"], "scope": assignment["scope"],
        }],
        "clusters": [{
            "name": cluster["name"], "resource_group": cluster["resource_group"],
            "subscription_id": cluster["subscription_id"], "entra": true,
        }],
    } })
}
