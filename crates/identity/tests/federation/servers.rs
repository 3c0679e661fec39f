//! The strict servers' own tests, in Python.

use crate::harness::python;
use std::time::Duration;

#[tokio::test]
async fn the_strict_servers_judge_as_the_clouds_do() {
    let mut tests = python();
    let tests_of = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    tests.args(["-m", "unittest", "discover", "-t", tests_of, "-s"]);
    tests.arg(format!("{tests_of}/strict/tests"));
    let output = tokio::time::timeout(Duration::from_mins(3), tests.output()).await;
    let output = output.expect("the tests end").unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("Ran 0 tests"), "{text}");
}
