//! What the cluster may not learn.

use crate::cancel::accept_slow;
use crate::harness::deployments::request;
use crate::harness::kinds::Kind;
use crate::harness::module::{inline, with};
use crate::harness::pods::has_begun;
use crate::harness::site::{ENV, Site};
use canyon_api::attempt::ClaimBody;

/// A module with a canary in its text, its input and its output, which runs for a while.
const CANARIES: &str = r#"
variable "secret" {
  type      = string
  sensitive = true
}

resource "terraform_data" "canary" {
  input = "canary-in-the-module"
  provisioner "local-exec" {
    command = "sleep 4"
  }
}

output "secret" {
  value     = "out-${var.secret}"
  sensitive = true
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_object_in_the_cluster_shows_a_token_or_a_payload() {
    let site = Site::new(Kind::Gke).await;
    let module = with(inline(CANARIES), "secret", "canary-in-the-input");
    let id = site.accept(&request(ENV, Some(module))).await;
    let pod = site.pod(&id, "that runs", has_begun).await;
    let mut seen = vec![pod];
    seen.extend(site.objects("jobs,pods,configmaps,events"));
    assert!(seen.len() > 3, "a Job, its pod and events were seen: {seen:#?}");
    assert_eq!(site.end(&id).await.status, "succeeded");
    seen.extend(site.objects("jobs,pods,configmaps,events"));
    let given = site.place.clouds().secrets().await;
    assert!(!given.is_empty(), "the cloud gave out tokens");
    // `cya_` and `cyj_` begin the tokens of people and of jobs; `eyJ` any token in the form of a JWT.
    let mut secrets = vec!["canary-in-", site.server.token(), "cya_", "cyj_", "eyJ"];
    secrets.extend(given.iter().map(String::as_str));
    for object in &seen {
        let text = object.to_string();
        let found = secrets.iter().find(|secret| text.contains(**secret));
        assert_eq!(found, None, "in a {}: {object:#}", object["kind"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claim_code_in_a_pod_is_worth_nothing_once_its_runner_has_claimed() {
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
    let claim = ClaimBody { claimant: "somebody-else-in-the-cluster".to_owned(), host: None };
    let refused = thief.claim(&id, 1, &claim).await;
    assert_eq!(refused.unwrap_err().status(), Some(409));
    site.client.cancel(&id).await.unwrap();
    site.end(&id).await;
}
