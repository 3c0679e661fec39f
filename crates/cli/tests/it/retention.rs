//! `canyon get|set|delete retention` and `canyon usage`.

use crate::canned_server::{CannedServer, done, json};
use crate::deployments::run;
use serde_json::json as value;

#[test]
fn a_retention_is_set_shown_and_deleted_and_what_it_would_remove_is_estimated() {
    let retention =
        value!({ "deployments_days": 365, "logs_days": 90, "updated_at": "2026-01-02T00:00:00Z" });
    let absent = value!({ "error": "API-404",
        "message": "no retention is set: deployments, logs and audit records are kept for ever" });
    let amount = |count: u64, removable: u64| value!({ "count": count, "at_least": false, "removable": removable, "oldest_at": "2024-05-01T10:00:00Z" });
    let mut logs = amount(900, 700);
    logs["bytes"] = 123_456_789.into();
    logs["removable_bytes"] = 98_765_432.into();
    let usage = value!({
        "deployments": amount(1200, 300), "logs": logs, "audit_records": amount(5000, 0),
        "environments": amount(12, 0), "retention": { "deployments_days": 365, "logs_days": 90 },
    });
    let server = CannedServer::start([
        ("GET /retention", json(404, &absent)),
        ("GET /retention", json(200, &retention)),
        ("PUT /retention", json(200, &retention)),
        ("DELETE /retention", done()),
        ("GET /usage", json(200, &usage)),
        ("GET /usage", json(200, &usage)),
    ]);
    let calls = [
        "get retention",
        "get retention",
        "set retention --deployments-days 365 --logs-days 90 --yes",
        "set retention --deployments-days 365",
        "set retention --yes",
        "set retention --logs x --yes",
        "delete retention",
        "usage",
        "usage --deployments 365 --logs 90 -o json --jq .deployments.removable",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
    assert_eq!(
        server.bodies("PUT /retention"),
        [value!({ "deployments_days": 365, "logs_days": 90 })]
    );
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.what).collect();
    insta::assert_snapshot!(asked.join("\n"));
}
