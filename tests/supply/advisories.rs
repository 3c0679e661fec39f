//! `scripts/advisories`, run by its step in `scripts/check`.

use crate::{Answer, Checkout, text};
use std::process::Command;

/// An advisory against every version of a crate.
fn planted(id: &str, package: &str) -> String {
    format!(
        "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{package}\"\ndate = \"2020-01-01\"\n\n\
         [versions]\npatched = [\">= 999.0.0\"]\n```\n\n# Planted by a test\n\nIt is not so.\n"
    )
}

/// A checkout that keeps an advisory against `serde`, and a database with one against `serde_json`.
fn planted_checkout() -> Checkout {
    let checkout = Checkout::new();
    let id = "RUSTSEC-2020-9998";
    checkout.write(&format!("infra/advisories/crates/serde/{id}.md"), &planted(id, "serde"));
    let id = "RUSTSEC-2020-9999";
    checkout.write(&format!("database/crates/serde_json/{id}.md"), &planted(id, "serde_json"));
    let commit = "git init --quiet --initial-branch main && git add . &&
        git -c user.name=test -c user.email=test@localhost commit --quiet --message planted";
    let mut command = Command::new("sh");
    command.args(["-euc", commit]).current_dir(checkout.path("database"));
    assert!(command.status().unwrap().success());
    checkout
}

fn check(checkout: &Checkout, database: &str, choice: &str) -> Answer {
    let folder = checkout.path(database);
    let variables = [("CANYON_ADVISORY_DATABASE", text(&folder)), ("CANYON_ADVISORIES", choice)];
    checkout.script(&["check", "advisories"], &variables)
}

#[test]
fn a_crate_with_a_known_vulnerability_fails_the_check_by_either_source_of_advisories() {
    check(&planted_checkout(), "database", "").refuses_with(&[
        "RUSTSEC-2020-9998",
        "RUSTSEC-2020-9999",
        "serde_json",
        "deny.toml",
    ]);
}

#[test]
fn without_the_database_the_check_fails_or_reports_that_and_passes_accepted_advisories() {
    let checkout = planted_checkout();
    checkout.edit("deny.toml", |rules| {
        let accepted = "[advisories]\nignore = [{ id = \"RUSTSEC-2020-9998\", reason = \"a test planted it\" }]";
        rules.replace("[advisories]", accepted)
    });
    check(&checkout, "missing", "kept").passes_with(&["check: NOT JUDGED: RustSec's database"]);
    check(&checkout, "missing", "")
        .refuses_with(&["RustSec's database was not judged", "CANYON_ADVISORY_DATABASE"]);
}
