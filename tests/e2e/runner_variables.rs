//! Variables of a runner: its jobs get secrets that its definition does not have.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::searched::{files_without, until_no_job};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use serde_json::json;
use std::fs;
use std::path::Path;

const TOKEN: &str = "t0ken-of-the-runner/1";
/// Of the token and of its base64, what no other text has.
const PARTS: [&str; 2] = ["t0ken-of-the-runner", "dDBrZW4tb2YtdGhlLXJ1bm5lci8x"];

/// Repeats its environment in the log, and writes a digest of the token to a file.
fn telling(digest: &Path) -> String {
    format!(
        r#"
resource "terraform_data" "tells" {{
  triggers_replace = timestamp()
  provisioner "local-exec" {{
    command = <<-EOT
      printf %s "$API_TOKEN" | sha256sum | cut -c1-64 > '{}'
      echo "tells $API_TOKEN $(printf %s "$API_TOKEN" | base64) to $REGION of $OWNER in $STAGE"
    EOT
  }}
}}
"#,
        digest.display()
    )
}

fn set(site: &Site, scope: &[&str], more: &[&str], value: &str) {
    let command = [&["set", "variable", "--kind", "environment"], scope, more].concat();
    site.server.canyon_with(&command, value, &[]).done();
}

/// Deploys, and returns the log and the digest of the token that the module had.
async fn told(site: &Site) -> (String, String) {
    let digest = site.server.path("digest");
    let ended = site.run(&request(ENV, Some(inline(telling(&digest))))).await;
    assert_succeeded(&ended);
    let log = site.log(&ended.id.to_string()).await;
    (log, fs::read_to_string(digest).unwrap().trim().to_owned())
}

fn digest_of(text: &str) -> String {
    hex::encode(<sha2::Sha256 as sha2::Digest>::digest(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_a_runner_reaches_its_modules_and_is_found_nowhere_else() {
    let of_definition = json!({ "environment":
        { "REGION": "of-definition", "OWNER": "of-definition", "STAGE": "of-definition" } });
    let site = Site::on(Server::start().await, &of_definition).await;
    let of_runner = ["--runner", RUNNER];
    set(&site, &of_runner, &["--secret", "API_TOKEN"], TOKEN);
    set(&site, &of_runner, &["REGION=of-runner", "OWNER=of-runner"], "");
    let of_environment = ["--project", PROJECT, "--env", ENV];
    set(&site, &of_environment, &["OWNER=of-environment"], "");
    let explained = site.server.canyon(&["explain", "variables", PROJECT, ENV]);
    insta::assert_snapshot!(explained.done(), @r"
    KIND         NAME       VALUE           FROM                  OVERRIDES
    environment  API_TOKEN  ******          runner:laptop         -
    environment  OWNER      of-environment  environment:shop/dev  runner:laptop
    environment  REGION     of-runner       runner:laptop         -
    ");

    let (log, digest) = told(&site).await;
    assert_eq!(digest, digest_of(TOKEN));
    assert!(log.contains(" to of-runner of of-environment in of-definition"), "{log}");
    assert!(log.contains("tells ***"), "{log}");
    until_no_job(&site.server.data());
    let read = files_without(&PARTS, &site.server.data());
    assert!(read > 3, "{read} files were searched");

    // A viewer sees that there is a secret, and the values that are none.
    let made = site.client.create(&["tokens"], &json!({ "role": "viewer" })).await.unwrap();
    let viewer = [("CANYON_TOKEN", made["secret"].as_str().unwrap())];
    let mut shown = vec![log, site.server.log()];
    for arguments in [
        &["list", "variables", "--runner", RUNNER][..],
        &["list", "variables", "--out", "json"],
        &["get", "variable", "--runner", RUNNER, "--kind", "environment", "API_TOKEN"],
        &["explain", "variables", PROJECT, ENV, "--out", "json"],
        &["get", "runner", RUNNER, "--out", "json"],
        &["list", "audit", "--out", "json"],
    ] {
        let result = site.server.canyon_with(arguments, "", &viewer);
        let is_audit = arguments[1] == "audit";
        shown.push(if is_audit { format!("{result:?}") } else { result.done().to_owned() });
    }
    for text in &shown {
        assert_eq!(PARTS.iter().find(|part| text.contains(**part)), None, "{text}");
    }
    assert!(shown[2].contains("API_TOKEN  ******") && shown[2].contains("of-runner"), "{shown:?}");
    let change = ["set", "variable", "--runner", RUNNER, "--kind", "environment", "REGION=x"];
    let refused = site.server.canyon_with(&change, "", &viewer);
    assert!(refused.code != 0 && refused.stderr.contains("admin"), "{refused:?}");

    // A nearer scope has another secret, and after its removal the runner's counts again.
    let (other, api_token) = ("another-secret-of-dev", ["--kind", "environment", "API_TOKEN"]);
    set(&site, &of_environment, &["--secret", "API_TOKEN"], other);
    assert_eq!(told(&site).await.1, digest_of(other));
    let uses = ["list", "variable-uses", "--runner", RUNNER];
    let uses = site.server.canyon(&[&uses[..], &api_token].concat());
    assert!(uses.done().contains("environment:shop/dev"), "{uses:?}");
    let delete = [&["delete", "variable"], &of_environment[..], &api_token].concat();
    site.server.canyon(&delete).done();
    assert_eq!(told(&site).await.1, digest_of(TOKEN));
}
