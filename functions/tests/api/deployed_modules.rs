//! What a deployment has run: its module at a commit, and its inputs without secrets.

use crate::harness::{Answer, Api, faults};
use crate::job::{Job, furnished, lose, order, stored};
use reqwest::Method;
use serde_json::{Value, json};

const BRANCH: &str = "git::https://git.example.com/net.git//eu?ref=main";
const COMMIT: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";
const KEY: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
const NEWER: &str = "fa1b2c3d4e5f60718293a4b5c6d7e8f901234567";

fn pinned() -> String {
    format!("git::https://git.example.com/net.git//eu?ref={COMMIT}")
}

fn of_module(module: &Value) -> Value {
    let mut body = order();
    body["module"] = module.clone();
    body
}

async fn start(api: &Api, body: Value) -> Job {
    let made = api.make("/deployments", body).await;
    Job::of(api, made["id"].as_str().unwrap().to_owned()).await
}

async fn report(api: &Api, job: &Job, phase: &str, fetched: &Value) -> Answer {
    let path = format!("/deployments/{}/attempts/{}/report", job.id, job.number);
    let body = json!({ "phase": phase, "fetched": fetched });
    api.call_as(&job.token, Method::POST, &path, Some(&body)).await
}

async fn module(api: &Api, id: &str) -> Value {
    let viewer = &api.ours.viewer;
    let path = format!("/deployments/{id}");
    api.call_as(viewer, Method::GET, &path, None).await.1["module"].clone()
}

#[tokio::test]
async fn a_deployment_shows_the_commit_that_it_ran_and_its_inputs_without_the_secret_ones() {
    let api = furnished().await;
    let inputs =
        json!({ "size": 12_345_678_901_234_567_890_u64, "password": "hunter2", "typo": "x" });
    let body = of_module(&json!({ "source": BRANCH, "inputs": inputs }));
    let job = start(&api, body.clone()).await;
    let names = json!(["password", "size", "typo"]);
    let before = json!({ "source": BRANCH, "hidden_inputs": names });
    assert_eq!(module(&api, &job.id).await, before, "no runner has reported");

    let fetched = json!({ "commit": COMMIT, "secret_inputs": ["password", "typo"] });
    assert_eq!(report(&api, &job, "apply", &fetched).await.0, 200);
    let shown = json!({
        "source": BRANCH, "commit": COMMIT, "inputs": { "size": 12_345_678_901_234_567_890_u64 },
        "hidden_inputs": ["password", "typo"],
    });
    assert_eq!(module(&api, &job.id).await, shown);
    job.succeed(&api).await;
    let (_, whole) = api.get(&format!("/deployments/{}", job.id)).await;
    assert_eq!((&whole["module"], &whole["attempts"][0]["commit"]), (&shown, &json!(COMMIT)));
    assert!(whole["duration_seconds"].is_u64(), "{whole}");
    let (_, page) = api.get("/deployments").await;
    assert_eq!(page["items"][0]["module"], Value::Null, "lists leave it out");

    let mut encrypted = body;
    encrypted["encrypted_logs_recipient"] = KEY.into();
    let job = start(&api, encrypted).await;
    assert_eq!(report(&api, &job, "apply", &fetched).await.0, 200);
    let shown = module(&api, &job.id).await;
    assert_eq!((&shown["hidden_inputs"], &shown["commit"]), (&names, &json!(COMMIT)));
}

#[tokio::test]
async fn an_attempt_that_follows_another_reports_its_own_commit() {
    let api = furnished().await;
    let job = start(&api, of_module(&json!({ "source": BRANCH }))).await;
    api.clock.advance(std::time::Duration::from_secs(20));
    assert_eq!(report(&api, &job, "plan", &json!({ "commit": COMMIT })).await.0, 200);
    lose(&api, &job.id).await;
    assert_eq!(module(&api, &job.id).await["commit"], COMMIT);
    let job = Job::of(&api, job.id).await;
    let result = json!({ "status": "failure", "fetched": { "commit": NEWER } });
    assert_eq!(job.result(&api, result).await.0, 204);
    let (_, whole) = api.get(&format!("/deployments/{}", job.id)).await;
    let commits = [0, 1].map(|attempt| whole["attempts"][attempt]["commit"].clone());
    assert_eq!(
        (commits, &whole["module"]["commit"]),
        ([COMMIT.into(), NEWER.into()], &NEWER.into())
    );
}

#[tokio::test]
async fn a_rollback_a_destroy_and_a_check_run_the_commit_that_was_deployed_and_not_a_newer_one() {
    let api = furnished().await;
    let inputs = json!({ "size": 3 });
    let first = start(&api, of_module(&json!({ "source": BRANCH, "inputs": inputs }))).await;
    assert_eq!(report(&api, &first, "apply", &json!({ "commit": COMMIT })).await.0, 200);
    first.succeed(&api).await;
    let (status, check) = api.act("/projects/shop/envs/main/drift/actions/check").await;
    assert_eq!(status, 201, "{check}");
    let id = check["id"].as_str().unwrap();
    assert_eq!(module(&api, id).await["source"], pinned());
    let bundle = api.app.table.bundle(api.ours.uuid, id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(bundle.module.inputs).unwrap(), inputs);
    let rollback = json!({
        "project_id": "shop", "env_id": "main", "mode": "rollback",
        "rollback_to_deployment_id": first.id,
    });
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    for body in [destroy, rollback] {
        let made = api.make("/deployments", body).await;
        assert_eq!(module(&api, made["id"].as_str().unwrap()).await["source"], pinned(), "{made}");
    }
}

#[tokio::test]
async fn a_rollback_and_a_destroy_of_an_encrypted_run_are_encrypted_to_its_keys_or_to_others() {
    const OTHER: &str = "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z";
    let api = furnished().await;
    let mut body = order();
    body["encrypted_logs_recipient"] = KEY.into();
    let first = start(&api, body).await;
    first.succeed(&api).await;
    let whole = json!({ "project_id": "shop", "env_id": "main" });
    for (mode, fields, recipient) in [
        ("destroy", json!({}), Some(KEY)),
        ("rollback", json!({ "rollback_to_deployment_id": first.id }), Some(KEY)),
        ("destroy", json!({ "encrypted_logs_recipient": OTHER }), Some(OTHER)),
        ("state", json!({ "state_command": { "command": "list" } }), None),
    ] {
        let mut body = whole.clone();
        body["mode"] = mode.into();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let id = api.make("/deployments", body).await["id"].as_str().unwrap().parse().unwrap();
        let bundle = api.app.table.bundle(api.ours.uuid, id).await.unwrap().unwrap();
        let recipients = (bundle.encrypted_logs_recipient, bundle.encrypted_outputs_recipient);
        assert_eq!(recipients, (recipient.map(str::to_owned), None), "{mode}");
    }
}

#[tokio::test]
async fn without_a_report_of_the_commit_a_rollback_takes_the_branch_as_before() {
    let api = furnished().await;
    let first = start(&api, of_module(&json!({ "source": BRANCH, "inputs": { "a": 1 } }))).await;
    first.succeed(&api).await;
    let shown = json!({ "source": BRANCH, "hidden_inputs": ["a"] });
    assert_eq!(module(&api, &first.id).await, shown);
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let made = api.make("/deployments", destroy).await;
    assert_eq!(module(&api, made["id"].as_str().unwrap()).await["source"], BRANCH);
}

#[tokio::test]
async fn a_report_of_what_is_no_commit_is_refused_and_one_of_many_names_hides_all_inputs() {
    let api = furnished().await;
    let job = start(&api, of_module(&json!({ "source": BRANCH, "inputs": { "a": 1 } }))).await;
    for commit in ["main", "", "0A1B2C3D4E5F60718293A4B5C6D7E8F901234567"] {
        let refused = report(&api, &job, "apply", &json!({ "commit": commit })).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["fetched.commit"]), "{commit}");
    }
    let many: Vec<_> = (0..21).map(|n| n.to_string()).collect();
    let fetched = json!({ "commit": COMMIT, "secret_inputs": many });
    assert_eq!(report(&api, &job, "apply", &fetched).await.0, 200);
    let kept = stored(&api, &job.id).await.attempts[0].fetched.clone().unwrap();
    assert_eq!((kept.commit.unwrap().as_str(), kept.secret_inputs), (COMMIT, None));
    assert_eq!(module(&api, &job.id).await["hidden_inputs"], json!(["a"]));
}
