//! Schedules of an environment: the requests of their commands.

use crate::canned_server::{CannedServer, json};
use crate::deployments::run;
use crate::invocation::Invocation;
use crate::terminal::Terminal;
use serde_json::json as value;

const DESTROY: &str =
    "create schedule shop dev end --set=kind=destroy --set=at=2030-01-01T00:00:00Z";

/// The writes that reached the server.
fn writes(server: &CannedServer) -> Vec<String> {
    let sent = server.requests().into_iter().map(|request| request.what);
    sent.filter(|what| !what.starts_with("GET")).collect()
}

/// `canyon` on a terminal, with a server that knows the environment.
fn asked(call: &str) -> (CannedServer, Terminal) {
    let environment = value!({ "id": "dev", "project_id": "shop", "env_type_id": "development" });
    let server = CannedServer::start([("GET /projects/shop/envs/dev", json(200, &environment))]);
    let folder = tempfile::tempdir().unwrap();
    let terminal = Terminal::start(Invocation::new(folder.path(), call).at(&server).command(), "");
    (server, terminal)
}

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
        "create schedule pay/eu dev once --set=kind=destroy --set=at=2030-01-01T00:00:00Z --yes --confirm dev",
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

#[test]
fn without_a_terminal_a_schedule_that_destroys_needs_both_answers() {
    let stored = value!({
        "id": "end", "kind": "destroy", "cron": "@daily", "timezone": "UTC", "enabled": false, "on_missed": "skip",
        "reconcile": false, "next_due_at": [], "history": [],
    });
    let path = "GET /projects/shop/envs/dev/schedules/end";
    let update = "update schedule shop dev end --set=enabled=true";
    for (call, flags, expected) in [
        (DESTROY, "", "give --yes"),
        (DESTROY, "--confirm dev", "give --yes"),
        (DESTROY, "--yes", "give --confirm dev"),
        (DESTROY, "--yes --confirm prod", "`--confirm` names `prod`"),
        (update, "--yes", "give --confirm dev"),
    ] {
        let server = CannedServer::start([(path, json(200, &stored))]);
        let printed = run(&server, &format!("{call} {flags}"));
        assert!(printed.starts_with("exit: 2\n"), "{call} {flags}: {printed}");
        assert!(printed.contains(expected), "{call} {flags}: {printed}");
        let named = "let schedule `end` destroy everything in the state of shop/dev";
        assert!(printed.contains(named), "{call} {flags}: {printed}");
        assert_eq!(writes(&server), [""; 0], "{call} {flags}");
    }
    let server = CannedServer::start([(path, json(200, &stored))]);
    run(&server, &format!("{update} --yes --confirm dev"));
    assert_eq!(writes(&server), ["PUT /projects/shop/envs/dev/schedules/end"]);
}

#[test]
fn on_a_terminal_a_schedule_that_destroys_is_written_after_yes_and_the_environments_name() {
    for (first, second, is_written) in [
        ("yes\n", Some("dev\n"), true),
        ("yes\n", Some("yes\n"), false),
        ("yes\n", Some("prod\n"), false),
        ("dev\n", None, false),
    ] {
        let (server, mut terminal) = asked(DESTROY);
        terminal.until("in the state of shop/dev at 2030-01-01T00:00:00Z?").answer(first);
        if let Some(second) = second {
            terminal.until("Type the name of the environment, `dev`: ").types(second);
        }
        let printed = terminal.end();
        assert_eq!(writes(&server).len(), usize::from(is_written), "{second:?}: {printed}");
        let refused = printed.ends_with("error: not confirmed; nothing was changed\n");
        assert_eq!(refused, !is_written, "{second:?}: {printed}");
    }
    let (server, mut terminal) = asked(&format!("{DESTROY} --yes"));
    terminal.until("Type the name of the environment, `dev`: ").types("dev\n").end();
    assert_eq!(writes(&server).len(), 1);
}
