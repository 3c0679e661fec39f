//! A fault in a definition or in a cluster ends a deployment within seconds, with a message that names
//! it.

use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline};
use crate::harness::site::{ENV, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// The limit for a fault that the first call meets.
const AT_ONCE: Duration = Duration::from_secs(15);
/// The limit for a fault that may be temporary: it is retried for 30 seconds.
const PATIENTLY: Duration = Duration::from_mins(1);

/// Deploys, which fails with this class within `limit`, with a message that contains all of `words`.
async fn refuses(site: &Site, class: FailureClass, limit: Duration, words: &[&str]) {
    let begun = Instant::now();
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    let took = begun.elapsed();
    assert_eq!(ended.status, "failed", "{ended:#?}");
    assert_eq!(ended.attempts.len(), 1, "a fault is not retried: {ended:#?}");
    let (found, message) = failure(&ended);
    assert_eq!(found, class, "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    assert!(took < limit, "it took {took:?}: {message}");
    assert!(!site.objects("pods").iter().any(crate::harness::pods::runs), "nothing is left to run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_audience_is_refused_by_the_api_server() {
    let wrong = |runner: &mut Value| {
        runner["runner_configuration"]["cluster"]["auth"] =
            json!({ "oidc": { "audience": "another-cluster" } });
    };
    let site = Site::with(Kind::Oidc, wrong).await;
    refuses(
        &site,
        FailureClass::Config,
        AT_ONCE,
        &["rejects Canyon's credentials", "audience `another-cluster`"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-subj", "/CN=another", "-days", "2", "-keyout", "key", "-out", "ca"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(made.status.success());
    let other = STANDARD.encode(std::fs::read(folder.path().join("ca")).unwrap());
    let wrong = |runner: &mut Value| {
        runner["runner_configuration"]["cluster"]["cluster_data"]["certificate_authority_data"] =
            json!(other);
    };
    let site = Site::with(Kind::Oidc, wrong).await;
    let words = ["not signed by the certificate authority", bed().get("SERVER")];
    refuses(&site, FailureClass::Config, AT_ONCE, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_the_cloud_does_not_have_is_named() {
    let wrong = |runner: &mut Value| {
        runner["runner_configuration"]["cluster"]["name"] = json!("gone");
    };
    // The stand-in for the cloud has `my-cluster`, as before this change.
    let site = Site::with(Kind::Gke, wrong).await;
    refuses(&site, FailureClass::Config, AT_ONCE, &["gone"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_named() {
    let site = Site::new(Kind::Oidc).await;
    bed().kubectl(&["-n", &site.namespace.0, "delete", "rolebinding", "canyon-launcher"], "");
    refuses(
        &site,
        FailureClass::Config,
        AT_ONCE,
        &["cannot create resource", "jobs", &site.namespace.0],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_missing_is_named() {
    let site = Site::untrusted(Kind::Certificate, |_| {}).await;
    let name = &site.namespace.0;
    // A user without the right to read namespaces gets that as the error, not that the namespace is missing.
    let user = format!("--user={}", site.place.user());
    bed().kubectl(&["create", "clusterrolebinding", name, "--clusterrole=admin", &user], "");
    let begun = Instant::now();
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    bed().kubectl(&["delete", "clusterrolebinding", name], "");
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Config, "{message}");
    assert!(message.contains(name) && message.contains("create the namespace"), "{message}");
    assert!(begun.elapsed() < AT_ONCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_that_is_missing_is_named() {
    let site = Site::new(Kind::Oidc).await;
    bed().kubectl(&["-n", &site.namespace.0, "delete", "serviceaccount", "canyon-runner"], "");
    let words = ["serviceaccount \"canyon-runner\" not found"];
    refuses(&site, FailureClass::Config, PATIENTLY, &words).await;
}

/// A runner with this image.
async fn with_image(image: &str) -> Site {
    let template =
        json!({ "spec": { "containers": [{ "name": "canyon-runner", "image": image }] } });
    Site::with(Kind::Oidc, |runner| {
        runner["runner_configuration"]["job"]["pod_template"] = template;
    })
    .await
}

/// An image that cannot be pulled: the wait and then the end report it, both in the registry's words.
async fn cannot_be_pulled(image: &str, words: &[&str]) {
    let site = with_image(image).await;
    let begun = Instant::now();
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let waiting = site
        .until(&id, "a reason to wait", |deployment| {
            let reason = deployment.waiting.as_ref().map(|waiting| waiting.reason.as_str());
            reason.is_some_and(|reason| reason.contains("image"))
        })
        .await;
    let reason = waiting.waiting.unwrap().reason;
    assert!(reason.contains(image), "{reason}");
    let ended = site.end(&id).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::ImagePull, "{message}");
    for word in [image].iter().chain(words) {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    assert!(begun.elapsed() < PATIENTLY, "it took {:?}", begun.elapsed());
    site.no_pod_runs(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_registry_does_not_have_is_named() {
    let image = format!("{}/canyon-runner:{}", bed().get("REGISTRY"), Bed::unique("absent"));
    cannot_be_pulled(&image, &["not found"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_is_named() {
    let registry = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let image = format!("{}/canyon-runner:private", registry.local_addr().unwrap());
    let refusing = tokio::spawn(async move {
        loop {
            let (mut connection, _) = registry.accept().await.unwrap();
            tokio::spawn(async move {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let _ = connection.read(&mut [0; 4096]).await;
                let refusal =
                    "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = connection.write_all(refusal.as_bytes()).await;
            });
        }
    });
    cannot_be_pulled(&image, &["403"]).await;
    refusing.abort();
}
