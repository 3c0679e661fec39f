//! Which of our crates may use which: arrows go one way.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Ours that each crate may name. Development dependencies count too, or a test would hide an arrow.
const MAY: [(&str, &[&str]); 15] = [
    ("canyon-domain", &[]),
    ("canyon-api", &["canyon-domain"]),
    ("canyon-store", &["canyon-domain"]),
    ("canyon-identity", &["canyon-domain"]),
    // The functions' wiring. What it wires is theirs.
    ("canyon-aws", &["canyon-domain", "canyon-identity", "canyon-store"]),
    // The agent uses it from a cluster that cannot see the table: never the store.
    ("canyon-dispatch", &["canyon-domain", "canyon-identity"]),
    // An API function carries no client of any platform: never the dispatchers.
    (
        "canyon-functions",
        &["canyon-api", "canyon-aws", "canyon-domain", "canyon-identity", "canyon-store"],
    ),
    (
        "canyon-launcher",
        &["canyon-aws", "canyon-dispatch", "canyon-domain", "canyon-identity", "canyon-store"],
    ),
    // It has no credentials for the table: never the store.
    ("canyon-runner", &["canyon-api", "canyon-domain"]),
    // It is where the table cannot be seen: never the store.
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
    // It knows the functions as programs, and nothing of what is in them.
    ("canyon-cloud", &[]),
    ("canyon-tests", &["canyon-api", "canyon-cloud", "canyon-domain"]),
    // It measures the table as it is.
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
fn arrows_between_crates_go_one_way() {
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
