//! A deployment to a project or an environment that does not exist, or that the caller does not see.

use crate::canned_server::{CannedServer, json};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};

/// What `canyon` prints for a deployment that the API refuses because of `field`, if the caller sees `ids`.
fn refused(call: &str, field: &str, list: &'static str, ids: &[&str]) -> String {
    let message = format!("there is no such {field}, or your token does not see it");
    let refusal = value!({
        "error": "API-409", "message": message,
        "details": {"fields": [{"path": field, "reason": message}]},
    });
    let items: Vec<Value> = ids.iter().map(|id| value!({"id": id})).collect();
    let server = CannedServer::start([
        ("POST /deployments", json(409, &refusal)),
        (list, json(200, &value!({"items": items}))),
    ]);
    let folder = tempfile::tempdir().unwrap();
    Invocation::new(folder.path(), &format!("{call} --module git::https://h/r --yes"))
        .at(&server)
        .run()
}

#[test]
fn the_name_that_the_caller_sees_and_probably_meant_is_suggested() {
    let project = refused("deploy shpo dev", "project_id", "GET /projects", &["shop", "blog"]);
    assert!(project.starts_with("exit: 9\n"), "{project}");
    assert!(project.ends_with("hint: did you mean `shop`?\n"), "{project}");
    let environments = "GET /projects/shop/envs";
    let environment = refused("plan shop dv", "env_id", environments, &["prod", "dev"]);
    assert!(environment.ends_with("hint: did you mean `dev`?\n"), "{environment}");
}

#[test]
fn a_list_for_a_name_that_does_not_exist_is_no_empty_list() {
    let nothing = || json(200, &value!({"items": []}));
    let projects = || json(200, &value!({"items": [{"id": "shop"}, {"id": "blog"}]}));
    let missing = json(404, &value!({"error": "API-404", "message": "there is no project `shpo`"}));
    for call in ["list deployments --project shpo", "status shpo"] {
        let server = CannedServer::start([
            ("GET /deployments", nothing()),
            ("GET /projects/shpo", missing.clone()),
            ("GET /projects", projects()),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let answer = Invocation::new(folder.path(), call).at(&server).run();
        assert!(answer.starts_with("exit: 7\n"), "{answer}");
        assert!(answer.ends_with("hint: did you mean `shop`?\n"), "{answer}");
    }
}

#[test]
fn without_a_similar_name_the_names_that_the_caller_sees_are_shown() {
    let project = refused("deploy billing dev", "project_id", "GET /projects", &["shop"]);
    assert!(project.ends_with("hint: your token sees `shop`\n"), "{project}");
    let many = ["a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "i9"];
    let project = refused("deploy billing dev", "project_id", "GET /projects", &many);
    let expected =
        "hint: your token sees `a1`, `b2`, `c3`, `d4`, `e5`, `f6`, `g7`, `h8`, and others\n";
    assert!(project.ends_with(expected), "{project}");
    let project = refused("deploy billing dev", "project_id", "GET /projects", &[]);
    assert!(!project.contains("hint"), "{project}");
}
