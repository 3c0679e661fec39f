//! The strict servers' own tests, in Python.

use crate::harness::python;
use std::time::Duration;

/// Exits without the interpreter's shutdown: during it, the servers' threads are still in OpenSSL,
/// which sometimes kills the process with a signal.
const RUN: &str = "
import os, sys, unittest
found = unittest.defaultTestLoader.discover(sys.argv[2], top_level_dir=sys.argv[1])
result = unittest.TextTestRunner().run(found)
sys.stderr.flush()
os._exit(0 if result.wasSuccessful() else 1)
";

#[tokio::test]
async fn the_strict_servers_verify_tokens_like_the_clouds() {
    let mut tests = python();
    let tests_of = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    tests.args(["-c", RUN, tests_of]).arg(format!("{tests_of}/strict/tests"));
    let output = tokio::time::timeout(Duration::from_mins(3), tests.output()).await;
    let output = output.expect("the tests end").unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("Ran 0 tests"), "{text}");
}
