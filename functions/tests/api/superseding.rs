//! A newer deployment of the same source replaces one that waits; a request may ask for an approval.

use crate::container_world::begin_accepted;
use crate::harness::{Api, faults};
use crate::job::{environment, furnished, order};
use serde_json::{Value, json};

fn with(more: &Value) -> Value {
    let mut body = order();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn accepted(api: &Api, more: &Value) -> Value {
    api.make("/deployments", with(more)).await
}

fn id_of(of: &Value) -> &str {
    of["id"].as_str().unwrap()
}

async fn status(api: &Api, of: &Value) -> (String, String) {
    let shown = api.get(&format!("/deployments/{}", id_of(of))).await.1;
    let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("status_message"))
}

#[tokio::test]
async fn a_newer_deployment_replaces_those_that_wait_and_were_requested_so_too() {
    let api = furnished().await;
    let queued = json!({ "supersede": "queued" });
    let running = accepted(&api, &queued).await;
    begin_accepted(&api, id_of(&running)).await;
    let other = accepted(&api, &json!({})).await;
    let waits = accepted(&api, &queued).await;
    let again = accepted(&api, &queued).await;
    let newest = accepted(&api, &queued).await;
    assert_eq!(status(&api, &running).await.0, "running", "it has begun");
    assert_eq!(status(&api, &other).await.0, "queued", "its requester did not ask for it");
    for (older, by) in [(&waits, &again), (&again, &newest)] {
        let (status, message) = status(&api, older).await;
        assert_eq!(status, "cancelled");
        assert!(message.contains(by["id"].as_str().unwrap()), "{message}");
    }
    assert_eq!(environment(&api).await.queue.waiting.len(), 2, "the other one, and the newest");
    let records = api.audit().await;
    let ends = records.iter().filter(|record| record.starts_with("deployment.cancelled "));
    assert_eq!(ends.count(), 2);
}

#[tokio::test]
async fn a_newer_deployment_replaces_one_whose_plan_waits_for_approval() {
    let api = furnished().await;
    let asked = json!({ "supersede": "queued", "approval": "required" });
    let older = accepted(&api, &asked).await;
    let (job, _) = begin_accepted(&api, id_of(&older)).await;
    let plan = json!({
        "digest": "ab".repeat(32), "parts": 1, "pages": 0,
        "summary": { "add": 1, "change": 0, "replace": 0, "remove": 0, "import": 0, "move": 0, "forget": 0, "drift": 0 },
    });
    let result = json!({ "status": "success", "phase": "plan", "plan": plan });
    assert_eq!(job.result(&api, result).await.0, 204);
    assert_eq!(status(&api, &older).await.0, "running", "its plan waits");
    let newer = accepted(&api, &asked).await;
    let (status, message) = status(&api, &older).await;
    assert_eq!(status, "cancelled");
    assert!(message.contains(id_of(&newer)), "{message}");
    assert_eq!(environment(&api).await.queue.head().unwrap().to_string(), id_of(&newer));
}

#[tokio::test]
async fn what_is_no_whole_deploy_replaces_nothing() {
    let api = furnished().await;
    for more in [
        json!({ "plan_only": true }),
        json!({ "mode": "destroy" }),
        json!({ "targets": ["terraform_data.a"] }),
    ] {
        let mut body = with(&more);
        body["supersede"] = json!("queued");
        let refused = api.post("/deployments", body).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["supersede"]), "{more}");
    }
    let unknown = api.post("/deployments", with(&json!({ "supersede": "running" }))).await;
    assert_eq!((unknown.0, faults(&unknown)), (400, vec!["supersede"]));
}

#[tokio::test]
async fn a_request_may_ask_for_an_approval_that_no_rule_asks_for() {
    let api = furnished().await;
    let asked = accepted(&api, &json!({ "approval": "required" })).await;
    let (_, job) = begin_accepted(&api, id_of(&asked)).await;
    assert_eq!(job["plan"]["do"], "review", "{job}");
    assert_eq!(job["plan"]["required"], "always", "{job}");
    for more in [json!({ "plan_only": true }), json!({ "mode": "state" })] {
        let mut body = with(&more);
        body["approval"] = json!("required");
        let refused = api.post("/deployments", body).await;
        assert!(refused.0 == 400 && faults(&refused).contains(&"approval"), "{refused:?}");
    }
    let less = api.post("/deployments", with(&json!({ "approval": "never" }))).await;
    assert_eq!((less.0, faults(&less)), (400, vec!["approval"]));
}
