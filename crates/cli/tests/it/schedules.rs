//! Schedules of an environment: the requests of their commands.

use crate::canned_server::{CannedServer, json};
use crate::deployments::run;
use serde_json::json as value;

#[test]
fn a_schedule_is_at_its_environment_and_an_update_replaces_it_with_what_it_had() {
    let schedule = value!({
        "id": "nightly", "kind": "drift", "cron": "@daily", "timezone": "UTC", "enabled": true, "on_missed": "skip",
        "reconcile": true, "next_due_at": [], "history": [],
    });
    let path = "GET /projects/shop/envs/dev/schedules/nightly";
    let server = CannedServer::start([(path, json(200, &schedule))]);
    for call in [
        "create schedule shop dev nightly --set=kind=deploy --set=cron=@daily --set=enabled=false",
        "create schedule pay/eu dev once --set=kind=destroy --set=at=2030-01-01T00:00:00Z --yes",
        "create schedule pay/eu dev once --set=kind=destroy --set=at=2030-01-01T00:00:00Z",
        "get schedule shop dev nightly",
        "list schedules shop dev",
        "update schedule shop dev nightly --set=every_seconds=900",
        "delete schedule shop dev nightly",
    ] {
        run(&server, call);
    }
    // After a refusal the command looks for what is missing.
    let requests =
        server.requests().into_iter().filter(|request| request.what.contains("/schedules"));
    let requests: Vec<String> = requests
        .map(|request| format!("{} {}", request.what, String::from_utf8_lossy(&request.body)))
        .map(|request| request.trim_end().to_owned())
        .collect();
    insta::assert_snapshot!(requests.join("\n"), @r#"
    POST /projects/shop/envs/dev/schedules {"cron":"@daily","enabled":false,"id":"nightly","kind":"deploy"}
    POST /projects/pay%2Feu/envs/dev/schedules {"at":"2030-01-01T00:00:00Z","id":"once","kind":"destroy"}
    GET /projects/shop/envs/dev/schedules/nightly
    GET /projects/shop/envs/dev/schedules?per_page=100
    GET /projects/shop/envs/dev/schedules/nightly
    PUT /projects/shop/envs/dev/schedules/nightly {"enabled":true,"every_seconds":900,"kind":"drift","on_missed":"skip","reconcile":true}
    GET /projects/shop/envs/dev/schedules/nightly
    DELETE /projects/shop/envs/dev/schedules/nightly
    "#);
}
