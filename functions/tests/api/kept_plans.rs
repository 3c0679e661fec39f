//! Plans that Canyon keeps: the requests of runners, and of people.

use crate::container_world::begin;
use crate::harness::{Answer, Api, faults, message};
use crate::job::{Job, environment, furnished, launch, order, raw, request, stored};
use canyon_api::sealed_plan::seal;
use canyon_domain::plan_task::{PlanKey, PlanPiece};
use canyon_store::blob_keys::BlobKey;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

fn a_plan() -> Value {
    let mut body = order();
    body["plan_only"] = true.into();
    body
}

fn an_apply(of: &str) -> Value {
    json!({ "project_id": "shop", "env_id": "main", "mode": "apply", "plan_deployment_id": of })
}

fn page(name: &str) -> Vec<u8> {
    let resource = json!({
        "address": name, "type": "a", "name": "b", "action": "create", "attributes": [],
    });
    serde_json::to_vec(&json!({ "resources": [resource], "outputs": [] })).unwrap()
}

fn key_of(job: &Value) -> PlanKey {
    PlanKey::try_from(job["plan"]["key"].as_str().unwrap().to_owned()).unwrap()
}

async fn put(api: &Api, job: &Job, piece: &str, bytes: Vec<u8>) -> Answer {
    let path = format!("/orgs/our-org/deployments/{}/attempts/{}/plan/{piece}", job.id, job.number);
    api.send(Method::PUT, &path, Some(&job.token), Some(bytes)).await
}

fn result(pages: u32) -> Value {
    let summary = json!({ "add": 1, "change": 0, "replace": 0, "remove": 0, "import": 0, "move": 0, "forget": 0, "drift": 0 });
    json!({
        "status": "success",
        "plan": { "digest": "ab".repeat(32), "parts": 1, "pages": pages, "summary": summary },
    })
}

/// Plans as a runner does. Returns the deployment's id.
async fn planned(api: &Api) -> (Job, PlanKey) {
    let (job, of_job) = begin(api, a_plan()).await;
    assert_eq!(of_job["plan"]["do"], "keep", "{of_job}");
    let key = key_of(&of_job);
    for (number, name) in ["a.one", "a.two"].iter().enumerate() {
        let piece = PlanPiece::Changes(u32::try_from(number).unwrap());
        let sealed = seal(&key, 1, piece, page(name)).unwrap();
        assert_eq!(put(api, &job, &piece.to_string(), sealed).await.0, 204);
    }
    let sealed = seal(&key, 1, PlanPiece::File(0), b"the plan".to_vec()).unwrap();
    assert_eq!(put(api, &job, "file-0", sealed).await.0, 204);
    assert_eq!(job.result(api, result(2)).await.0, 204);
    (job, key)
}

#[tokio::test]
async fn a_kept_plan_is_read_page_by_page_and_by_no_other_organization() {
    let api = furnished().await;
    let (job, _) = planned(&api).await;
    let path = format!("/deployments/{}/plan", job.id);
    let read = async |page: u32| {
        api.call_as(&api.ours.viewer, Method::GET, &format!("{path}?page={page}"), None).await
    };
    let (status, first) = read(0).await;
    assert_eq!((status, &first["next"]), (200, &json!(1)), "{first}");
    assert_eq!(first["resources"][0]["address"], "a.one");
    assert_eq!((&first["summary"]["add"], &first["format"]), (&json!(1), &json!(1)));
    let (_, second) = read(1).await;
    assert_eq!(
        (&second["resources"][0]["address"], &second["next"]),
        (&json!("a.two"), &Value::Null)
    );
    assert_eq!(read(2).await.0, 404);
    let foreign = format!("/orgs/their-org/deployments/{}/plan", job.id);
    assert_eq!(api.send(Method::GET, &foreign, Some(&api.theirs.admin), None).await.0, 404);
    assert_eq!(api.get(&format!("{path}?pages=1")).await.0, 400);
    let shown = api.get(&format!("/deployments/{}", job.id)).await.1;
    assert_eq!(shown["plan"]["digest"], "ab".repeat(32));
    // A deployment that plans nothing has none, and says so.
    let other = Job::start(&api).await;
    let answer = api.get(&format!("/deployments/{}/plan", other.id)).await;
    assert!(answer.0 == 404 && message(&answer).contains("canyon plan"), "{answer:?}");
}

#[tokio::test]
async fn only_the_attempt_that_plans_stores_its_pieces_and_only_until_its_end() {
    let api = furnished().await;
    let deploying = Job::start(&api).await;
    assert_eq!(put(&api, &deploying, "file-0", b"x".to_vec()).await.0, 409, "it keeps no plan");
    deploying.result(&api, json!({ "status": "success" })).await;
    let (job, _) = begin(&api, a_plan()).await;
    for wrong in ["file-16", "changes-64", "file-00", "other-0"] {
        assert_eq!(put(&api, &job, wrong, b"x".to_vec()).await.0, 404, "{wrong}");
    }
    let large = vec![0; 4 * 1024 * 1024 + 1];
    assert_eq!(put(&api, &job, "file-0", large).await.0, 413);
    // A stored piece stays as it is: a request that the network repeats changes nothing.
    for bytes in [b"first", b"later"] {
        assert_eq!(put(&api, &job, "file-0", bytes.to_vec()).await.0, 204);
    }
    let key = BlobKey::plan(api.ours.uuid, job.deployment(), 1, PlanPiece::File(0));
    assert_eq!(api.app.blobs.get(&key).await.unwrap().unwrap(), &b"first"[..]);
    let stranger = Job {
        token: deploying.token.clone(),
        ..Job { id: job.id.clone(), number: 1, token: String::new() }
    };
    assert_eq!(put(&api, &stranger, "file-1", b"x".to_vec()).await.0, 404);
    let mut faulty = result(65);
    let answer = job.result(&api, faulty.clone()).await;
    assert_eq!((answer.0, faults(&answer)), (400, vec!["plan.pages"]));
    faulty["plan"]["pages"] = 1.into();
    faulty["plan"]["parts"] = 17.into();
    let answer = job.result(&api, faulty).await;
    assert_eq!((answer.0, faults(&answer)), (400, vec!["plan.parts"]));
    assert_eq!(job.result(&api, result(1)).await.0, 204);
    assert_eq!(put(&api, &job, "file-1", b"x".to_vec()).await.0, 409);
}

#[tokio::test]
async fn a_plan_that_was_changed_in_the_object_store_is_not_shown() {
    let api = furnished().await;
    let (job, _) = begin(&api, a_plan()).await;
    // Sealed with another key: so it is after any change.
    let sealed = seal(&PlanKey::new([9; 32]), 1, PlanPiece::Changes(0), page("a.one")).unwrap();
    assert_eq!(put(&api, &job, "changes-0", sealed).await.0, 204);
    job.result(&api, result(1)).await;
    let answer = api.get(&format!("/deployments/{}/plan", job.id)).await;
    assert!(answer.0 == 409 && message(&answer).contains("was changed"), "{answer:?}");
}

#[tokio::test]
async fn the_job_of_an_apply_gets_the_plan_and_its_key_and_no_other_job_does() {
    let api = furnished().await;
    let (planning, key) = planned(&api).await;
    let (job, of_job) = begin(&api, an_apply(&planning.id)).await;
    assert_eq!(of_job["plan"]["do"], "apply", "{of_job}");
    assert_eq!((key_of(&of_job), &of_job["plan"]["parts"]), (key, &json!(1)));
    assert_eq!(of_job["mode"], "deploy");
    let fetch = async |job: &Job, piece: &str| {
        let path = format!("/deployments/{}/attempts/{}/plan/{piece}", job.id, job.number);
        raw(request(&api, &job.token, Method::GET, &path)).await
    };
    let sealed = fetch(&job, "file-0").await;
    assert_eq!(sealed.status, 200);
    let opened =
        canyon_api::sealed_plan::open(&key_of(&of_job), 1, PlanPiece::File(0), sealed.body);
    assert_eq!(opened.unwrap(), b"the plan");
    assert_eq!(fetch(&job, "file-1").await.status, 404);
    assert_eq!(fetch(&planning, "file-0").await.status, 409, "its attempt is over");
    assert_eq!(put(&api, &job, "file-1", b"x".to_vec()).await.0, 409);
    job.result(&api, json!({ "status": "success" })).await;
    let other = Job::start(&api).await;
    assert_eq!(fetch(&other, "file-0").await.status, 409, "it applies no kept plan");
}

#[tokio::test]
async fn a_runner_that_would_make_a_plan_of_its_own_gets_none_to_apply() {
    let api = furnished().await;
    let (planning, _) = planned(&api).await;
    let made = api.make("/deployments", an_apply(&planning.id)).await;
    let id = made["id"].as_str().unwrap();
    let code = launch(&api, id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 13 });
    let refused = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert!(
        refused.0 == 409 && message(&refused).contains("older than this Canyon"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_plan_is_applied_for_seven_days() {
    let api = furnished().await;
    let (planning, _) = planned(&api).await;
    let expires =
        api.get(&format!("/deployments/{}", planning.id)).await.1["plan"]["expires_at"].clone();
    assert!(expires.is_string(), "{expires}");
    api.clock.advance(Duration::from_hours(7 * 24) + Duration::from_secs(1));
    let refused = api.post("/deployments", an_apply(&planning.id)).await;
    assert!(refused.0 == 409 && message(&refused).contains("older than 7 days"), "{refused:?}");
    assert!(environment(&api).await.queue.waiting.is_empty(), "nothing was written");
    assert!(stored(&api, &planning.id).await.plan.is_some(), "it can still be read");
}
