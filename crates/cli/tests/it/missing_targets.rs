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
    for call in ["list deployments --project shpo", "list approvals --project shpo", "status shpo"]
    {
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

/// What `canyon` prints if every read and change of a thing that `existing` does not list is answered by 404.
fn without(call: &str, existing: &[(&'static str, &[&str])]) -> String {
    let lists = existing.iter().map(|(list, ids)| {
        let items: Vec<Value> = ids.iter().map(|id| value!({"id": id})).collect();
        (*list, json(200, &value!({"items": items})))
    });
    let server = CannedServer::start(lists);
    let folder = tempfile::tempdir().unwrap();
    Invocation::new(folder.path(), call).at(&server).run()
}

#[test]
fn an_error_is_about_the_missing_project_and_not_about_an_environment_of_it() {
    for call in [
        "set variable --project shopp --env dev x=1",
        "get variable --project shopp --env dev x",
        "explain variables shopp dev",
        "get environment shopp dev",
        "delete environment shopp dev --yes",
    ] {
        let answer =
            without(call, &[("GET /projects", &["shop"]), ("GET /projects/shopp/envs", &[])]);
        assert!(answer.starts_with("exit: 7\n"), "{call}: {answer}");
        // The canned server names the path in its 404.
        assert!(answer.contains("error: no GET /projects/shopp\n"), "{call}: {answer}");
        assert!(answer.ends_with("hint: did you mean `shop`?\n"), "{call}: {answer}");
    }
    for call in [
        "logs shopp dev",
        "outputs shopp dev",
        "rollback shopp dev",
        "wait shopp dev",
        "cancel shopp dev",
    ] {
        let projects: (&str, &[&str]) = ("GET /projects", &["shop"]);
        let answer = without(call, &[projects, ("GET /deployments", &[])]);
        assert!(answer.contains("error: no GET /projects/shopp\n"), "{call}: {answer}");
        assert!(answer.ends_with("hint: did you mean `shop`?\n"), "{call}: {answer}");
    }
}

#[test]
fn every_misspelt_scope_is_answered_with_the_nearest_name() {
    let lists: &[(&str, &[&str])] = &[
        ("GET /projects", &["shop"]),
        ("GET /projects/shop", &[]),
        ("GET /projects/shop/envs", &["dev"]),
        ("GET /env-types", &["production"]),
        ("GET /runners", &["laptop"]),
        ("GET /secret-stores", &["team-vault"]),
        ("GET /git-credentials", &[]),
        ("GET /runner-rules", &[]),
        ("GET /variables", &[]),
        ("GET /variable-sets", &[]),
    ];
    for (call, nearest) in [
        ("set variable --project shop --env dv x=1", "dev"),
        ("set variable --environment-type producton x=1", "production"),
        ("set variable --runner laptp x=1", "laptop"),
        ("list variables --runner laptp", "laptop"),
        ("explain variables shop dve", "dev"),
        ("set git-credential --project shp https://github.com/acme --cloud-identity aws", "shop"),
        ("unset git-credential --project shp https://github.com/acme", "shop"),
        ("list runner-rules --project shopp", "shop"),
        ("list runner-rules --runner laptp", "laptop"),
        ("list runner-rules --environment-type producton", "production"),
        ("list variables --store team-valt", "team-vault"),
    ] {
        let answer = without(call, lists);
        assert!(answer.starts_with("exit: 7\n"), "{call}: {answer}");
        assert!(
            answer.ends_with(&format!("hint: did you mean `{nearest}`?\n")),
            "{call}: {answer}"
        );
    }
}

#[test]
fn a_misspelt_account_is_answered_with_the_nearest_one() {
    let lists: &[(&str, &[&str])] = &[("GET /resources/accounts", &["myAccount"])];
    for call in [
        "get account myAcount",
        "update account myAcount --set name=ours",
        "delete account myAcount",
    ] {
        let answer = without(call, lists);
        assert!(answer.starts_with("exit: 7\n"), "{call}: {answer}");
        assert!(answer.ends_with("hint: did you mean `myAccount`?\n"), "{call}: {answer}");
    }
}

#[test]
fn a_filter_may_name_a_group_of_projects() {
    let call = "list runner-rules --project payments";
    let answer =
        without(call, &[("GET /projects", &["payments/shop"]), ("GET /runner-rules", &[])]);
    assert!(answer.starts_with("exit: 0\n"), "{answer}");
}

#[test]
fn a_variable_that_the_scope_has_not_is_answered_with_the_one_that_is_meant() {
    let variable = value!({"value": "eu", "secret": false, "updated_at": "2026-01-01T00:00:00Z", "updated_by": "01970000-0000-7000-8000-000000000001"});
    let set = value!({"scope": "organization", "terraform": {"region": variable}, "environment": {"TF_LOG": variable}});
    for (call, hint) in [
        ("get variable regin", "did you mean `region`?"),
        ("unset variable regin", "did you mean `region`?"),
        (
            "get variable TF_LOG",
            "it has `TF_LOG` as environment variable: give `--kind environment`",
        ),
        ("get variable other", "list the variables: canyon list variables --organization"),
    ] {
        let server = CannedServer::start([("GET /variables", json(200, &set))]);
        let folder = tempfile::tempdir().unwrap();
        let answer = Invocation::new(folder.path(), call).at(&server).run();
        assert!(answer.ends_with(&format!("hint: {hint}\n")), "{call}: {answer}");
    }
}

#[test]
fn a_new_environment_of_a_misspelt_type_is_answered_with_the_nearest_type() {
    let reason =
        "names no environment type; create it: canyon create environment-type developement";
    let refusal = value!({
        "error": "API-400", "message": reason, "details": {"fields": [{"path": "env_type_id", "reason": reason}]},
    });
    let types = value!({"items": [{"id": "development"}]});
    let server = CannedServer::start([
        ("POST /projects/shop/envs", json(400, &refusal)),
        ("GET /env-types", json(200, &types)),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let call = "create environment shop dev --set=env_type_id=developement";
    let answer = Invocation::new(folder.path(), call).at(&server).run();
    assert!(answer.ends_with("hint: did you mean `development`?\n"), "{answer}");
}
