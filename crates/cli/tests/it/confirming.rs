//! Who is asked before something is destroyed, and what becomes of the answer.

use crate::canned_server::{Answer, CannedServer, done, json, stream};
use crate::deploying::{deployment, server, succeeded};
use crate::invocation::Invocation;
use crate::terminal::Terminal;
use serde_json::{Value, json as value};
use std::process::Command;

const SECOND: &str = "01970000-0000-7000-8000-000000000002";
/// What Ctrl-D sends.
const END: &str = "\u{4}";
const DEPLOY: &str = "deploy shop dev --module git::https://h/r.git";

/// `action address` in each line, as the stream of a plan.
fn plan(changes: &[&str]) -> Vec<u8> {
    let line = |change: &&str| {
        let (action, address) = change.split_once(' ').unwrap();
        let change = value!({"action": action, "resource": {"addr": address}});
        format!("{}\n", value!({"type": "planned_change", "change": change}))
    };
    let summary = value!({
        "type": "change_summary",
        "changes": {"add": 2, "change": 0, "remove": 2, "operation": "plan"},
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

/// Which environment is looked at before it is deleted.
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

/// A server whose first deployment is refused for `count` deletions, and whose second one succeeds.
fn refusing(count: u32, environment: &Value) -> CannedServer {
    let changes = ["delete terraform_data.a", "create terraform_data.b", "replace x.c[\"d\"]"];
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
    server(&refused(count), &plan(&changes), more)
}

/// `canyon` on a terminal.
fn terminal(call: &str, server: &CannedServer) -> Terminal {
    typed("", call, server)
}

/// The same on a terminal on which something was typed `before`.
fn typed(before: &str, call: &str, server: &CannedServer) -> Terminal {
    let folder = tempfile::tempdir().unwrap();
    Terminal::start(Invocation::new(folder.path(), call).at(server).command(), before)
}

/// What `canyon` says where no terminal is.
fn elsewhere(call: &str, server: &CannedServer) -> String {
    let folder = tempfile::tempdir().unwrap();
    let said = Invocation::new(folder.path(), call).at(server).run();
    format!("$ canyon {call}\n{}", without_stages(&said))
}

/// The lines of the stages come from a poll that may be slower than the end.
fn without_stages(said: &str) -> String {
    let kept = said.lines().filter(|line| !matches!(*line, "queued" | "failed" | "succeeded"));
    kept.fold(String::new(), |text, line| text + line + "\n")
}

/// The limits that were sent, request by request.
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
    let asked = server.asked();
    let keys: Vec<_> = asked.iter().filter_map(|asked| asked.key.as_deref()).collect();
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
        let said = terminal(DEPLOY, &server).answer(answer).end();
        assert!(said.starts_with("exit: 1\n"), "{answer:?}: {said}");
        assert!(said.ends_with("error: not confirmed; nothing was changed\n"), "{said}");
        assert_eq!(limits(&server), [value!(0)], "{answer:?}");
    }
}

#[test]
fn a_plan_that_grows_meanwhile_is_asked_about_again() {
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
fn what_was_typed_before_the_question_is_no_answer() {
    let server = refusing(2, &with_state(3));
    let said = typed("yes\nyes\n", DEPLOY, &server).answer("no\n").end();
    assert!(said.starts_with("exit: 1\n"), "{said}");
    assert_eq!(limits(&server).len(), 1);
}

#[test]
fn ctrl_c_at_the_question_changes_nothing() {
    let server = refusing(2, &with_state(3));
    let mut terminal = terminal(DEPLOY, &server);
    terminal.until("Only `yes` is accepted: ");
    Command::new("kill").args(["-INT", &terminal.id().to_string()]).status().unwrap();
    let said = terminal.end();
    assert!(said.starts_with("exit: 130\n"), "{said}");
    assert!(said.ends_with("error: interrupted; nothing was changed\n"), "{said}");
    assert_eq!(limits(&server).len(), 1);
}

#[test]
fn a_limit_of_the_environment_is_not_asked_about() {
    let protected = environment(&value!({"deletion_protection": {"max_deletions": 1}}));
    let server = refusing(2, &protected);
    let said = terminal(DEPLOY, &server).end();
    // The same by a script, which sends no limit of its own.
    let script = elsewhere(&format!("{DEPLOY} --yes"), &server_of(&protected));
    insta::assert_snapshot!(format!("{said}\n{script}"));
    assert_eq!(limits(&server), [value!(0)]);
}

fn server_of(environment: &Value) -> CannedServer {
    refusing(2, environment)
}

#[test]
fn an_environment_that_refuses_what_was_allowed_is_not_asked_about_again() {
    // Its limit cannot be read; that it has one follows from the refusal.
    let server = refusing(2, &value!("unreadable"));
    let said = elsewhere(&format!("{DEPLOY} --max-deletions 2"), &server);
    assert!(said.contains("and shop/dev allows fewer\n"), "{said}");
}

#[test]
fn scripts_set_their_own_limit() {
    let server = refusing(2, &with_state(3));
    insta::assert_snapshot!(elsewhere(&format!("{DEPLOY} --max-deletions 1"), &server));
    assert_eq!(limits(&server), [value!(1)]);
}

#[test]
fn a_limit_is_sent_only_where_somebody_may_be_asked() {
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
        let said = terminal(&call, &server).end();
        assert!(said.starts_with("exit: 0\n"), "{call}: {said}");
        assert_eq!(limits(&server), [expected], "{call}");
    }
    let server = server(&succeeded(), b"", vec![]);
    assert!(elsewhere(DEPLOY, &server).contains("exit: 0\n"));
    assert_eq!(limits(&server), [none]);
}

/// A server for what destroys; `call` says whether a deletion is done at once.
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
fn what_destroys_shows_the_resources_and_asks() {
    let said = DESTROYING.map(|call| {
        let server = destroying(&with_state(12), call);
        let said = terminal(call, &server).answer("yes\n").end();
        let what: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
        assert_eq!(what[0], "GET /projects/shop/envs/dev", "{call}");
        let destroyed = match call {
            "deploy shop dev --destroy" => "POST /deployments".to_owned(),
            "delete environment shop dev" => format!("DELETE /projects/shop/envs/dev?uuid={UUID}"),
            _ => format!("DELETE /projects/shop/envs/dev?force=true&uuid={UUID}"),
        };
        assert_eq!(what[1], destroyed, "{call}");
        format!("$ canyon {call}\n{said}")
    });
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn nothing_is_destroyed_without_yes() {
    for call in DESTROYING {
        for answer in ["y\n", END] {
            let server = destroying(&with_state(12), call);
            let said = terminal(call, &server).answer(answer).end();
            assert!(said.starts_with("exit: 1\n"), "{said}");
            assert!(said.ends_with("error: not confirmed; nothing was changed\n"), "{said}");
            assert_eq!(server.asked().len(), 1, "{call}");
        }
    }
}

#[test]
fn an_environment_that_is_misspelt_is_no_question() {
    let missing =
        value!({"error": "API-404", "message": "no environment `devv` in project `shop`"});
    let server = CannedServer::start([
        ("GET /projects/shop/envs/devv", json(404, &missing)),
        ("GET /projects/shop/envs", json(200, &value!({"items": [{"id": "dev"}]}))),
    ]);
    let said = terminal("deploy shop devv --destroy", &server).end();
    assert!(said.starts_with("exit: 4\n"), "{said}");
    assert!(said.ends_with("hint: did you mean `dev`?\n"), "{said}");
}

#[test]
fn what_is_not_known_of_a_state_is_said() {
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
    let said = environments.map(|environment| {
        let server = CannedServer::start([
            ("GET /projects/shop/envs/dev", json(200, &environment)),
            ("DELETE /projects/shop/envs/dev", done()),
        ]);
        elsewhere("delete environment shop dev --force --yes", &server)
    });
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_deletion_that_is_refused_or_not_done_yet_leaves_nothing_behind() {
    let used = value!({"error": "API-409", "message": "a deployment of it runs"});
    let deleting = value!({"id": "dev", "status": "deleting"});
    for (answer, exit) in [(json(409, &used), "exit: 4\n"), (json(202, &deleting), "exit: 0\n")] {
        let server = CannedServer::start([
            ("GET /projects/shop/envs/dev", json(200, &with_state(2))),
            ("DELETE /projects/shop/envs/dev", answer),
        ]);
        let said = elsewhere("delete environment shop dev --force --yes", &server);
        assert!(said.contains(exit) && !said.contains("left behind"), "{said}");
    }
}
