//! Exit codes, on which scripts rely.

use crate::canned_server::{CannedServer, json};
use crate::deploying::{deployment, server, succeeded};
use crate::deployments::run;
use serde_json::json as value;

#[test]
fn each_kind_of_refusal_has_its_exit_code() {
    for (status, code) in
        [(400, 4), (401, 4), (403, 8), (404, 7), (409, 9), (413, 4), (429, 4), (500, 5), (503, 5)]
    {
        let refusal = value!({"error": format!("API-{status}"), "message": "no"});
        let server = CannedServer::start([("GET /runners", json(status, &refusal))]);
        let printed = run(&server, "list runners");
        assert!(printed.starts_with(&format!("exit: {code}\n")), "{status}: {printed}");
    }
}

#[test]
fn a_wait_ends_with_the_code_of_how_the_deployment_ended() {
    let attempt = value!({
        "number": 1, "status": "failed", "phase": "apply", "launched_at": "2026-01-01T00:00:00Z",
        "failure": {"class": "user", "message": "bad"},
    });
    let ended = |status: &str| {
        deployment(status, &value!({"completed_at": "2026-01-01T00:01:00Z", "attempts": [attempt]}))
    };
    for (end, code) in [(succeeded(), 0), (ended("failed"), 1), (ended("cancelled"), 1)] {
        let printed = run(&server(&end, b"", vec![]), "wait 01970000-0000-7000-8000-000000000001");
        assert!(printed.starts_with(&format!("exit: {code}\n")), "{printed}");
    }
    let printed = run(&CannedServer::start([]), "wait 01970000-0000-7000-8000-000000000001");
    assert!(printed.starts_with("exit: 7\n"), "{printed}");
}

#[test]
fn help_and_the_documentation_have_the_same_exit_codes() {
    let help = run(&CannedServer::start([]), "--help");
    let codes = |text: &str, begins: &str| -> Vec<u16> {
        let lines =
            text.lines().filter_map(|line| line.strip_prefix(begins)?.trim().split(' ').next());
        lines.filter_map(|number| number.parse().ok()).collect()
    };
    let page = include_str!("../../../../docs/cli.md").split_once("## Exit codes").unwrap().1;
    let help = help.split_once("Exit codes:").unwrap().1;
    assert_eq!(codes(help, " "), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130]);
    assert_eq!(codes(page, "| "), codes(help, " "));
}
