use super::*;
use crate::json::Json;

const ID: &str = "00000000-0000-7000-8000-000000000001";

fn module(source: &str, code: Option<&str>, input: &str) -> Module {
    let inputs = Inputs::from([(input.to_owned(), Json::Null)]);
    Module { source: source.parse().unwrap(), source_code: code.map(str::to_owned), inputs }
}

#[test]
fn a_module_contains_its_text_exactly_when_it_is_inline() {
    let git = "git::https://git.example.com/a.git";
    assert_eq!(module("inline", Some(""), "a").check(), Ok(()));
    assert_eq!(module(git, None, "a").check(), Ok(()));
    assert_eq!(module("oci://h/a", None, "a").check(), Ok(()));
    assert_eq!(module("oci://h/a", Some(""), "a").check().unwrap_err().field, "source_code");
    assert_eq!(module("inline", None, "a").check().unwrap_err().field, "source_code");
    assert_eq!(module(git, Some(""), "a").check().unwrap_err().field, "source_code");
    let longest = "#".repeat(MAX_SOURCE_CODE);
    assert_eq!(module("inline", Some(&longest), "a").check(), Ok(()));
    let long = longest + "#";
    assert_eq!(module("inline", Some(&long), "a").check().unwrap_err().field, "source_code");
}

#[test]
fn a_job_that_uses_a_newer_feature_needs_a_program_that_has_it() {
    let job = |extra: Value| {
        let mut job = serde_json::json!({
            "deployment_id": ID, "attempt": 1, "fence": 1, "project_id": "shop", "env_id": "dev",
            "env_uuid": ID, "mode": "deploy", "plan_only": false,
            "bundle": { "module": { "source": "inline" } }, "backend": {}, "executable": "any",
            "stop_seconds": 30,
        });
        job.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value::<Job>(job).unwrap().required_format()
    };
    let state = |task: Value| job(serde_json::json!({ "state": task }));
    let expected = serde_json::json!({ "lineage": "a", "serial": 7, "resources": 3 });
    assert_eq!(job(serde_json::json!({})), 1);
    assert_eq!(state(serde_json::json!({ "expected": expected })), 1);
    assert_eq!(state(serde_json::json!({ "uncertain": true })), 2);
    assert_eq!(state(serde_json::json!({ "vacant": true })), 2);
    assert_eq!(state(serde_json::json!({ "accepted": true })), 2);
    let unwritten = serde_json::json!({ "uncertain": true, "unwritten": { "by": ID } });
    assert_eq!(state(unwritten), 3);
    let unfinished = |unsalvaged| {
        serde_json::json!({
            "uncertain": true, "unfinished": { "by": ID, "unsalvaged": unsalvaged },
        })
    };
    assert_eq!(state(unfinished(false)), 2);
    assert_eq!(state(unfinished(true)), 4);
    let variable = |from: &str| serde_json::json!({ "kind": "terraform", "name": "a", "value": "x", "from": from });
    assert_eq!(job(serde_json::json!({ "variables": [variable("organization")] })), 5);
    let variables = [variable("organization"), variable("runner:eu")];
    assert_eq!(job(serde_json::json!({ "variables": variables })), 9);
    let credential = |secret: Value| serde_json::json!({ "repositories": "https://h", "from": "organization", "secret": secret });
    let token = credential(serde_json::json!({ "type": "token", "username": "u", "token": "t" }));
    assert_eq!(job(serde_json::json!({ "git_credentials": [token] })), 6);
    let identity = credential(serde_json::json!({ "type": "cloud_identity", "cloud": "aws" }));
    assert_eq!(job(serde_json::json!({ "git_credentials": [token, identity] })), 10);
    let of_registry = serde_json::json!({ "module": { "source": "oci://h/a?tag=1" } });
    assert_eq!(job(serde_json::json!({ "bundle": of_registry })), 10);
    let container = serde_json::json!({
        "module": { "source": "inline" },
        "container": { "resource": "s3", "job": { "image": "a", "command": ["/x"] } },
    });
    assert_eq!(job(serde_json::json!({ "bundle": container })), 11);
    let mut checked = container.clone();
    checked["container"]["checks"] = serde_json::json!(true);
    assert_eq!(job(serde_json::json!({ "bundle": checked })), 13);
    let plan = serde_json::json!({ "bundle": container, "plan_only": true });
    assert_eq!(job(plan), 13, "an older program would change something");
    let apply = serde_json::json!({
        "do": "apply", "key": "07".repeat(32), "attempt": 1, "digest": "ab".repeat(32), "parts": 1, "summary": {},
    });
    assert_eq!(
        job(serde_json::json!({ "plan": apply })),
        14,
        "an older program would make its own"
    );
    let drift = job(serde_json::json!({ "mode": "drift", "plan_only": true }));
    assert_eq!(drift, 15, "an older program knows no such mode");
    let policy =
        serde_json::json!({ "digest": "ab".repeat(32), "modules": {}, "timeout_seconds": 1 });
    let judged = job(serde_json::json!({ "policy": policy, "plan_only": true }));
    assert_eq!(judged, FORMAT, "an older program would not judge");
    let keep = serde_json::json!({ "plan": { "do": "keep", "key": "07".repeat(32) } });
    assert_eq!(job(keep), 1, "an older program keeps no plan, and plans nevertheless");
    let mut with_secret = container;
    with_secret["container"]["job"]["secret_variables"] =
        serde_json::json!({ "A": { "sealed": true } });
    assert_eq!(job(serde_json::json!({ "bundle": with_secret })), 12);
    let stored = |from: &str| {
        serde_json::json!({
            "kind": "terraform", "name": "a", "from": from,
            "reference": { "store": "vault", "ref": "a#b" },
            "store": { "type": "vault", "url": "https://v", "role": "r" },
        })
    };
    assert_eq!(job(serde_json::json!({ "stored_variables": [stored("organization")] })), 7);
    assert_eq!(job(serde_json::json!({ "stored_variables": [stored("runner:eu")] })), 9);
    let command = serde_json::json!({ "command": "pull" });
    let module = serde_json::json!({ "source": "inline" });
    let bundle = serde_json::json!({ "module": module, "state_command": command });
    assert_eq!(job(serde_json::json!({ "mode": "state", "bundle": bundle })), 8);
    let bundle = |options| serde_json::json!({ "bundle": { "module": { "source": "inline" }, "options": options } });
    assert_eq!(job(bundle(serde_json::json!({ "targets": ["a.b"] }))), 6);
    assert_eq!(job(bundle(serde_json::json!({ "parallelism": 1 }))), 6);
    let former = serde_json::json!({ "place": "/old", "backend": {} });
    assert_eq!(state(serde_json::json!({ "move_from": former })), 2);
    assert_eq!(job(serde_json::json!({ "max_deletions": 0 })), 2);
}

#[test]
fn an_input_is_not_nested_deeper_than_json_parsers_accept() {
    let nested = |levels| (0..levels).fold(Json::Null, |inner, _| Json::Array(vec![inner]));
    let check = |levels| {
        let mut module = module("inline", Some(""), "a");
        module.inputs.insert("a".to_owned(), nested(levels));
        module.check()
    };
    assert_eq!(check(64), Ok(()));
    assert_eq!(check(65).unwrap_err().field, "inputs[\"a\"]");
}

#[test]
fn an_input_is_named_like_a_variable() {
    for name in ["", "1a", "a b", "a=b", "-chdir", "a\n", "../x"] {
        assert!(module("inline", Some(""), name).check().is_err(), "{name:?}");
    }
}
