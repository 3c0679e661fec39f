//! Commands for one deployment: named by its id, by an end of its id, or by its environment.

use crate::canned_server::{Answer, CannedServer, json, stream};
use crate::deploying::{ID, deployment, server, succeeded};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};

const OTHER: &str = "01970000-0000-7000-8000-0000000000b2";
const OLD: &str = "01960000-0000-7000-8000-0000000000b2";

/// A page of a list.
pub(crate) fn list(items: &[Value]) -> Answer {
    json(200, &value!({"items": items}))
}

/// A deployment with another id.
pub(crate) fn of_id(id: &str, status: &str, more: &Value) -> Value {
    let mut found = deployment(status, more);
    found["id"] = id.into();
    if matches!(status, "succeeded" | "failed" | "cancelled") {
        found["completed_at"] = "2026-01-01T00:01:00Z".into();
    }
    found
}

pub(crate) fn run(server: &CannedServer, call: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    Invocation::new(folder.path(), call).at(server).run()
}

fn paths(server: &CannedServer) -> Vec<String> {
    server.requests().into_iter().map(|request| request.what).collect()
}

#[test]
fn either_end_of_an_id_names_a_deployment_and_an_ambiguous_one_is_refused() {
    let newest = of_id(ID, "running", &value!({}));
    let all =
        [newest.clone(), of_id(OTHER, "failed", &value!({})), of_id(OLD, "succeeded", &value!({}))];
    let found = |call: &str| {
        let server = server(&newest, b"", vec![("GET /deployments", list(&all))]);
        (run(&server, call), paths(&server))
    };
    for call in [
        "get deployment 01970000-0000-7000-8000-000000000001",
        "get deployment 01970000000070008000000000000001",
    ] {
        assert_eq!(found(call).1, [format!("GET /deployments/{ID}")], "{call}");
    }
    for call in [
        "get deployment 0001",
        "get deployment 8000-000000000001",
        "logs 00000001",
        "wait 0001 --timeout 0",
    ] {
        let (printed, requests) = found(call);
        assert_eq!(requests[0], "GET /deployments?per_page=100", "{call}");
        assert!(requests[1].starts_with(&format!("GET /deployments/{ID}")), "{call}: {printed}");
    }
    let printed = [
        "get deployment 0197",
        "cancel 00b2",
        "get deployment ffff",
        "get deployment 019",
        "logs shop",
    ]
    .map(|call| format!("$ canyon {call}\n{}", found(call).0));
    insta::assert_snapshot!(printed.join("\n"));
    assert_eq!(found("logs shop").1, Vec::<String>::new());
}

#[test]
fn a_deployment_is_shown_with_the_module_that_ran() {
    let module = value!({
        "source": "git::https://git.example.com/net.git//eu?ref=main",
        "commit": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
        "inputs": {"size": 3}, "hidden_inputs": ["password"],
    });
    let found = of_id(ID, "succeeded", &value!({"module": module, "duration_seconds": 60}));
    let server = server(&found, b"", vec![]);
    insta::assert_snapshot!(run(&server, &format!("get deployment {ID}")));
}

#[test]
fn the_filters_of_a_list_are_those_of_the_api() {
    let failed = of_id(ID, "failed", &value!({}));
    let server = CannedServer::start([("GET /deployments", list(&[failed]))]);
    let call = "list deployments --project shop --env dev --status failed --mode deploy --since 2026-01-31T12:00:00Z";
    assert!(run(&server, call).starts_with("exit: 0\n"), "{}", run(&server, call));
    let query = "project_id=shop&env_id=dev&status=failed&mode=deploy&since=2026-01-31T12%3A00%3A00Z&per_page=20";
    assert_eq!(paths(&server)[0], format!("GET /deployments?{query}"));
    let since: jiff::Timestamp = {
        run(&server, "list deployments --since 2h");
        let asked = paths(&server).pop().unwrap();
        let (_, time) = asked.split_once("since=").unwrap();
        time.split('&').next().unwrap().replace("%3A", ":").parse().unwrap()
    };
    let age = jiff::Timestamp::now().duration_since(since).as_secs();
    assert!((7_190..7_260).contains(&age), "{age}");
    let printed = ["--status broken", "--mode apply", "--since yesterday", "--env dev"]
        .map(|flags| run(&server, &format!("list deployments {flags}")));
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn the_search_for_a_short_id_ends_after_the_newest_thousand() {
    let items = vec![of_id(OTHER, "failed", &value!({})); 100];
    let page = json(200, &value!({"items": items, "next_page_token": "more"}));
    let server = CannedServer::start([("GET /deployments", page)]);
    let printed = run(&server, "cancel ffff");
    assert!(printed.starts_with("exit: 7\n"), "{printed}");
    assert!(printed.contains("none of the newest 1000 deployments has an id"), "{printed}");
    assert_eq!(server.requests().len(), 10);
}

#[test]
fn an_environment_stands_for_its_latest_deployment() {
    let latest = of_id(ID, "succeeded", &value!({}));
    let server = server(
        &succeeded(),
        b"==> plan\n",
        // If the caller may read only some deployments, a page may be empty.
        vec![
            ("GET /deployments", json(200, &value!({"items": [], "next_page_token": "p2"}))),
            ("GET /deployments", list(&[latest])),
        ],
    );
    let printed = run(&server, "logs shop dev");
    assert_eq!(printed, format!("exit: 0\n--- stdout\n==> plan\n--- stderr\ndeployment {ID}\n"));
    let requests = paths(&server);
    assert_eq!(requests[0], "GET /deployments?project_id=shop&env_id=dev&per_page=1");
    assert_eq!(requests[1], "GET /deployments?project_id=shop&env_id=dev&per_page=1&page=p2");
    let printed = run(&server, "wait shop dev");
    assert!(printed.starts_with("exit: 0\n--- stdout\ndeployment  "), "{printed}");
}

#[test]
fn an_environment_without_deployments_is_told_from_one_that_does_not_exist() {
    let missing =
        value!({"error": "API-404", "message": "no environment `devv` in project `shop`"});
    let server = CannedServer::start([
        ("GET /deployments", list(&[])),
        ("GET /projects/shop/envs/dev", json(200, &value!({"id": "dev"}))),
        ("GET /projects/shop", json(200, &value!({"id": "shop"}))),
        ("GET /projects/shop/envs/devv", json(404, &missing)),
        ("GET /projects/shop/envs", list(&[value!({"id": "dev"})])),
    ]);
    let calls = [
        "wait shop dev",
        "outputs shop dev",
        "cancel shop dev",
        "rollback shop dev",
        "logs shop devv",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn outputs_of_an_environment_are_those_of_its_last_success() {
    let outputs = value!({"url": {"sensitive": false, "value": "https://x"}});
    let failed = of_id(OTHER, "failed", &value!({}));
    let plan = of_id(OTHER, "succeeded", &value!({"plan_only": true}));
    let outputs = || {
        (
            concat!("GET /deployments/01970000-0000-7000-8000-000000000001", "/outputs"),
            json(200, &outputs),
        )
    };
    let found = server(
        &succeeded(),
        b"",
        vec![("GET /deployments", list(&[failed.clone(), plan, succeeded()])), outputs()],
    );
    let expected =
        |text: &str| format!("exit: 0\n--- stdout\n{text}\n--- stderr\ndeployment {ID}\n");
    assert_eq!(run(&found, "outputs shop dev"), expected("  url = https://x"));
    assert_eq!(run(&found, "outputs shop dev url"), expected("https://x"));
    let named = run(&found, "outputs 01970000-0000-7000-8000-000000000001 url");
    assert_eq!(named, "exit: 0\n--- stdout\nhttps://x\n--- stderr\n");
    // The id of a project begins with a letter.
    assert_eq!(run(&found, "outputs 00000001 url"), named);

    let destroyed = of_id(OTHER, "succeeded", &value!({"mode": "destroy"}));
    let histories = [[failed.clone(), destroyed, succeeded()].to_vec(), vec![failed]];
    let printed = histories.map(|history| {
        run(
            &server(&succeeded(), b"", vec![("GET /deployments", list(&history))]),
            "outputs shop dev",
        )
    });
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn cancel_of_an_environment_stops_the_one_that_runs_and_does_not_guess_among_several() {
    let ended = of_id(OTHER, "cancelled", &value!({}));
    let cancelling = json(202, &deployment("cancelling", &value!({})));
    let stop =
        ("POST /deployments/01970000-0000-7000-8000-000000000001/actions/cancel", cancelling);
    let history = |history: &[Value]| {
        let found =
            server(&succeeded(), b"", vec![("GET /deployments", list(history)), stop.clone()]);
        let printed = run(&found, "cancel shop dev --no-wait");
        let cancels = paths(&found).iter().filter(|path| path.starts_with("POST")).count();
        format!("{cancels} cancelled\n{printed}")
    };
    let running = of_id(ID, "running", &value!({}));
    let queued = of_id(OLD, "queued", &value!({}));
    // The newest one was cancelled while it waited.
    let one = history(&[ended.clone(), running.clone()]);
    let printed = [one, history(&[queued, running]), history(&[ended])];
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn destroy_is_deploy_with_destroy_and_needs_the_same_confirmation() {
    let sent = ["destroy shop dev --yes --no-wait", "deploy shop dev --destroy --yes --no-wait"]
        .map(|call| {
            let server = server(&succeeded(), b"", vec![]);
            let printed = run(&server, call);
            assert!(printed.starts_with("exit: 0\n"), "{printed}");
            server.bodies("POST /deployments")
        });
    assert_eq!(sent[0], [value!({"mode": "destroy", "project_id": "shop", "env_id": "dev"})]);
    assert_eq!(sent[0], sent[1]);
    let server = server(&succeeded(), b"", vec![]);
    let refused = ["destroy shop dev", "deploy shop dev --destroy"].map(|call| run(&server, call));
    assert!(
        refused[0].starts_with("exit: 2\n") && refused[0].contains("give --yes"),
        "{}",
        refused[0]
    );
    assert_eq!(refused[0], refused[1]);
    assert!(server.requests().is_empty());
}

/// The paths of the members of a JSON result, one level deep.
fn shape(printed: &str) -> Vec<String> {
    let stdout =
        printed.split_once("--- stdout\n").unwrap().1.split_once("--- stderr\n").unwrap().0;
    let found: Value =
        serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {printed}"));
    found.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn each_command_that_runs_or_awaits_a_deployment_prints_one_shape_of_json() {
    let outputs = value!({"url": {"sensitive": false, "value": "https://x"}});
    let found = || {
        server(
            &succeeded(),
            b"",
            vec![
                (
                    "GET /deployments/01970000-0000-7000-8000-000000000001/outputs",
                    json(200, &outputs),
                ),
                (
                    "POST /deployments/01970000-0000-7000-8000-000000000001/actions/cancel",
                    json(202, &deployment("cancelling", &value!({}))),
                ),
            ],
        )
    };
    for call in [
        "deploy shop dev --module git::https://h/r.git -o json",
        "deploy shop dev --module git::https://h/r.git -o json --no-wait",
        "destroy shop dev --yes -o json",
        "destroy shop dev --yes -o json --no-wait",
        "rollback shop dev 01970000-0000-7000-8000-000000000001 -o json",
        "wait 01970000-0000-7000-8000-000000000001 -o json",
        "cancel 01970000-0000-7000-8000-000000000001 -o json",
        "cancel 01970000-0000-7000-8000-000000000001 -o json --no-wait",
    ] {
        let printed = run(&found(), call);
        assert!(printed.starts_with("exit: 0\n"), "{call}: {printed}");
        assert_eq!(shape(&printed), ["deployment", "orphans", "outputs"], "{call}");
    }
    let running = deployment("running", &value!({}));
    let not_yet = json(408, &value!({"error": "API-408", "message": "not yet"}));
    let waits = (
        "GET /deployments/01970000-0000-7000-8000-000000000001/actions/wait-for-complete",
        not_yet,
    );
    let server = server(&running, b"", vec![waits, ("GET /x", stream(b""))]);
    for call in [
        "deploy shop dev --module git::https://h/r.git -o json --timeout 0",
        "wait 01970000-0000-7000-8000-000000000001 -o json --timeout 0",
    ] {
        let printed = run(&server, call);
        assert!(printed.starts_with("exit: 6\n"), "{call}: {printed}");
        assert_eq!(shape(&printed), ["deployment", "orphans", "outputs"], "{call}");
        assert!(printed.contains("\"status\": \"running\""), "{call}: {printed}");
    }
}
