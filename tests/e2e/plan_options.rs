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
