//! Secrets that the cluster must not store.

use crate::canaries;
use crate::cancel::accept_slow;
use crate::harness::deployments::request;
use crate::harness::kinds::Kind;
use crate::harness::pods::has_begun;
use crate::harness::site::{ENV, Site};
use canyon_api::attempt::ClaimBody;

#[tokio::test(flavor = "multi_thread")]
async fn no_object_in_the_cluster_contains_a_token_or_a_payload() {
    let site = Site::new(Kind::Gke).await;
    let module = canaries::module(&site).await;
    let id = site.accept(&request(ENV, Some(module))).await;
    let pod = site.pod(&id, "that runs", has_begun).await;
    let mut seen = vec![pod];
    seen.extend(site.objects("jobs,pods,configmaps,events"));
    assert!(seen.len() > 3, "a Job, its pod and events were seen: {seen:#?}");
    assert_eq!(site.end(&id).await.status, "succeeded");
    seen.extend(site.objects("jobs,pods,configmaps,events"));
    let given = site.place.clouds().secrets().await;
    let seen: Vec<_> = seen.iter().map(ToString::to_string).collect();
    canaries::assert_none_in(&seen, &site, &given);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claim_code_in_a_pod_is_useless_once_its_runner_has_claimed() {
    let site = Site::new(Kind::Oidc).await;
    let id = accept_slow(&site).await;
    let pod = site.pod(&id, "that runs", has_begun).await;
    let code =
        pod["spec"]["containers"][0]["env"].as_array().unwrap().iter().find_map(|variable| {
            let is_code = variable["name"].as_str().unwrap().contains("CLAIM");
            is_code.then(|| variable["value"].as_str().unwrap().to_owned())
        });
    let code = code.expect("a job is started by its claim code");
    let thief = site.server.client_of(&code);
    let claimant = "another-pod-of-the-cluster".to_owned();
    let claim = ClaimBody { claimant, host: None, user: None, job_format: None };
    let refused = thief.claim(&id, 1, &claim).await;
    assert_eq!(refused.unwrap_err().status(), Some(409));
    site.client.cancel(&id).await.unwrap();
    site.end(&id).await;
}
