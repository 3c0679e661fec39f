//! Which of our crates may depend on which: dependencies go in one direction.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// The crates of this workspace that each crate may name. Development dependencies count too, or a
/// test would hide one.
const MAY: [(&str, &[&str]); 16] = [
    ("canyon-domain", &[]),
    ("canyon-api", &["canyon-domain"]),
    ("canyon-store", &["canyon-domain"]),
    ("canyon-identity", &["canyon-domain"]),
    // Used by the API for the compiler, and by the runner for the evaluation.
    ("canyon-policy", &["canyon-domain"]),
    // The wiring of the functions. `canyon-functions` owns what it wires.
    ("canyon-aws", &["canyon-domain", "canyon-identity", "canyon-store"]),
    // The agent uses the dispatchers from a cluster that cannot reach the table: never the store.
    ("canyon-dispatch", &["canyon-domain", "canyon-identity"]),
    // An API function contains no client of any platform: never the dispatchers.
    (
        "canyon-functions",
        &[
            "canyon-api",
            "canyon-aws",
            "canyon-domain",
            "canyon-identity",
            "canyon-policy",
            "canyon-store",
        ],
    ),
    (
        "canyon-launcher",
        &["canyon-aws", "canyon-dispatch", "canyon-domain", "canyon-identity", "canyon-store"],
    ),
    // The runner has no credentials for the table: never the store.
    ("canyon-runner", &["canyon-api", "canyon-domain", "canyon-policy"]),
    // The agent runs where the table cannot be reached: never the store.
    ("canyon-agent", &["canyon-api", "canyon-dispatch", "canyon-domain", "canyon-identity"]),
    (
        "canyon-local",
        &[
            "canyon-dispatch",
            "canyon-domain",
            "canyon-functions",
            "canyon-identity",
            "canyon-launcher",
            "canyon-store",
        ],
    ),
    (
        "canyon-cli",
        &["canyon-agent", "canyon-api", "canyon-domain", "canyon-identity", "canyon-local"],
    ),
    // It starts the functions as programs, and knows nothing of their code.
    ("canyon-cloud", &[]),
    ("canyon-tests", &["canyon-api", "canyon-cloud", "canyon-domain"]),
    // It measures the table directly.
    (
        "canyon-bench",
        &[
            "canyon-api",
            "canyon-cloud",
            "canyon-dispatch",
            "canyon-domain",
            "canyon-functions",
            "canyon-identity",
            "canyon-launcher",
            "canyon-store",
        ],
    ),
];

#[test]
fn dependencies_between_crates_go_one_way() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed = BTreeMap::from(MAY);
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(may) = allowed.get(name) else {
            wrong.push(format!("`{name}` is not in the table above"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            if other.starts_with("canyon-") && !may.contains(&other) {
                wrong.push(format!("`{name}` must not use `{other}`"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
