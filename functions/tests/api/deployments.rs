//! Deployments: created, refused, repeated, cancelled.

use crate::harness::{Answer, Api, faults, message};
use crate::job::{CODE, Job, deploy, environment, everything, furnished, order, request, stored};
use canyon_domain::deployment::Status;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const ABSENT: &str = "0190a0b0-89ab-7def-8123-456789abcdef";
const KEY: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

fn with(changes: &Value) -> Value {
    let mut body = order();
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

async fn post_with_key(api: &Api, key: &str, body: &Value) -> Answer {
    let request = request(api, &api.ours.admin, Method::POST, "/deployments");
    let answer = request.header("idempotency-key", key).json(body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_deployment_is_accepted_read_listed_and_awaited() {
    let api = furnished().await;
    let (status, made) = api.post("/deployments", order()).await;
    assert_eq!((status, &made["status"]), (201, &json!("queued")), "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/deployments/{id}");
    let shown = api.get(&path).await.1;
    assert_eq!(shown["waiting"]["reason"], "the launcher takes it next");
    assert_eq!(shown["waiting"]["code"], "launcher");
    for (query, count) in [
        ("", 1),
        ("?project_id=shop", 1),
        ("?project_id=shop&env_id=main", 1),
        ("?project_id=absent", 0),
        ("?project_id=shop&env_id=absent", 0),
    ] {
        let page = api.get(&format!("/deployments{query}")).await.1;
        assert_eq!(page["items"].as_array().map(Vec::len), Some(count), "{query}: {page}");
    }
    assert_eq!(faults(&api.get("/deployments?env_id=main").await), ["env_id"]);

    let wait = format!("{path}/actions/wait-for-complete?timeout_in_seconds=");
    assert_eq!(faults(&api.get(&format!("{wait}1")).await), ["timeout_in_seconds"]);
    assert_eq!(api.get(&format!("{wait}2")).await.0, 408);
    let job = Job::of(&api, id).await;
    let (wait, ended) = (format!("{wait}25"), Duration::from_secs(20));
    let (waited, ()) = tokio::join!(tokio::time::timeout(ended, api.get(&wait)), job.succeed(&api));
    let (status, waited) = waited.unwrap();
    assert_eq!((status, &waited["status"]), (200, &json!("succeeded")));
    assert_eq!(waited["attempts"][0]["status"], "succeeded");
    let cancelled = api.act(&format!("{path}/actions/cancel")).await;
    assert!(cancelled.0 == 409 && message(&cancelled).contains("succeeded"), "{cancelled:?}");
}

#[tokio::test]
async fn what_cannot_be_deployed_is_refused_with_its_field_and_leaves_nothing() {
    let api = furnished().await;
    let code = |changes: Value| {
        let mut module = json!({ "source": "inline", "source_code": CODE });
        module.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({ "module": module })
    };
    let on_state = |command: Value| json!({ "mode": "state", "state_command": command });
    let rollback =
        |to: Value| json!({ "mode": "rollback", "module": null, "rollback_to_deployment_id": to });
    let cases = [
        (json!({ "project_id": "../x" }), "project_id"),
        (json!({ "mode": "unknown" }), "mode"),
        (json!({ "module": null }), "module"),
        (json!({ "module": { "source": "inline" } }), "module.source_code"),
        (json!({ "module": { "source_code": CODE } }), "module.source"),
        (code(json!({ "version": "1" })), "module.version"),
        (code(json!({ "source_code": "#".repeat(129 * 1024) })), "module.source_code"),
        (code(json!({ "inputs": { "-chdir=/": 1 } })), "module.inputs[\"-chdir=/\"]"),
        (code(json!({ "source": "git::https://h/r.git" })), "module.source_code"),
        (json!({ "encrypted_outputs_recipient": "age1x" }), "encrypted_outputs_recipient"),
        (json!({ "encrypted_logs_recipient": "ssh-rsa x" }), "encrypted_logs_recipient"),
        (json!({ "encrypted_logs_recipient": format!("{KEY},") }), "encrypted_logs_recipient"),
        (json!({ "encrypted_logs_recipient": ([KEY; 11].join(",")) }), "encrypted_logs_recipient"),
        (json!({ "manifest": { "workloads": { "web": {} } } }), "manifest"),
        (json!({ "mode": "plan_only", "plan_only": false }), "plan_only"),
        (json!({ "rollback_to_deployment_id": ABSENT }), "rollback_to_deployment_id"),
        (rollback(json!(null)), "rollback_to_deployment_id"),
        (rollback(json!(ABSENT)), "rollback_to_deployment_id"),
        (json!({ "mode": "rollback", "rollback_to_deployment_id": ABSENT }), "module"),
        (json!({ "mode": "state" }), "state_command"),
        (json!({ "state_command": { "command": "list" } }), "state_command"),
        (on_state(json!({ "command": "push" })), "state_command.command"),
        (on_state(json!({ "command": "show", "address": "-x" })), "state_command.address"),
        (
            on_state(json!({ "command": "list", "addresses": ["a.b", "c"] })),
            "state_command.addresses[1]",
        ),
        (on_state(json!({ "command": "rm", "addresses": [] })), "state_command.addresses"),
        (
            on_state(json!({ "command": "list", "addresses": vec!["a.b"; 51] })),
            "state_command.addresses",
        ),
        (on_state(json!({ "command": "show", "address": "a.b" })), "encrypted_outputs_recipient"),
        (on_state(json!({ "command": "pull" })), "encrypted_outputs_recipient"),
        (on_state(json!({ "command": "force_unlock", "lock_id": "-x" })), "state_command.lock_id"),
        (
            json!({ "mode": "state", "state_command": { "command": "list" }, "accept_state": true }),
            "accept_state",
        ),
    ];
    let sources = [
        "git::https://h/r.git?ref=--upload-pack=x",
        "git::https://h/../r.git",
        "git::http://h/r.git",
        "git::ext::sh -c x",
        "git::https://me:secret-word@h/r.git",
        "./here",
    ]
    .map(|source| (json!({ "module": { "source": source } }), "module.source"));
    let before = everything(&api).await;
    for (changes, field) in cases.into_iter().chain(sources) {
        let refused = api.post("/deployments", with(&changes)).await;
        let shown = changes.to_string().chars().take(200).collect::<String>();
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{shown}: {}", refused.1);
        assert!(!refused.1.to_string().contains("secret-word"), "{}", refused.1);
    }
    for field in ["project_id", "env_id"] {
        let refused = api.post("/deployments", with(&json!({ field: "absent" }))).await;
        assert_eq!((refused.0, faults(&refused)), (409, vec![field]), "as published: {refused:?}");
    }
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let refused = api.post("/deployments", destroy).await;
    assert!(refused.0 == 409 && message(&refused).contains("nothing"), "{refused:?}");
    let viewer = api.call_as(&api.ours.viewer, Method::POST, "/deployments", Some(&order())).await;
    assert_eq!(viewer.0, 403);
    assert_eq!(post_with_key(&api, " ", &order()).await.0, 400);
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn only_a_local_runner_reads_a_repository_on_its_own_machine() {
    let api = furnished().await;
    let mut runner = crate::harness::local_runner("cluster");
    runner["runner_configuration"] = json!({
        "type": "kubernetes",
        "cluster": {
            "cluster_data": {
                "server": "https://cluster.example:6443", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
            },
            "auth": { "service_account_token": "secret" },
        },
        "job": { "namespace": "canyon", "service_account": "canyon" },
    });
    runner["state_storage_configuration"] = json!({ "type": "kubernetes", "namespace": "canyon" });
    api.make("/runners", runner).await;
    let local =
        with(&json!({ "module": { "source": "git::file:///srv/r.git" }, "is_dry_run": true }));
    assert_eq!(api.post("/deployments", local.clone()).await.0, 200);
    api.make("/runner-rules", json!({ "runner_id": "cluster", "project_id": "shop" })).await;
    assert_eq!(api.act("/projects/shop/envs/main/actions/refresh_runner").await.0, 200);
    let refused = api.post("/deployments", local).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["module.source"]));
}

#[tokio::test]
async fn a_dry_run_answers_as_a_deployment_would_and_writes_nothing() {
    let api = furnished().await;
    let before = everything(&api).await;
    let (status, answer) = api.post("/deployments", with(&json!({ "is_dry_run": true }))).await;
    assert_eq!((status, &answer["runner_id"]), (200, &json!("shared")));
    let refused =
        api.post("/deployments", with(&json!({ "is_dry_run": true, "env_id": "absent" }))).await;
    assert_eq!((refused.0, faults(&refused)), (409, vec!["env_id"]));
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_rollback_and_a_destroy_take_the_module_of_what_was_deployed() {
    let api = furnished().await;
    let first = Job::start(&api).await;
    let rollback = json!({
        "project_id": "shop", "env_id": "main", "mode": "rollback",
        "rollback_to_deployment_id": first.id,
    });
    let early = api.post("/deployments", rollback.clone()).await;
    assert_eq!(faults(&early), ["rollback_to_deployment_id"], "it has not succeeded yet");
    first.succeed(&api).await;
    let plan = api.make("/deployments", with(&json!({ "plan_only": true }))).await;
    let plan = Job::of(&api, plan["id"].as_str().unwrap().to_owned()).await;
    plan.succeed(&api).await;
    let mut of_plan = rollback.clone();
    of_plan["rollback_to_deployment_id"] = json!(plan.id);
    let refused = api.post("/deployments", of_plan).await;
    assert_eq!(faults(&refused), ["rollback_to_deployment_id"], "it has applied nothing");
    for body in [rollback, json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" })] {
        let made = api.make("/deployments", body).await;
        let id = made["id"].as_str().unwrap().parse().unwrap();
        let bundle = api.app.table.bundle(api.ours.uuid, id).await.unwrap().unwrap();
        assert_eq!(bundle.module.source_code.as_deref(), Some(CODE), "{made}");
    }
}

#[tokio::test]
async fn the_same_idempotency_key_finds_the_same_deployment_for_a_day() {
    let api = furnished().await;
    let (status, first) = post_with_key(&api, "k1", &order()).await;
    assert_eq!(status, 201, "{first}");
    let before = everything(&api).await;
    let same = async |why: &str| {
        let (status, again) = post_with_key(&api, "k1", &order()).await;
        assert_eq!((status, &again["id"]), (201, &first["id"]), "{why}");
    };
    same("at once").await;
    let other = with(&json!({ "plan_only": true }));
    let refused = post_with_key(&api, "k1", &other).await;
    assert!(refused.0 == 409 && message(&refused).contains("new key"), "{refused:?}");
    assert_eq!(everything(&api).await, before);

    let mut many = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let request = request(&api, &api.ours.admin, Method::POST, "/deployments");
        let request = request.header("idempotency-key", "k2").json(&other);
        many.spawn(async move { request.send().await.unwrap().json::<Value>().await.unwrap() });
    }
    let mut ids = Vec::new();
    while let Some(answer) = many.join_next().await {
        ids.push(answer.unwrap()["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "all at once: {ids:?}");

    let cancel = async |id: &Value| {
        let path = format!("/deployments/{}/actions/cancel", id.as_str().unwrap());
        assert_eq!(api.act(&path).await.0, 202);
    };
    cancel(&ids[0]).await;
    cancel(&first["id"]).await;
    assert_eq!(api.delete("/projects/shop/envs/main").await.0, 204);
    same("its environment is gone").await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api.clock.advance(Duration::from_hours(24));
    let (status, new) = post_with_key(&api, "k1", &order()).await;
    assert_eq!(status, 201, "{new}");
    assert_ne!(new["id"], first["id"], "after a day the key is free");
}

#[tokio::test]
async fn a_full_queue_refuses_all_but_a_repeated_request() {
    let api = furnished().await;
    let (_, first) = post_with_key(&api, "first", &order()).await;
    for _ in 1..100 {
        deploy(&api).await;
    }
    let before = environment(&api).await;
    for body in [order(), with(&json!({ "is_dry_run": true }))] {
        let refused = api.post("/deployments", body).await;
        assert!(refused.0 == 409 && message(&refused).contains("100 deployments"), "{refused:?}");
    }
    assert_eq!(post_with_key(&api, "first", &order()).await.1["id"], first["id"]);
    assert_eq!(environment(&api).await, before);
}

#[tokio::test]
async fn a_deployment_of_another_organization_is_answered_like_an_absent_one() {
    let api = furnished().await;
    let id = deploy(&api).await;
    let before = everything(&api).await;
    let theirs = async |method: Method, id: &str, rest: &str| {
        let path = format!("/orgs/their-org/deployments/{id}{rest}");
        api.send(method, &path, Some(&api.theirs.admin), None).await
    };
    for (method, rest) in [
        (Method::GET, ""),
        (Method::GET, "/actions/wait-for-complete?timeout_in_seconds=2"),
        (Method::POST, "/actions/cancel"),
        (Method::GET, "/logs"),
        (Method::GET, "/actions/get-logs"),
        (Method::GET, "/outputs"),
        (Method::GET, "/encrypted-outputs"),
        (Method::GET, "/orphans"),
    ] {
        let there = theirs(method.clone(), &id, rest).await;
        let absent = theirs(method, ABSENT, rest).await;
        assert_eq!((there.0, absent.0), (404, 404), "{rest}");
        assert_eq!(there.1.to_string(), absent.1.to_string().replace(ABSENT, &id), "{rest}");
    }
    assert_eq!(theirs(Method::GET, "..%2Fx", "").await.0, 404);
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_waiting_deployment_is_cancelled_at_once_and_the_next_one_moves_up() {
    let api = furnished().await;
    let [first, second, third] = [deploy(&api).await, deploy(&api).await, deploy(&api).await];
    let waiting = api.get(&format!("/deployments/{third}")).await.1["waiting"].clone();
    assert_eq!(waiting["blocked_by"], json!(second), "{waiting}");
    assert_eq!(waiting["code"], "earlier_deployment", "{waiting}");
    let cancel = async |id: &str| {
        let (status, answer) = api.act(&format!("/deployments/{id}/actions/cancel")).await;
        assert_eq!((status, &answer["status"]), (202, &json!("cancelled")), "{answer}");
    };
    cancel(&second).await;
    cancel(&second).await;
    let waiting = api.get(&format!("/deployments/{third}")).await.1["waiting"].clone();
    assert_eq!(waiting["blocked_by"], json!(first), "{waiting}");
    cancel(&first).await;
    let next = stored(&api, &third).await;
    assert_eq!(next.status, Status::Queued);
    assert!(next.due_at.unwrap() <= api.app.now(), "its turn makes it due");
    assert_eq!(environment(&api).await.queue.waiting, [next.id]);
    let cancels = api.audit().await.into_iter().filter(|r| r.starts_with("deployment.cancel"));
    assert_eq!(cancels.count(), 2, "a repeated cancel leaves no record");
}

#[tokio::test]
async fn a_deployment_has_the_priority_that_was_asked_for() {
    let api = furnished().await;
    for (asked, rank) in [(json!("background"), -1), (json!(null), 0), (json!("high"), 1)] {
        let (status, made) = api.post("/deployments", with(&json!({ "priority": asked }))).await;
        assert_eq!(status, 201, "{made}");
        let id = made["id"].as_str().unwrap().parse().unwrap();
        let kept = api.app.table.deployment(api.ours.uuid, id).await.unwrap().unwrap();
        assert_eq!(kept.priority.rank(), rank, "{asked}");
    }
    let refused = api.post("/deployments", with(&json!({ "priority": "urgent" }))).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["priority"]));
}
