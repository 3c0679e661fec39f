//! Whether `deploy` runs the job itself: its flag, what it asks, and what it says.

use crate::canned_server::{Answer, CannedServer, json};
use crate::deploying::{GOOD, server, succeeded};
use crate::invocation::Invocation;
use serde_json::json as value;

const ENVIRONMENT: &str = "GET /projects/shop/envs/dev";
const RUNNER: &str = "GET /runners/far";

/// A server with an environment of which it says this, and with a runner of this type.
fn found(reason: Option<&str>, kind: &str) -> CannedServer {
    let mut environment = value!({ "id": "dev", "runner_id": "far" });
    if let Some(reason) = reason {
        environment["no_agent_reason"] = value!(reason);
    }
    let runner = value!({ "id": "far", "runner_configuration": { "type": kind } });
    let more: Vec<(&str, Answer)> =
        vec![(ENVIRONMENT, json(200, &environment)), (RUNNER, json(200, &runner))];
    server(&succeeded(), GOOD, more)
}

fn run(server: &CannedServer, flags: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let call = format!("deploy shop dev --module git::https://example.com/m.git {flags}");
    Invocation::new(folder.path(), &call).at(server).run()
}

const NEVER: &str = "waiting for an agent of runner `far`: none has ever connected";

#[test]
fn a_machine_that_cannot_run_the_job_says_once_what_the_deployment_waits_for() {
    let server = found(Some(NEVER), "docker-agent");
    let printed = run(&server, "");
    let notices = printed.lines().filter(|line| line.contains("far")).collect::<Vec<_>>();
    insta::assert_snapshot!(notices.join("\n"), @"this deployment will be waiting for an agent of runner `far`: none has ever connected; it cannot run on this machine: there is neither OpenTofu (`tofu`) nor Terraform on the PATH (install OpenTofu 1.6 or newer); start an agent of that runner");
    assert!(printed.starts_with("exit: 0\n"), "{printed}");
    assert_eq!(server.bodies("POST /deployments").len(), 1);
    assert_eq!(server.bodies("POST /deployments")[0].get("agent"), None);
    assert_eq!(server.questions(), 1);
}

#[test]
fn a_deployment_that_an_agent_may_take_is_created_without_a_word() {
    let server = found(None, "docker-agent");
    let printed = run(&server, "");
    assert!(printed.starts_with("exit: 0\n") && !printed.contains("far"), "{printed}");
    assert_eq!(server.questions(), 1);
    assert!(!server.requests().iter().any(|request| request.what.starts_with(RUNNER)));
}

#[test]
fn nothing_is_asked_if_a_flag_decides() {
    for flags in [
        "--local=false",
        "--local=false --no-wait",
        "--no-wait",
        "--timeout 60",
        "--idempotency-key k",
    ] {
        let server = found(Some(NEVER), "docker-agent");
        let printed = run(&server, flags);
        assert!(printed.starts_with("exit: 0\n"), "{flags}: {printed}");
        assert_eq!(server.questions(), 0, "{flags}");
        assert_eq!(server.bodies("POST /deployments").len(), 1, "{flags}");
    }
}

#[test]
fn a_run_on_this_machine_contradicts_flags_for_a_run_elsewhere() {
    for (flag, with) in [
        ("--no-wait", "--local --no-wait"),
        ("--timeout", "--local=true --timeout 60"),
        ("--idempotency-key", "--local --idempotency-key k"),
    ] {
        let server = found(None, "docker-agent");
        let printed = run(&server, with);
        assert!(printed.starts_with("exit: 2\n"), "{printed}");
        assert!(printed.contains(&format!("--local cannot be used with {flag}")), "{printed}");
        assert!(server.requests().is_empty());
    }
    let printed = run(&found(None, "docker-agent"), "--local=perhaps");
    assert!(printed.starts_with("exit: 2\n") && printed.contains("true, false"), "{printed}");
}
