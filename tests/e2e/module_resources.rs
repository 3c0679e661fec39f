//! Resources that a module makes by its definition: each has a state of its own, beside that of the environment's module.

use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use serde_json::{Value, json};
use std::fs;

/// The published form, with a template for where it runs.
const DEFINITIONS: &str = r#"
apiVersion: entity.humanitec.io/v1b1
kind: Definition
metadata: { id: tofu-runner }
entity:
  name: Where modules run
  type: config
  driver_type: humanitec/template
  driver_inputs:
    values:
      templates:
        outputs: "skip_permission_checks: true\n"
  criteria: [{ res_id: opentofu-container-runner }]
---
apiVersion: entity.humanitec.io/v1b1
kind: Definition
metadata: { id: s3-module }
entity:
  name: Bucket
  type: s3
  driver_type: humanitec/opentofu-container-runner
  driver_inputs:
    values:
      use_default_backend: true
      variables: { bucket: "${context.app.id}-${context.res.id}" }
      files:
        main.tf: |
          variable "bucket" {}
          variable "size" { default = 1 }
          variable "token" { sensitive = true }
          resource "terraform_data" "bucket" { input = "$\{var.bucket} of $\{file("names/$\{var.size}.txt")}" }
          output "name" { value = terraform_data.bucket.output }
          output "run" { value = "${context.deploy.id}" }
          output "key" {
            value     = "k3y-of-the-bucket"
            sensitive = true
          }
        names/1.txt: small
        names/2.txt: large
    secret_refs:
      variables: { token: { value: "hunter-2-hunter" } }
  criteria: [{}]
---
apiVersion: entity.humanitec.io/v1b1
kind: Definition
metadata: { id: dns }
entity:
  name: Name
  type: dns
  driver_type: humanitec/opentofu-container-runner
  driver_inputs:
    values:
      variables: { of: "${resources['s3#photos'].outputs.name}" }
      files:
        main.tf: |
          variable "of" {}
          variable "key" { sensitive = true }
          output "length" { value = nonsensitive(length(var.key)) }
          resource "terraform_data" "name" { input = var.of }
          output "of" { value = terraform_data.name.output }
    secret_refs:
      variables: { key: { value: "${resources['s3#photos'].outputs.key}" } }
  criteria: [{}]
"#;

fn yaml(server: &Server, arguments: &[&str]) -> Value {
    let done = server.canyon(&[arguments, &["--out", "json"]].concat());
    serde_json::from_str(done.done()).unwrap()
}

fn run(server: &Server, command: &str, arguments: &[&str]) -> Value {
    yaml(server, &[&[command, PROJECT, ENV, "--yes"], arguments].concat())["deployment"].clone()
}

fn deployed(server: &Server, resource: &str) -> Value {
    run(server, "deploy", &["--resource", resource])
}

fn outputs(server: &Server, resource: &str) -> Value {
    yaml(server, &["outputs", PROJECT, ENV, "--resource", resource])
}

/// The names of the resources of the environment.
fn resources(server: &Server) -> Vec<String> {
    let listed = yaml(server, &["list", "resources", PROJECT, ENV]);
    let names = listed.as_array().unwrap().iter().map(|one| &one["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// How many states the runner keeps that have resources.
fn states_in_use(site: &Site) -> usize {
    let has_resources = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let state: Value = serde_json::from_str(&text).unwrap_or_default();
        state["resources"].as_array().is_some_and(|resources| !resources.is_empty())
    };
    let mut folders = vec![site.states()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "tfstate") {
                count += usize::from(has_resources(path));
            }
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_of_a_definition_makes_a_resource_with_a_state_of_its_own() {
    let site = Site::new().await;
    let server = &site.server;
    fs::write(server.path("definitions.yaml"), DEFINITIONS).unwrap();
    server.canyon(&["create", "-f", "definitions.yaml"]).done();
    fs::create_dir(server.path("module")).unwrap();
    let module = r#"resource "terraform_data" "own" {}"#;
    fs::write(server.path("module/main.tf"), module).unwrap();
    run(server, "deploy", &["--module", "./module"]);

    let planned = run(server, "plan", &["--resource", "s3#photos"]);
    let log = server.canyon(&["logs", planned["id"].as_str().unwrap()]);
    assert!(log.done().contains("1 to add"), "{}", log.stdout);
    assert_eq!(resources(server), Vec::<String>::new(), "a plan makes nothing");
    let photos = deployed(server, "s3#photos");
    assert_eq!(
        (&photos["kind"], &photos["resource"]),
        (&json!("tofu"), &json!("s3.default#photos"))
    );
    let first = outputs(server, "s3#photos");
    let (name, by) = (&first["name"]["value"], &first["run"]["value"]);
    assert_eq!((name, by), (&json!("shop-photos of small"), &photos["id"]), "{first}");
    let again = run(server, "deploy", &["--resource", "s3#photos", "--param", "size=2"]);
    let counts = ["added", "changed", "removed"];
    let counts = counts.map(|what| again["metrics"][format!("num_tf_resources_{what}")].as_u64());
    assert_eq!(counts, [Some(0), Some(1), Some(0)], "its own state is found again: {again}");
    assert_eq!(outputs(server, "s3#photos")["name"]["value"], "shop-photos of large");
    let set =
        server.canyon(&["deploy", PROJECT, ENV, "--resource", "s3", "--param", "bucket=mine"]);
    assert!(set.stderr.contains("is set by the definition"), "{}", set.stderr);
    deployed(server, "s3#videos");
    deployed(server, "dns");
    let of_dns = outputs(server, "dns");
    assert_eq!(of_dns["of"]["value"], "shop-photos of large");
    assert_eq!(
        of_dns["length"]["value"], 17,
        "a secret output reaches the secrets of another: {of_dns}"
    );
    assert_eq!(outputs(server, "s3#photos")["key"]["value"], Value::Null, "no reader sees it");
    assert_eq!(resources(server), ["s3.default#photos", "s3.default#videos", "dns.default#main"]);
    assert_eq!(states_in_use(&site), 4, "and that of the environment");
    let log = server.canyon(&["logs", photos["id"].as_str().unwrap()]);
    let log = log.done();
    assert!(!log.contains("hunter-2-hunter") && !log.contains("left no state"), "{log}");

    run(server, "destroy", &["--resource", "s3#videos"]);
    assert_eq!(resources(server), ["s3.default#photos", "dns.default#main"]);
    assert_eq!(states_in_use(&site), 3);
    let deletion = ["delete", "environment", PROJECT, ENV, "--yes", "--wait"];
    server.canyon(&deletion).done();
    assert_eq!(states_in_use(&site), 0, "nothing is abandoned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_whose_module_fails_is_not_forgotten() {
    let site = Site::new().await;
    let server = &site.server;
    let fails = DEFINITIONS.replace(
        "output \"of\"",
        "resource \"terraform_data\" \"fails\" {\n            input = terraform_data.name.id\n            provisioner \"local-exec\" { command = \"exit 3\" }\n          }\n          output \"of\"",
    );
    fs::write(server.path("definitions.yaml"), fails).unwrap();
    server.canyon(&["create", "-f", "definitions.yaml"]).done();
    deployed(server, "s3#photos");
    let failed = server.canyon(&["deploy", PROJECT, ENV, "--resource", "dns", "--yes"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let listed = yaml(server, &["list", "resources", PROJECT, ENV]);
    assert_eq!(listed[1]["status"], "failed", "{listed}");
    assert_eq!(states_in_use(&site), 2, "it has made something");
    let broken = r#"
apiVersion: entity.humanitec.io/v1b1
kind: Definition
metadata: { id: broken }
entity:
  name: Broken
  type: broken
  driver_type: humanitec/opentofu-container-runner
  driver_inputs: { values: { files: { main.tf: "resource {" } } }
  criteria: [{}]
"#;
    fs::write(server.path("broken.yaml"), broken).unwrap();
    server.canyon(&["create", "-f", "broken.yaml"]).done();
    let failed = server.canyon(&["deploy", PROJECT, ENV, "--resource", "broken", "--yes"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert_eq!(resources(server).len(), 2, "it has made nothing");

    let refused = server.canyon(&["delete", "definition", "dns"]);
    assert!(refused.stderr.contains("resource `dns.default#main`"), "{}", refused.stderr);
    server.canyon(&["delete", "definition", "dns", "--force"]).done();
    run(server, "destroy", &["--resource", "dns"]);
    assert_eq!((resources(server).len(), states_in_use(&site)), (1, 1));
}
