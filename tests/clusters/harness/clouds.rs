//! The clouds' own parts in front of a cluster: strict servers, which judge Canyon's tokens by what Canyon says is to be
//! configured for a runner.

use super::bed::{Bed, bed};
use super::programs;
use super::server::Variables;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The application's id in its tenant, which Canyon cannot know.
pub(crate) const OBJECT_ID: &str = "33333333-3333-4333-8333-333333333333";

/// The servers as a process, known to the API server as its authenticator.
#[derive(Debug)]
pub(crate) struct Clouds {
    process: Child,
    addresses: BTreeMap<String, String>,
    registration: PathBuf,
}

impl Clouds {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"))
            .args(["-B", "-m", "strict"])
            .env("PYTHONPATH", env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut addresses = BTreeMap::new();
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((name, address)) = line.split_once('=') else { break };
            addresses.insert(name.to_owned(), address.to_owned());
        }
        let authenticator = addresses.get("authenticator").expect("the strict servers start");
        let registration = PathBuf::from(bed().get("AUTHENTICATORS")).join(Bed::unique("clouds"));
        std::fs::write(&registration, authenticator.trim_start_matches("http://")).unwrap();
        Self { process, addresses, registration }
    }

    /// Where the server finds the clouds.
    pub(crate) fn variables(&self) -> Variables {
        [
            ("AWS_ENDPOINT_URL_STS", "aws_sts"),
            ("AWS_ENDPOINT_URL_EKS", "aws_eks"),
            ("CANYON_GCP_STS_URL", "gcp_sts"),
            ("CANYON_GCP_IAM_CREDENTIALS_URL", "gcp_iam_credentials"),
            ("CANYON_GKE_URL", "gke"),
            ("AZURE_AUTHORITY_HOST", "azure_authority"),
            ("CANYON_AZURE_RESOURCE_MANAGER_URL", "azure_resource_manager"),
        ]
        .map(|(variable, name)| (variable.to_owned(), self.addresses[name].clone()))
        .into()
    }

    /// Configures the clouds with `state`, and what they all have to know.
    pub(crate) async fn configure(&self, mut state: Value) {
        let authority = bed().get("CA_FILE");
        state["issuers"] =
            json!([{ "url": bed().get("ISSUER_URL"), "ca_file": bed().get("ISSUER_CA_FILE") }]);
        state["api_server"] = json!({
            "server": bed().get("SERVER"), "ca_file": authority, "ca_key_file": bed().get("CA_KEY_FILE"),
        });
        let address = format!("{}/state", self.addresses["admin"]);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = http.put(address).body(state.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Every secret that they gave out.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        let address = format!("{}/secrets", self.addresses["admin"]);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let text = http.get(address).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Clouds {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.registration);
        // They end, and remove their files, when their input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// What a YAML file says, read by the same Python.
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

/// A project of Google's with this trust, and a cluster.
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

/// An account of Amazon's with this trust, and a cluster.
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

/// A tenant of Microsoft's with this trust, and a cluster.
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
