//! A cancel ends the pod gracefully.

use crate::harness::deployments::{counts, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline};
use crate::harness::site::{ENV, Site};
use canyon_domain::job::Module;
use serde_json::Value;
use std::time::{Duration, Instant};

/// One resource that is complete at once, then one that takes minutes.
pub(crate) fn slow() -> Module {
    inline(
        r#"
resource "terraform_data" "quick" {}

resource "terraform_data" "slow" {
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {
    command = "echo it has begun; exec sleep 300"
  }
}
"#,
    )
}

/// Accepts [`slow`] and waits until its second resource is being created.
pub(crate) async fn accept_slow(site: &Site) -> String {
    let id = site.accept(&request(ENV, Some(slow()))).await;
    site.until(&id, "apply", |deployment| {
        deployment.attempts.first().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    let begun = |events: &[Value]| {
        events.iter().any(|event| {
            event["type"] == "provision_progress" && event.to_string().contains("it has begun")
        })
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !begun(&site.events(&id).await) {
        assert!(Instant::now() < deadline, "it does not get there\n{}", site.log(&id).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    id
}

async fn a_cancel_ends_the_pod(kind: Kind) {
    let site = Site::new(kind).await;
    let id = accept_slow(&site).await;
    // The quick resource, and the slow one, whose creation began and which is tainted.
    let made = 2;
    let asked = Instant::now();
    assert_eq!(site.client.cancel(&id).await.unwrap().status, "cancelling");
    let ended = site.end(&id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    assert!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
    site.no_pod_runs(&id).await;
    site.assert_no_lock();
    let next = site.deploy(inline(THIRTY)).await;
    assert_eq!(counts(&next), (30, 0, made), "what was made is known: {next:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_pod_where_the_cluster_trusts_canyons_issuer() {
    a_cancel_ends_the_pod(Kind::Oidc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_pod_on_gke() {
    a_cancel_ends_the_pod(Kind::Gke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_pod_on_eks() {
    a_cancel_ends_the_pod(Kind::Eks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_pod_on_aks() {
    a_cancel_ends_the_pod(Kind::Aks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_pod_with_a_service_accounts_token() {
    a_cancel_ends_the_pod(Kind::Token).await;
}
