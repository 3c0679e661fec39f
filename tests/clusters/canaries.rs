//! Canary secrets, and a check that texts do not contain them.

use crate::harness::module::{inline, with};
use crate::harness::site::{RUNNER, Site};
use canyon_domain::job::Module;
use serde_json::json;

/// A module with a canary in its text, its input and its output, and with one that is kept for the runner as a secret. It runs
/// for a while.
pub(crate) async fn module(site: &Site) -> Module {
    let kept =
        json!({ "environment": { "KEPT": { "value": "canary-in-the-runner", "secret": true } } });
    site.client.update(&["runners", RUNNER, "variables"], &kept).await.unwrap();
    let text = r#"
variable "secret" {
  type      = string
  sensitive = true
}

resource "terraform_data" "canary" {
  input = "canary-in-the-module"
  provisioner "local-exec" {
    command = "test $${#KEPT} = 20 && sleep 4"
  }
}

output "shown" { value = "canary-in-the-output" }

output "secret" {
  value     = "out-${var.secret}"
  sensitive = true
}
"#;
    with(inline(text), "secret", "canary-in-the-input")
}

/// Panics if one of the texts contains a canary, a token, or a credential that a cloud issued.
#[track_caller]
pub(crate) fn assert_none_in(texts: &[String], site: &Site, given: &[String]) {
    assert!(!given.is_empty(), "the cloud gave out credentials");
    // `cya_`, `cyj_` and `cyr_` begin the tokens of people, of jobs and of modules; `eyJ` any token in the form of a JWT.
    let mut secrets = vec!["canary-in-", site.server.token(), "cya_", "cyj_", "cyr_", "eyJ"];
    secrets.extend(given.iter().map(String::as_str));
    for text in texts {
        let found = secrets.iter().find(|secret| text.contains(**secret));
        assert_eq!(found, None, "in {text}");
    }
}
