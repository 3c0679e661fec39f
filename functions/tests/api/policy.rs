//! Policies over plans: of environment types, in jobs, and what they say of a plan.

use crate::container_world::begin;
use crate::harness::{Api, faults, message};
use crate::job::{Job, environment, furnished, launch, order, stored};
use canyon_domain::policy::Policy;
use reqwest::Method;
use serde_json::{Value, json};

const TEXT: &str = "package canyon\ndeny contains msg if {\n\tmsg := input.format_version\n}";

fn policy(text: &str) -> Value {
    json!({ "modules": { "plans.rego": text } })
}

async fn set(api: &Api, policy: &Value) -> Value {
    let changed = api.patch("/env-types/dev", json!({ "policy": policy })).await;
    assert_eq!(changed.0, 200, "{changed:?}");
    changed.1
}

fn digest(text: &str, timeout_seconds: u32) -> String {
    let modules = [("plans.rego".to_owned(), text.to_owned())].into();
    Policy { modules, timeout_seconds }.digest().to_string()
}

#[tokio::test]
async fn a_policy_of_a_type_reaches_each_environment_as_its_digest_and_each_job_whole() {
    let api = furnished().await;
    let (_, before) = begin(&api, order()).await;
    assert_eq!(before["policy"], Value::Null, "{before}");
    let shown = set(&api, &policy(TEXT)).await;
    assert_eq!(shown["policy"]["modules"]["plans.rego"], TEXT);
    assert_eq!(shown["policy"]["timeout_seconds"], 10);
    assert_eq!(shown["policy_digest"], digest(TEXT, 10));
    assert_eq!(api.get("/env-types/dev").await.1, shown);
    let listed = api.get("/env-types").await.1;
    let listed = &listed["items"][0];
    assert_eq!(
        (&listed["policy"], &listed["policy_digest"]),
        (&Value::Null, &shown["policy_digest"])
    );
    api.make("/projects/shop/envs", json!({ "id": "later", "env_type_id": "dev" })).await;
    for env in ["main", "later"] {
        let shown = api.get(&format!("/projects/shop/envs/{env}")).await.1;
        assert_eq!(shown["type_policy"], digest(TEXT, 10), "{shown}");
    }
    let audit = api.get("/audit-records?per_page=100").await.1.to_string();
    assert!(audit.contains(&digest(TEXT, 10)) && !audit.contains("format_version"), "{audit}");
    let made = api.make("/env-types", json!({ "id": "prod", "policy": policy(TEXT) })).await;
    assert_eq!(made["policy_digest"], digest(TEXT, 10));
}

#[tokio::test]
async fn the_job_has_the_policy_of_now_and_its_result_is_shown() {
    let api = furnished().await;
    set(&api, &policy(TEXT)).await;
    let (job, of_job) = begin(&api, order()).await;
    assert_eq!(of_job["policy"]["modules"]["plans.rego"], TEXT);
    assert_eq!(
        (&of_job["policy"]["digest"], &of_job["policy"]["timeout_seconds"]),
        (&json!(digest(TEXT, 10)), &json!(10))
    );
    let messages: Vec<_> = (0..60).map(|n| format!("{n} {}", "x".repeat(600))).collect();
    let report = json!({
        "digest": digest(TEXT, 10), "denied": ["no database is deleted"], "warnings": messages, "num_denied": 1, "num_warnings": 60,
    });
    let failure = json!({ "class": "user", "message": "POLICY_DENIED: no database is deleted. Nothing was changed" });
    let result =
        json!({ "status": "failure", "phase": "plan", "failure": failure, "policy": report });
    assert_eq!(job.result(&api, result.clone()).await.0, 204);
    assert_eq!(job.result(&api, result).await.0, 204, "repeated");
    let path = format!("/deployments/{}", job.id);
    let shown = api.get(&path).await.1;
    assert_eq!(
        (&shown["status"], &shown["policy"]["digest"]),
        (&json!("failed"), &json!(digest(TEXT, 10)))
    );
    assert_eq!(shown["policy"]["denied"], json!(["no database is deleted"]));
    let warnings = shown["policy"]["warnings"].as_array().unwrap();
    assert_eq!((warnings.len(), &shown["policy"]["num_warnings"]), (50, &json!(60)));
    assert!(warnings.iter().all(|text| text.as_str().unwrap().len() <= 510), "shortened");
    // The record, which lists read, has the first ones alone.
    let recorded = stored(&api, &job.id).await.policy.unwrap();
    assert!(recorded.findings.warnings.len() < 10 && recorded.findings.denied.len() == 1);
    // The policy of now counts, also for a deployment that was accepted before.
    let id = crate::job::deploy(&api).await;
    set(&api, &json!({ "modules": { "plans.rego": TEXT }, "timeout_seconds": 20 })).await;
    let code = launch(&api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body =
        json!({ "claimant": "claimant-of-the-test", "job_format": canyon_domain::job::FORMAT });
    let claimed = api.call_as(&code, Method::POST, &path, Some(&body)).await.1;
    assert_eq!(claimed["job"]["policy"]["digest"], digest(TEXT, 20), "{claimed}");
    let job = Job { id, number: 1, token: claimed["token"].as_str().unwrap().to_owned() };
    assert_eq!(job.result(&api, json!({ "status": "success", "phase": "apply" })).await.0, 204);
    set(&api, &Value::Null).await;
    assert_eq!(api.get("/env-types/dev").await.1["policy"], Value::Null);
    assert!(environment(&api).await.type_policy.is_none());
    assert_eq!(begin(&api, order()).await.1["policy"], Value::Null);
}

#[tokio::test]
async fn a_runner_that_would_not_judge_gets_no_job() {
    let api = furnished().await;
    set(&api, &policy(TEXT)).await;
    let id = crate::job::deploy(&api).await;
    let code = launch(&api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 15 });
    let refused = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert!(refused.0 == 409 && message(&refused).contains("format 16"), "{refused:?}");
    // A command on the state has no plan to judge.
    let mut state = order();
    state["mode"] = "state".into();
    state["state_command"] = json!({ "command": "list" });
    assert_eq!(begin(&api, state).await.1["policy"], Value::Null);
}

#[tokio::test]
async fn a_faulty_policy_is_refused_by_the_paths_of_its_faults_and_nothing_is_written() {
    let api = furnished().await;
    set(&api, &policy(TEXT)).await;
    let before = api.get("/env-types/dev").await.1;
    let modules = json!({
        "a.rego": "package canyon\ndeny contains msg if { msg := ",
        "b.rego": "package main\ndeny contains \"x\"",
        "C.rego": "package canyon",
        "d.rego": "package canyon\nwarn contains \"x\" if {\n\ty > 1\n}",
    });
    let faulty = json!({ "policy": { "modules": modules, "timeout_seconds": 61 } });
    let refused = api.patch("/env-types/dev", faulty.clone()).await;
    let expected = vec![
        "policy.timeout_seconds",
        "policy.modules[\"C.rego\"]",
        "policy.modules[\"a.rego\"]",
        "policy.modules[\"b.rego\"]",
    ];
    assert_eq!((refused.0, faults(&refused)), (400, expected));
    let text = refused.1.to_string();
    assert!(
        text.contains("line 2, column 28: expecting")
            && text.contains("line 1, column 9: its package"),
        "{text}"
    );
    let mut create = faulty;
    create["id"] = "new".into();
    assert_eq!(api.post("/env-types", create).await.0, 400);
    assert_eq!(api.get("/env-types/new").await.0, 404);
    for (policy, path) in [
        (policy("package canyon\ndeny contains nofunc(1)"), "policy.modules[\"plans.rego\"]"),
        (policy("package canyon\nallow := true"), "policy.modules"),
        (json!({ "modules": {} }), "policy.modules"),
        (policy(&"# long\n".repeat(10_000)), "policy.modules"),
    ] {
        let refused = api.patch("/env-types/dev", json!({ "policy": policy })).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![path]), "{refused:?}");
    }
    for policy in [
        json!({}),
        json!({ "modules": [] }),
        json!({ "modules": {}, "url": "x" }),
        json!({ "modules": { "a.rego": 1 } }),
    ] {
        let refused = api.patch("/env-types/dev", json!({ "policy": policy })).await;
        assert_eq!(refused.0, 400, "{policy}: {refused:?}");
    }
    assert_eq!(api.get("/env-types/dev").await.1, before);
}

#[tokio::test]
async fn only_an_administrator_of_the_organization_sets_a_policy() {
    let api = furnished().await;
    let body = json!({ "policy": policy(TEXT) });
    for token in [&api.ours.deployer, &api.ours.viewer] {
        assert_eq!(api.call_as(token, Method::PATCH, "/env-types/dev", Some(&body)).await.0, 403);
    }
    let foreign =
        api.call_as(&api.theirs.admin, Method::PATCH, "/env-types/dev", Some(&body)).await;
    assert!(matches!(foreign.0, 403 | 404), "{foreign:?}");
    assert_eq!(api.get("/env-types/dev").await.1["policy"], Value::Null);
    assert!(environment(&api).await.type_policy.is_none());
}
