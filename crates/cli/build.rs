//! Tells the crate the commit that it is built from, for `canyon version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=CANYON_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("CANYON_COMMIT").ok().filter(|commit| !commit.is_empty());
    // A source archive may lie in the checkout of another project: only a repository that has this file counts.
    let is_ours = || git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let found = || is_ours().then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten();
    if let Some(commit) = given.or_else(found) {
        println!("cargo::rustc-env=CANYON_BUILD_COMMIT={commit}");
    }
    // git appends to this file whenever HEAD changes. Cargo would build again each time if it did not exist.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists())
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git prints; `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
