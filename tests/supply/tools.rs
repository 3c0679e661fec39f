//! `scripts/setup`: the client of each kind of registry checks pinned content.

use crate::{Answer, Checkout, other_start, other_sums, text};
use std::path::Path;

/// Installs one part into an empty cache. It must not be linked into use before.
fn setup(checkout: &Checkout, part: &str, links: &[&str]) -> Answer {
    let cache = checkout.path("cache-of-the-test");
    let answer = checkout.script(&["setup", part], &[("CANYON_CACHE", text(&cache))]);
    for link in links {
        assert!(!Path::new(&cache).join("bin").join(link).exists(), "{link} is in use");
    }
    answer
}

#[test]
fn a_python_package_with_another_hash_is_not_installed() {
    let checkout = Checkout::new();
    checkout.edit("infra/tools/schemathesis.txt", |pins| {
        // pip checks the first package first.
        let second = pins.find("\ncertifi").unwrap();
        other_sums(&pins[..second], "sha256:") + &pins[second..]
    });
    setup(&checkout, "schemathesis", &["schemathesis"])
        .refuses_with(&["DO NOT MATCH THE HASHES", "content that infra/tools does not have"]);
}

#[test]
fn a_version_that_was_changed_without_its_pins_is_not_installed() {
    let checkout = Checkout::new();
    checkout.edit("scripts/setup", |script| {
        script.replace("\nschemathesis_version=4", "\nschemathesis_version=5")
    });
    setup(&checkout, "schemathesis", &["schemathesis"])
        .refuses_with(&["does not pin schemathesis==5", "scripts/lock python"]);
}

#[test]
fn an_npm_package_with_another_sum_is_not_installed() {
    let checkout = Checkout::new();
    let pins = "infra/tools/oidc-provider/package-lock.json";
    checkout.edit(pins, |pins| other_sums(pins, "\"integrity\": \"sha512-"));
    setup(&checkout, "oidc-provider", &["oidc-provider"])
        .refuses_with(&["EINTEGRITY", "content that infra/tools does not have"]);
}

#[test]
fn a_go_module_with_another_sum_is_not_built() {
    let checkout = Checkout::new();
    checkout.edit("infra/tools/go.sum", |pins| other_sums(pins, " h1:"));
    setup(&checkout, "fake-gcs-server", &["fake-gcs-server"])
        .refuses_with(&["which infra/tools/go.sum does not have", "scripts/lock go"]);
}

#[test]
fn a_dependency_of_a_go_module_with_another_sum_is_not_built() {
    let checkout = Checkout::new();
    checkout.edit("infra/tools/kubernetes/go.sum", |pins| other_sums(pins, " h1:"));
    setup(&checkout, "cluster-tools", &["kubectl"])
        .refuses_with(&["checksum mismatch", "SECURITY ERROR"]);
}

#[test]
fn a_jar_with_another_sum_is_not_linked_into_use() {
    let checkout = Checkout::new();
    checkout.edit("infra/tools/dynamodb-local/files.sha256", |pins| {
        let line = pins.lines().find(|line| line.contains(".jar")).unwrap();
        pins.replace(line, &other_start(line))
    });
    setup(&checkout, "dynamodb-local", &["dynamodb-local"])
        .refuses_with(&["maven fetched what", "scripts/lock maven"]);
}
