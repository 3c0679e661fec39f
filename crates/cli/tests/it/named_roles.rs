//! `canyon deploy --role`, `canyon enable role` and `canyon disable role`.

use crate::canned_server::{CannedServer, json};
use crate::deployments::run;
use serde_json::json as value;

#[test]
fn a_role_is_enabled_for_a_reason_and_a_time_and_disabled_again() {
    let enabled = value!({ "id": "shared", "enabled_roles": [{
        "name": "break-glass", "reason": "incident 12", "expires_at": "2026-01-02T02:00:00Z",
    }]});
    let absent = value!({ "error": "API-404",
        "message": "there is no role `glass` of runner `shared`; it has `break-glass`" });
    let path = "POST /runners/shared/named-roles/break-glass/actions/enable";
    let server = CannedServer::start([
        (path, json(200, &enabled)),
        (
            "POST /runners/shared/named-roles/break-glass/actions/disable",
            json(200, &value!({ "id": "shared" })),
        ),
        ("POST /runners/shared/named-roles/glass/actions/enable", json(404, &absent)),
    ]);
    let calls = [
        "enable role shared break-glass --reason incident --expires-in 2h",
        "disable role shared break-glass",
        "enable role shared glass --reason incident",
        "enable role shared break-glass",
        "enable role shared break-glass --reason incident --expires-in soon",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
    let sent = value!({ "reason": "incident", "expires_in_seconds": 7200 });
    assert_eq!(server.bodies(path), [sent]);
}

#[test]
fn a_run_asks_for_a_role_and_a_refusal_names_the_flag() {
    let reason = "is required by role `network`";
    let refusal = value!({
        "error": "API-400", "message": format!("`reason` {reason}"),
        "details": { "fields": [{ "path": "reason", "reason": reason }] },
    });
    let server = CannedServer::start([
        ("POST /deployments", json(400, &refusal)),
        ("POST /deployments", json(400, &refusal)),
    ]);
    let module = "--module git::https://h/r --yes --no-wait";
    let refused = run(&server, &format!("deploy shop dev {module} --role network"));
    assert!(refused.contains("`--reason` is required by role `network`"), "{refused}");
    run(&server, &format!("destroy shop dev {module} --role network --reason why"));
    let sent = server.bodies("POST /deployments");
    assert_eq!((&sent[0]["role"], sent[0].get("reason")), (&value!("network"), None));
    assert_eq!((&sent[1]["role"], &sent[1]["reason"]), (&value!("network"), &value!("why")));
    let alone = run(&server, &format!("deploy shop dev {module} --reason why"));
    assert!(alone.contains("--role"), "{alone}");
}
