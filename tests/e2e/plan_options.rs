//! Plans of a part of a module, replacements, and parallelism, on the command line.

use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use serde_json::Value;
use std::fs;

const MODULE: &str = r#"
resource "terraform_data" "a" { input = "a" }
resource "terraform_data" "b" { input = "b" }
output "a" { value = terraform_data.a.id }
"#;

/// Runs `canyon COMMAND shop dev ...`, and returns the deployment that it prints.
fn run(server: &Server, command: &str, arguments: &[&str]) -> Value {
    let first = [command, PROJECT, ENV, "--yes", "--out", "json"];
    let done = server.canyon(&[&first[..], arguments].concat());
    let printed: Value = serde_json::from_str(done.done()).unwrap();
    printed["deployment"].clone()
}

fn counts(deployment: &Value) -> [u64; 3] {
    ["num_tf_resources_added", "num_tf_resources_removed", "num_tf_resources"]
        .map(|name| deployment["metrics"][name].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_module_is_deployed_replaced_and_destroyed() {
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    fs::write(server.path("module/main.tf"), MODULE).unwrap();
    let deploy = |arguments: &[&str]| {
        run(server, "deploy", &[&["--module", "./module"], arguments].concat())
    };
    let first = deploy(&["--target", "terraform_data.a"]);
    assert_eq!((counts(&first), &first["partial"]), ([1, 0, 1], &true.into()), "{first}");
    let whole = deploy(&["--parallelism", "1"]);
    assert_eq!((counts(&whole), whole.get("partial")), ([1, 0, 2], None), "{whole}");
    let replaced = deploy(&["--replace", "terraform_data.a"]);
    assert_eq!(counts(&replaced), [1, 1, 2], "{replaced}");

    let destroyed = run(server, "destroy", &["--target", "terraform_data.b"]);
    assert_eq!(counts(&destroyed), [0, 1, 1], "{destroyed}");
    let rest = run(server, "destroy", &[]);
    assert_eq!(counts(&rest), [0, 1, 0], "the module is still known: {rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_passes_over_a_deployment_of_a_part() {
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    fs::write(server.path("module/main.tf"), MODULE).unwrap();
    let module = ["--module", "./module"];
    let whole = run(server, "deploy", &module);
    // The module of a deployment of a part need not have the rest.
    let part = MODULE.replace(r#"resource "terraform_data" "b" { input = "b" }"#, "");
    fs::write(server.path("module/main.tf"), part.replace("\"a\" }", "\"changed\" }")).unwrap();
    let partial = run(server, "deploy", &[&module[..], &["--target", "terraform_data.a"]].concat());
    assert_eq!(counts(&partial), [0, 0, 2], "{partial}");
    let id = partial["id"].as_str().unwrap();
    let shown = server.canyon(&["get", "deployment", id, "--out", "json"]);
    let shown: Value = serde_json::from_str(shown.done()).unwrap();
    assert_eq!(shown["module"]["targets"], serde_json::json!(["terraform_data.a"]), "{shown}");
    fs::write(server.path("module/main.tf"), MODULE.replace("input = \"b\"", "input = 3")).unwrap();
    run(server, "deploy", &module);

    let named = server.canyon(&["rollback", PROJECT, ENV, id, "--yes"]);
    assert_eq!(named.code, 4);
    assert!(named.stderr.contains("applied only its targets"), "{}", named.stderr);
    let back = run(server, "rollback", &[]);
    assert_eq!(back["rollback_to_deployment_id"], whole["id"], "{back}");
    assert_eq!(counts(&back), [0, 0, 2], "it destroys nothing: {back}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_attributes_and_no_secret() {
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    let module = r#"
terraform {
  backend "s3" { bucket = "elsewhere" }
}
variable "token" { default = "" }
resource "terraform_data" "a" { input = { size = "large", token = var.token, hidden = sensitive("s3cr3t") } }
"#;
    fs::write(server.path("module/main.tf"), module).unwrap();
    let token = "kept-value-of-a-token";
    let variable = format!("token={token}");
    server.canyon(&["set", "variable", "--project", PROJECT, "--secret", &variable]).done();
    let planned = server.canyon(&["deploy", PROJECT, ENV, "--plan-only", "--module", "./module"]);
    planned.done();
    let said = &planned.stderr;
    assert!(said.contains("+ size   = \"large\""), "{said}");
    assert!(said.contains("+ hidden = (sensitive value)"), "{said}");
    assert!(said.contains("warning: `backend \"s3\"` in main.tf is not used"), "{said}");
    let log = server.canyon(&["logs", PROJECT, ENV]);
    for (whose, text) in [("the progress", said), ("the log", &log.done().to_owned())] {
        assert!(text.contains("+ token  = \"*****"), "{whose}: {text}");
        assert!(!text.contains(token) && !text.contains("s3cr3t"), "{whose}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_options_of_a_plan_are_refused() {
    let site = Site::new().await;
    let said = [
        &["destroy", PROJECT, ENV, "--yes", "--replace", "terraform_data.a"][..],
        &["destroy", PROJECT, ENV, "--yes", "--target=-x", "--target", "a", "--parallelism", "0"],
        &["destroy", PROJECT, ENV, "--target", "terraform_data.a"],
    ]
    .map(|arguments| {
        let result = site.server.canyon(arguments);
        format!("$ canyon {}\n{}\n", arguments.join(" "), result.snapshot())
    });
    insta::assert_snapshot!("wrong_plan_options", said.concat());
}
