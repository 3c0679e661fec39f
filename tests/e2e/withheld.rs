//! Secrets: withheld, or encrypted to a key that Canyon does not have.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::{inline, with};
use crate::harness::site::{ENV, Site};
use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::deployment::DeploymentCreateBody;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SECRET: &str = "correct-horse-battery-staple";

const MODULE: &str = r#"
variable "password" {
  type      = string
  sensitive = true
}

resource "terraform_data" "a" {
  input = "public"
}

output "password" {
  value     = var.password
  sensitive = true
}

output "name" { value = terraform_data.a.output }
"#;

/// Waits until the jobs' folders are removed: they contain inputs and plans.
async fn jobs_are_forgotten(site: &Site) {
    let jobs = site.server.data().join("jobs");
    let left = || -> Vec<_> {
        std::fs::read_dir(&jobs).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "a job's folder goes with it: {:?}", left());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sensitive_outputs_are_withheld_or_encrypted() {
    let site = Site::new().await;
    let identity = Identity::generate();
    let body = |recipient: Option<String>| DeploymentCreateBody {
        encrypted_outputs_recipient: recipient,
        ..request(ENV, Some(with(inline(MODULE), "password", SECRET)))
    };

    let ended = site.run(&body(None)).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    let outputs = site.client.outputs(&id).await.unwrap();
    assert!(outputs["password"].sensitive);
    assert_eq!(outputs["password"].value, None);
    assert_eq!(outputs["name"].value, Some(json!("public").into()));
    assert_eq!(site.client.encrypted_outputs(&id).await.unwrap_err().status(), Some(404));
    assert!(!site.log(&id).await.contains(SECRET));

    let ended = site.run(&body(Some(identity.to_public().to_string()))).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    assert_eq!(site.client.outputs(&id).await.unwrap()["password"].value, None);
    let encrypted = site.client.encrypted_outputs(&id).await.unwrap().raw;
    let clear = age::decrypt(&identity, &STANDARD.decode(encrypted).unwrap()).unwrap();
    let clear: Value = serde_json::from_slice(&clear).unwrap();
    assert_eq!(clear, json!({ "password": SECRET, "name": "public" }));
    jobs_are_forgotten(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_log_is_read_with_its_key_alone() {
    let site = Site::new().await;
    let identity = Identity::generate();
    let module = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"echo for-your-eyes-only\"\n  }\n}\n";
    let body = DeploymentCreateBody {
        encrypted_logs_recipient: Some(identity.to_public().to_string()),
        ..request(ENV, Some(inline(module)))
    };
    let ended = site.run(&body).await;
    assert_succeeded(&ended);
    let url = format!(
        "{}/orgs/{}/deployments/{}/actions/get-logs",
        site.server.url(),
        site.server.org(),
        ended.id
    );
    let get = async |key: Option<&str>| {
        let mut request = reqwest::Client::new().get(&url).bearer_auth(site.server.token());
        if let Some(key) = key {
            request = request.header("DecryptKey", key);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
    };
    let right = identity.to_string();
    let (status, log) = get(Some(right.expose_secret())).await;
    assert_eq!(status, 200);
    assert!(log.contains("for-your-eyes-only"), "{log}");
    let (_, stored) = get(None).await;
    assert!(!stored.contains("for-your-eyes-only") && stored.contains("age-encryption.org"));
    let wrong = Identity::generate().to_string();
    let (status, answer) = get(Some(wrong.expose_secret())).await;
    assert_eq!(status, 400, "{answer}");
    let (status, answer) = get(Some("no key at all")).await;
    assert_eq!(status, 400, "{answer}");
}
