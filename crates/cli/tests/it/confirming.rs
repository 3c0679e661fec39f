//! When the command asks before it destroys something, and what each answer does.

use crate::canned_server::{Answer, CannedServer, done, json, stream};
use crate::deploying::{deployment, server, succeeded};
use crate::invocation::Invocation;
use crate::terminal::Terminal;
use serde_json::{Value, json as value};
use std::process::Command;

const SECOND: &str = "01970000-0000-7000-8000-000000000002";
/// The character of Ctrl-D.
const END: &str = "\u{4}";
const DEPLOY: &str = "deploy shop dev --module git::https://h/r.git";

/// The event stream of a plan with `action address` in each line; `vanished` is what the provider did not find.
fn plan(changes: &[&str]) -> Vec<u8> {
    let line = |change: &&str| {
        let (action, address) = change.split_once(' ').unwrap();
        let (kind, action) = match action {
            "vanished" => ("resource_drift", "delete"),
            planned => ("planned_change", planned),
        };
        let change = value!({"action": action, "resource": {"addr": address}});
        format!("{}\n", value!({"type": kind, "change": change}))
    };
    let count = |actions: &[&str]| {
        let is_counted = |change: &&&str| actions.iter().any(|action| change.starts_with(action));
        changes.iter().filter(is_counted).count()
    };
    let (add, remove) = (count(&["create", "replace"]), count(&["delete", "replace"]));
    let summary = value!({
        "type": "change_summary",
        "changes": {"add": add, "change": 0, "remove": remove, "operation": "plan"},
    });
    let lines: String = changes.iter().map(line).collect();
    format!("{lines}{summary}\n").into_bytes()
}

fn refused(count: u32) -> Value {
    let message = format!("the plan deletes or replaces {count} resources");
    deployment(
        "failed",
        &value!({
            "refused_deletions": count, "status_message": message,
            "completed_at": "2026-01-01T00:01:00Z",
        }),
    )
}

/// The uuid of the environment that is read before it is deleted.
const UUID: &str = "01970000-0000-7000-8000-0000000000e1";

fn environment(more: &Value) -> Value {
    let mut environment = value!({"id": "dev", "project_id": "shop", "env_type_id": "development"});
    for (name, member) in more.as_object().unwrap() {
        environment[name] = member.clone();
    }
    environment
}

fn with_state(resources: u32) -> Value {
    environment(&value!({"uuid": UUID, "state": {
        "place": "s3://states/a.tfstate", "storage_type": "s3", "storage_digest": "00",
        "lineage": "l", "serial": 7, "resources": resources,
    }}))
}

/// A server that refuses the first deployment for `count` deletions; the second one succeeds.
fn refusing(count: u32, environment: &Value) -> CannedServer {
    let changes = ["delete terraform_data.a", "create terraform_data.b", "replace x.c[\"d\"]"];
    refusing_plan(count, environment, &changes)
}

/// The same for a plan with these changes.
fn refusing_plan(count: u32, environment: &Value, changes: &[&str]) -> CannedServer {
    let mut second = succeeded();
    second["id"] = SECOND.into();
    let created = |id: &str| json(201, &deployment("queued", &value!({"id": id})));
    let more: Vec<(&'static str, Answer)> = vec![
        ("POST /deployments", created("01970000-0000-7000-8000-000000000001")),
        ("POST /deployments", created(SECOND)),
        ("GET /projects/shop/envs/dev", json(200, environment)),
        ("GET /deployments/01970000-0000-7000-8000-000000000002", json(200, &second)),
        (
            "GET /deployments/01970000-0000-7000-8000-000000000002/actions/wait-for-complete",
            json(200, &second),
        ),
        ("GET /deployments/01970000-0000-7000-8000-000000000002/logs", stream(b"")),
    ];
    server(&refused(count), &plan(changes), more)
}

/// `canyon` on a terminal.
fn terminal(call: &str, server: &CannedServer) -> Terminal {
    typed("", call, server)
}

/// The same on a terminal with input that was typed `before`.
fn typed(before: &str, call: &str, server: &CannedServer) -> Terminal {
    let folder = tempfile::tempdir().unwrap();
    Terminal::start(Invocation::new(folder.path(), call).at(server).command(), before)
}

/// The output of `canyon` without a terminal.
fn without_terminal(call: &str, server: &CannedServer) -> String {
    let folder = tempfile::tempdir().unwrap();
    let printed = Invocation::new(folder.path(), call).at(server).run();
    format!("$ canyon {call}\n{}", without_stages(&printed))
}

/// The lines of the stages come from a poll that may be slower than the end of the deployment.
fn without_stages(printed: &str) -> String {
    let kept = printed.lines().filter(|line| !matches!(*line, "queued" | "failed" | "succeeded"));
    kept.fold(String::new(), |text, line| text + line + "\n")
}

/// The limits in the requests, in order.
fn limits(server: &CannedServer) -> Vec<Value> {
    let bodies = server.bodies("POST /deployments");
    bodies.iter().map(|body| body["max_deletions"].clone()).collect()
}

#[test]
fn on_a_terminal_a_plan_that_deletes_is_applied_only_after_yes() {
    let server = refusing(2, &with_state(3));
    let call = format!("{DEPLOY} --idempotency-key k1 --priority high");
    insta::assert_snapshot!(terminal(&call, &server).answer("yes\n").end());
    let mut sent = server.bodies("POST /deployments");
    assert_eq!(limits(&server), [value!(0), value!(2)]);
    let sent: Vec<_> =
        sent.iter_mut().map(|body| body.as_object_mut().unwrap().remove("max_deletions")).collect();
    assert_eq!(sent.len(), 2);
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().filter_map(|request| request.key.as_deref()).collect();
    assert!(keys[0] == "k1" && keys[1].len() == 36, "{keys:?}");
}

#[test]
fn the_second_request_differs_in_nothing_but_its_limit() {
    let server = refusing(2, &with_state(3));
    terminal(&format!("{DEPLOY} --var a=b --accept-state"), &server).answer("yes\n").end();
    let mut sent = server.bodies("POST /deployments");
    for body in &mut sent {
        assert_eq!(body["accept_state"], true);
        body["max_deletions"] = Value::Null;
    }
    assert_eq!(sent[0], sent[1]);
}

#[test]
fn any_other_answer_than_yes_changes_nothing() {
    for answer in ["no\n", "y\n", "YES\n", "yes please\n", "\n", END] {
        let server = refusing(2, &with_state(3));
        let printed = terminal(DEPLOY, &server).answer(answer).end();
        assert!(printed.starts_with("exit: 1\n"), "{answer:?}: {printed}");
        assert!(printed.ends_with("error: not confirmed; nothing was changed\n"), "{printed}");
        assert_eq!(limits(&server), [value!(0)], "{answer:?}");
    }
}

#[test]
fn a_plan_that_grows_meanwhile_needs_another_answer() {
    let mut third = refused(5);
    third["id"] = SECOND.into();
    let created = |id: &str| json(201, &deployment("queued", &value!({"id": id})));
    let wait = "GET /deployments/01970000-0000-7000-8000-000000000002/actions/wait-for-complete";
    let more: Vec<(&'static str, Answer)> = vec![
        ("POST /deployments", created("01970000-0000-7000-8000-000000000001")),
        ("POST /deployments", created(SECOND)),
        ("GET /projects/shop/envs/dev", json(200, &with_state(9))),
        (wait, json(200, &third)),
    ];
    let server = server(&refused(2), &plan(&[]), more);
    let mut terminal = terminal(DEPLOY, &server);
    terminal.until("delete or replace 2 resources").answer("yes\n");
    terminal.until("delete or replace 5 resources of shop/dev? Only `yes` is accepted: ");
    assert!(terminal.answer("no\n").end().starts_with("exit: 1\n"));
    assert_eq!(limits(&server), [value!(0), value!(2)]);
}

#[test]
fn resources_that_the_provider_did_not_find_are_asked_about_in_their_own_words() {
    let changes = ["vanished terraform_data.a", "create terraform_data.a"];
    let refusing = || refusing_plan(1, &with_state(3), &changes);
    let server = refusing();
    let asked = terminal(DEPLOY, &server).answer("yes\n").end();
    assert_eq!(limits(&server), [value!(0), value!(1)]);
    let script = without_terminal(&format!("{DEPLOY} --max-deletions 0"), &refusing());
    insta::assert_snapshot!(format!("{asked}\n{script}"));
}

#[test]
fn input_typed_before_the_question_is_ignored() {
    let server = refusing(2, &with_state(3));
    let printed = typed("yes\nyes\n", DEPLOY, &server).answer("no\n").end();
    assert!(printed.starts_with("exit: 1\n"), "{printed}");
    assert_eq!(limits(&server).len(), 1);
}

#[test]
fn ctrl_c_at_the_question_changes_nothing() {
    let server = refusing(2, &with_state(3));
    let mut terminal = terminal(DEPLOY, &server);
    terminal.until("Only `yes` is accepted: ");
    Command::new("kill").args(["-INT", &terminal.id().to_string()]).status().unwrap();
    let printed = terminal.end();
    assert!(printed.starts_with("exit: 130\n"), "{printed}");
    assert!(printed.ends_with("error: interrupted; nothing was changed\n"), "{printed}");
    assert_eq!(limits(&server).len(), 1);
}

#[test]
fn the_command_does_not_ask_about_a_limit_of_the_environment() {
    let protected = environment(&value!({"deletion_protection": {"max_deletions": 1}}));
    let server = refusing(2, &protected);
    let printed = terminal(DEPLOY, &server).end();
    // The same call by a script, which sends no limit of its own.
    let script = without_terminal(&format!("{DEPLOY} --yes"), &server_of(&protected));
    insta::assert_snapshot!(format!("{printed}\n{script}"));
    assert_eq!(limits(&server), [value!(0)]);
}

fn server_of(environment: &Value) -> CannedServer {
    refusing(2, environment)
}

#[test]
fn the_command_does_not_ask_again_when_the_environment_refuses_an_allowed_plan() {
    // The environment cannot be read; the refusal implies that it has a limit.
    let server = refusing(2, &value!("unreadable"));
    let printed = without_terminal(&format!("{DEPLOY} --max-deletions 2"), &server);
    assert!(printed.contains("and shop/dev allows fewer\n"), "{printed}");
}

#[test]
fn scripts_set_their_own_limit() {
    let server = refusing(2, &with_state(3));
    insta::assert_snapshot!(without_terminal(&format!("{DEPLOY} --max-deletions 1"), &server));
    assert_eq!(limits(&server), [value!(1)]);
}

#[test]
fn a_limit_is_sent_only_where_the_command_can_ask() {
    let none = Value::Null;
    for (call, expected) in [
        (DEPLOY.to_owned(), value!(0)),
        (format!("{DEPLOY} --yes"), none.clone()),
        (format!("{DEPLOY} --plan-only"), none.clone()),
        (format!("{DEPLOY} --no-wait"), none.clone()),
        (format!("{DEPLOY} --no-wait --max-deletions 4"), value!(4)),
        (format!("{DEPLOY} --yes --max-deletions 4"), value!(4)),
        ("deploy shop dev --destroy --plan-only".to_owned(), none.clone()),
        ("deploy shop dev --destroy --yes".to_owned(), none.clone()),
    ] {
        let server = server(&succeeded(), b"", vec![]);
        let printed = terminal(&call, &server).end();
        assert!(printed.starts_with("exit: 0\n"), "{call}: {printed}");
        assert_eq!(limits(&server), [expected], "{call}");
    }
    let server = server(&succeeded(), b"", vec![]);
    assert!(without_terminal(DEPLOY, &server).contains("exit: 0\n"));
    assert_eq!(limits(&server), [none]);
}

/// A server for destructive commands; `call` determines whether a deletion is complete at once.
fn destroying(environment: &Value, call: &str) -> CannedServer {
    let left = value!({"id": "dev", "status": "deleting"});
    let answer = if call.contains("--force") { done() } else { json(202, &left) };
    server(
        &succeeded(),
        b"",
        vec![
            ("GET /projects/shop/envs/dev", json(200, environment)),
            ("DELETE /projects/shop/envs/dev", answer),
        ],
    )
}

const DESTROYING: [&str; 3] = [
    "deploy shop dev --destroy",
    "delete environment shop dev",
    "delete environment shop dev --force",
];

#[test]
fn destructive_commands_show_the_resources_and_ask() {
    let printed = DESTROYING.map(|call| {
        let server = destroying(&with_state(12), call);
        let printed = terminal(call, &server).answer("yes\n").end();
        let what: Vec<_> = server.requests().into_iter().map(|request| request.what).collect();
        assert_eq!(what[0], "GET /projects/shop/envs/dev", "{call}");
        let destroyed = match call {
            "deploy shop dev --destroy" => "POST /deployments".to_owned(),
            "delete environment shop dev" => format!("DELETE /projects/shop/envs/dev?uuid={UUID}"),
            _ => format!("DELETE /projects/shop/envs/dev?force=true&uuid={UUID}"),
        };
        assert_eq!(what[1], destroyed, "{call}");
        format!("$ canyon {call}\n{printed}")
    });
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn nothing_is_destroyed_without_yes() {
    for call in DESTROYING {
        for answer in ["y\n", END] {
            let server = destroying(&with_state(12), call);
            let printed = terminal(call, &server).answer(answer).end();
            assert!(printed.starts_with("exit: 1\n"), "{printed}");
            assert!(printed.ends_with("error: not confirmed; nothing was changed\n"), "{printed}");
            assert_eq!(server.requests().len(), 1, "{call}");
        }
    }
}

#[test]
fn a_misspelt_environment_fails_without_a_question() {
    let missing =
        value!({"error": "API-404", "message": "no environment `devv` in project `shop`"});
    let server = CannedServer::start([
        ("GET /projects/shop", json(200, &value!({"id": "shop"}))),
        ("GET /projects/shop/envs/devv", json(404, &missing)),
        ("GET /projects/shop/envs", json(200, &value!({"items": [{"id": "dev"}]}))),
    ]);
    let printed = terminal("deploy shop devv --destroy", &server).end();
    assert!(printed.starts_with("exit: 7\n"), "{printed}");
    assert!(printed.ends_with("hint: did you mean `dev`?\n"), "{printed}");
}

#[test]
fn unknown_parts_of_a_state_are_reported() {
    let state = |more: &Value| {
        let mut state = value!({
            "place": "/srv/states/a.tfstate", "storage_type": "local", "storage_digest": "00",
        });
        for (name, member) in more.as_object().unwrap() {
            state[name] = member.clone();
        }
        environment(&value!({"state": state}))
    };
    let known = value!({"serial": 7, "resources": 1});
    let uncertain = value!({"serial": 7, "resources": 12, "uncertain": true});
    let environments = [
        environment(&value!({})),
        state(&value!({})),
        state(&value!({"uncertain": true})),
        state(&uncertain),
        state(&known),
        state(&value!({"serial": 9, "resources": 0})),
    ];
    let printed = environments.map(|environment| {
        let server = CannedServer::start([
            ("GET /projects/shop/envs/dev", json(200, &environment)),
            ("DELETE /projects/shop/envs/dev", done()),
        ]);
        without_terminal("delete environment shop dev --force --yes", &server)
    });
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn a_refused_or_pending_deletion_reports_nothing_left_behind() {
    let used = value!({"error": "API-409", "message": "a deployment of it runs"});
    let deleting = value!({"id": "dev", "status": "deleting"});
    for (answer, exit) in [(json(409, &used), "exit: 9\n"), (json(202, &deleting), "exit: 0\n")] {
        let server = CannedServer::start([
            ("GET /projects/shop/envs/dev", json(200, &with_state(2))),
            ("DELETE /projects/shop/envs/dev", answer),
        ]);
        let printed = without_terminal("delete environment shop dev --force --yes", &server);
        assert!(printed.contains(exit) && !printed.contains("left behind"), "{printed}");
    }
}
