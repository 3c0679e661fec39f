//! The configuration of a cluster: the files to copy equal the doctor's output, the API server accepts them, and with
//! them Canyon can do its work there and nothing else.

use crate::harness::bed::{Bed, Namespace, bed};
use crate::harness::kinds::Kind;
use crate::harness::site::{RUNNER, Site};
use canyon_api::runner_check::{CheckQuery, RunnerCheck};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longer than a check may last.
const LIMIT: Duration = Duration::from_secs(150);

/// A file of infra/kubernetes, with its names replaced.
fn file(name: &str, namespace: &str, user: &str) -> String {
    let path = format!("{}/../infra/kubernetes/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.replace("namespace: canyon-runner", &format!("namespace: {namespace}"))
        .replace("  name: canyon-runner\n  labels", &format!("  name: {namespace}\n  labels"))
        .replace("canyon:org:ORG_UUID:runner:RUNNER_UUID", user)
}

/// `RESOURCE [VERBS]` for each right of a user in a namespace beyond those of every user.
fn rights(namespace: &str, user: &str) -> Vec<String> {
    let user = format!("--as={user}");
    let asked = ["auth", "can-i", "--list", "--no-headers", "-n", namespace, &user];
    let listed = bed().kubectl(&asked, "");
    let mut found: Vec<String> = listed
        .lines()
        .filter(|line| !line.starts_with(' ') && !line.starts_with("selfsubject"))
        .map(|line| {
            let (resource, rest) = line.split_once(' ').unwrap();
            format!("{resource} {}", &rest[rest.rfind('[').unwrap()..])
        })
        .collect();
    found.sort();
    found
}

#[test]
fn the_files_for_a_cluster_allow_jobs_and_no_escalation() {
    let namespace = Namespace(Bed::unique("canyon"));
    let user = "canyon:org:1:runner:2";
    for name in ["namespace.yaml", "rbac.yaml", "state.yaml"] {
        bed().apply(&file(name, &namespace.0, user));
    }
    let launcher = [
        "events [list]",
        "jobs.batch [create get list patch delete]",
        "networkpolicies.networking.k8s.io [create get patch]",
        "pods [list delete]",
        "pods/log [get]",
    ];
    assert_eq!(rights(&namespace.0, user), launcher);
    assert_eq!(rights("default", user), Vec::<String>::new(), "and only there");
    let job = format!("system:serviceaccount:{}:canyon-runner", namespace.0);
    let states = [
        "leases.coordination.k8s.io [create get update delete]",
        "secrets [create get list update delete]",
    ];
    assert_eq!(rights(&namespace.0, &job), states);

    let privileged = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: bad, namespace: {} }}\n\
         spec: {{ hostNetwork: true, containers: [{{ name: c, image: i }}] }}\n",
        namespace.0
    );
    let refused = bed().try_kubectl(&["apply", "--dry-run=server", "-f", "-"], &privileged);
    assert!(refused.unwrap_err().contains("violates PodSecurity"), "the namespace is restricted");
}

pub(crate) async fn check(site: &Site) -> RunnerCheck {
    let begun = Instant::now();
    let mut check = site.client.check_runner(RUNNER).await.unwrap();
    while check.status != "done" {
        assert!(begun.elapsed() < LIMIT, "{check:?}\n{}", site.server.log());
        let query = CheckQuery {
            after_steps: Some(u32::try_from(check.steps.len()).unwrap()),
            wait_seconds: Some(5),
        };
        check = site.client.runner_check(RUNNER, &check.id.to_string(), &query).await.unwrap();
    }
    check
}

pub(crate) fn result<'a>(check: &'a RunnerCheck, step: &str) -> (&'a str, &'a str) {
    let found = check.steps.iter().find(|found| found.step == step);
    let found = found.unwrap_or_else(|| panic!("no step {step}: {check:#?}"));
    (&found.result, &found.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_the_missing_parts_until_its_printed_configuration_is_complete() {
    let site = Site::untrusted(Kind::Oidc, |_| {}).await;
    let before = check(&site).await;
    assert_eq!(result(&before, "assertion").0, "ok", "{before:#?}");
    let (permissions, missing) = result(&before, "permissions");
    assert_eq!(permissions, "failed", "{before:#?}");
    assert!(missing.contains("create jobs") && missing.contains(&site.namespace.0), "{missing}");
    assert_eq!(result(&before, "dry_run").0, "skipped");

    site.trust().await;
    let after = check(&site).await;
    assert_eq!(after.succeeded, Some(true), "{after:#?}");
    let jobs: Vec<Value> = site.objects("jobs");
    assert!(jobs.is_empty(), "a check starts nothing: {jobs:#?}");
}
