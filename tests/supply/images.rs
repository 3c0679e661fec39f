//! `scripts/image`: an image contains the Debian packages that its lock names.

use crate::{Answer, Checkout, text};
use std::fs;

/// A checkout in which this replaces the lock of the agent's image, which has two packages.
fn checkout_with(lock: impl Fn(&str) -> String) -> Checkout {
    let checkout = Checkout::new();
    for architecture in ["amd64", "arm64"] {
        checkout.edit(&format!("infra/images/agent/packages.{architecture}.lock"), &lock);
    }
    checkout
}

/// Builds the agent's image without the cache of other checkouts' builds.
fn image(checkout: &Checkout, options: &[&str]) -> Answer {
    let (output, cache) = (checkout.path("image.tar"), checkout.path("cache-of-the-test"));
    // Any program of this machine works: it is not started.
    let command =
        ["image", "--agent", "--program", "/bin/true", "--no-load", "--output", text(&output)];
    checkout.script(&[&command, options].concat(), &[("CANYON_CACHE", text(&cache))])
}

/// A lock with a version of `ca-certificates` that Debian no longer has.
fn with_an_old_version(lock: &str) -> String {
    let (first, _) = lock.split_once("ca-certificates ").unwrap();
    format!("{first}ca-certificates 20200101 all {}\n", "0".repeat(64))
}

#[test]
fn a_debian_package_whose_content_is_not_the_locks_is_refused() {
    let checkout = checkout_with(|lock| {
        let (before, sum) = lock.trim_end().rsplit_once(' ').unwrap();
        format!("{before} {}\n", "0".repeat(sum.len()))
    });
    image(&checkout, &[]).refuses_with(&["ca-certificates", "has the sum", &"0".repeat(64)]);
}

#[test]
fn a_debian_package_that_vanished_is_replaced_only_on_request_and_the_output_says_so() {
    let checkout = checkout_with(with_an_old_version);
    image(&checkout, &[]).refuses_with(&[
        "ca-certificates 20200101 (they have 20",
        "--replace-vanished",
        "scripts/lock debian",
    ]);
    assert!(!checkout.path("image.tar").exists(), "an image was made all the same");

    image(&checkout, &["--replace-vanished"])
        .passes_with(&["ca-certificates 20", "is taken, not 20200101 of"]);
    let bill = fs::read_to_string(checkout.path("image.spdx.json")).unwrap();
    assert!(!bill.contains("20200101") && bill.contains("ca-certificates"), "{bill}");
}

#[test]
fn a_lock_without_a_package_is_refused() {
    let checkout = checkout_with(|lock| lock.lines().next().unwrap().to_owned() + "\n");
    image(&checkout, &[])
        .refuses_with(&["does not name the packages of packages.txt", "scripts/lock debian"]);
}
