//! The whole life of an environment in a cluster, with its state in that cluster.

use crate::harness::deployments::{assert_succeeded, counts, destruction, request};
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline, with};
use crate::harness::site::{ENV, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The environment's state, as its backend has stored it.
fn states(site: &Site) -> Vec<Value> {
    let secrets = site.objects("secrets");
    let states = secrets.iter().filter_map(|secret| {
        let packed = STANDARD.decode(secret["data"]["tfstate"].as_str()?).unwrap();
        let text = std::io::read_to_string(flate2::read::GzDecoder::new(&packed[..])).unwrap();
        Some(serde_json::from_str(&text).unwrap())
    });
    states.collect()
}

fn instances(state: &Value) -> usize {
    let resources = state["resources"].as_array().unwrap();
    resources.iter().map(|resource| resource["instances"].as_array().unwrap().len()).sum()
}

async fn comes_and_goes(kind: Kind) {
    let site = Site::new(kind).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    site.pod(&id, "at all", |_| true).await;
    let pods = site.pods_of(&id);
    assert_eq!(pods.len(), 1, "one attempt has one pod: {pods:#?}");
    let first = site.end(&id).await;
    assert_succeeded(&first);
    assert_eq!(first.attempts.len(), 1, "{first:#?}");
    assert_eq!(counts(&first), (30, 0, 0));
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));
    assert_eq!(outputs["count"].value, Some(json!(30).into()));
    let log = site.log(&id).await;
    assert!(log.contains("tofu apply"), "its log came: {log}");

    // Long before its time to live of two days is over.
    site.is_cleared(&id).await;
    let found = states(&site);
    assert_eq!(found.len(), 1, "one environment has one state");
    assert_eq!(instances(&found[0]), 30, "the state is in the cluster");
    site.assert_no_lock();

    let second = site.deploy(with(inline(THIRTY), "greeting", "good day")).await;
    assert_eq!(counts(&second), (0, 30, 0), "the second deployment knows what the first one made");

    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 30));
    assert_eq!(instances(&states(&site)[0]), 0);
    site.assert_no_lock();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_where_the_cluster_trusts_canyons_issuer() {
    comes_and_goes(Kind::Oidc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_with_a_service_accounts_token() {
    comes_and_goes(Kind::Token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_with_a_client_certificate() {
    comes_and_goes(Kind::Certificate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_on_gke() {
    comes_and_goes(Kind::Gke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_on_eks() {
    comes_and_goes(Kind::Eks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_comes_and_goes_on_aks() {
    comes_and_goes(Kind::Aks).await;
}
