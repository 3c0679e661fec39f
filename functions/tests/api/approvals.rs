//! The approval of plans: rules of types and environments, and reviews by people.

use crate::container_world::{begin, begin_accepted};
use crate::harness::{Answer, Api, faults, message};
use crate::job::{Job, environment, furnished, order, stored};
use canyon_api::sealed_plan::seal;
use canyon_domain::plan_task::{PlanKey, PlanPiece};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// An API whose environment type has this rule.
pub(crate) async fn ruled(rule: Value) -> Api {
    let api = furnished().await;
    let changed = api.patch("/env-types/dev", json!({ "approval": rule })).await;
    assert_eq!(changed.0, 200, "{changed:?}");
    api
}

fn planned(remove: u32) -> Value {
    let summary = json!({ "add": 1, "change": 0, "replace": 0, "remove": remove, "import": 0, "move": 0, "forget": 0, "drift": 0 });
    let plan = json!({ "digest": DIGEST, "parts": 1, "pages": 0, "summary": summary });
    json!({ "status": "success", "phase": "plan", "plan": plan })
}

/// Deploys, and plans as the runner does. Returns the deployment's id.
pub(crate) async fn waiting(api: &Api) -> String {
    let (job, of_job) = begin(api, order()).await;
    assert_eq!(of_job["plan"]["do"], "review", "{of_job}");
    let key = PlanKey::try_from(of_job["plan"]["key"].as_str().unwrap().to_owned()).unwrap();
    let sealed = seal(&key, 1, PlanPiece::File(0), b"the plan".to_vec()).unwrap();
    let path = format!("/orgs/our-org/deployments/{}/attempts/1/plan/file-0", job.id);
    assert_eq!(api.send(Method::PUT, &path, Some(&job.token), Some(sealed)).await.0, 204);
    assert_eq!(job.result(api, planned(0)).await.0, 204);
    job.id
}

async fn review(api: &Api, token: &str, id: &str, action: &str, body: &Value) -> Answer {
    let path = format!("/deployments/{id}/actions/{action}");
    api.call_as(token, Method::POST, &path, Some(body)).await
}

pub(crate) async fn approve(api: &Api, token: &str, id: &str) -> Answer {
    review(api, token, id, "approve", &json!({ "plan_digest": DIGEST })).await
}

pub(crate) async fn token(api: &Api, role: &str) -> String {
    let made = api.make("/tokens", json!({ "role": role, "description": role })).await;
    made["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_rule_of_a_type_holds_in_its_environments_those_that_are_there_and_new_ones() {
    let api = ruled(json!({ "required": "changes", "count": 2 })).await;
    api.make("/projects/shop/envs", json!({ "id": "later", "env_type_id": "dev" })).await;
    for env in ["main", "later"] {
        let shown = api.get(&format!("/projects/shop/envs/{env}")).await.1;
        assert_eq!(shown["type_approval"]["count"], 2, "{shown}");
        assert_eq!(shown["type_approval"]["forbid_author"], true, "{shown}");
    }
    // One that asks for less is refused, whole and by field.
    let path = "/projects/shop/envs/main";
    let weaker = json!({ "approval": { "required": "destructive", "forbid_author": false } });
    let refused = api.patch(path, weaker).await;
    let expected = vec!["approval.required", "approval.count", "approval.forbid_author"];
    assert_eq!((refused.0, faults(&refused)), (400, expected));
    assert!(environment(&api).await.approval.is_none());
    let stricter = json!({ "approval": { "required": "always", "count": 3 } });
    assert_eq!(api.patch(path, stricter).await.0, 200);
    let removed = api.patch("/env-types/dev", json!({ "approval": null })).await;
    assert_eq!((removed.0, &removed.1["approval"]), (200, &Value::Null));
    let shown = api.get(path).await.1;
    assert_eq!((&shown["type_approval"], &shown["approval"]["count"]), (&Value::Null, &json!(3)));
    let audit = api.audit().await.join("\n");
    assert!(audit.contains("env_type.update"), "{audit}");
}

#[tokio::test]
async fn a_faulty_rule_is_refused_by_the_paths_of_its_faults() {
    let api = furnished().await;
    let rule = json!({
        "required": "always", "count": 0, "expires_seconds": 10,
        "approvers": { "roles": ["agent"], "subjects": [""] },
    });
    let refused = api.patch("/env-types/dev", json!({ "approval": rule })).await;
    let expected = vec![
        "approval.count",
        "approval.expires_seconds",
        "approval.approvers.subjects[0]",
        "approval.approvers.roles",
    ];
    assert_eq!((refused.0, faults(&refused)), (400, expected));
    for rule in [
        json!({ "required": "sometimes" }),
        json!({ "count": 1 }),
        json!({ "required": "always", "hold": "forever" }),
        json!({ "required": "always", "expires_seconds": 604_801 }),
        json!({ "required": "always", "approvers": { "groups": ["ops"] } }),
    ] {
        let refused = api.patch("/env-types/dev", json!({ "approval": rule })).await;
        assert_eq!(refused.0, 400, "{rule}: {refused:?}");
    }
    assert_eq!(api.get("/env-types/dev").await.1["approval"], Value::Null);
}

#[tokio::test]
async fn the_last_approval_hands_exactly_the_approved_plan_to_a_second_job() {
    let api = ruled(json!({ "required": "changes", "count": 2 })).await;
    let id = waiting(&api).await;
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(
        (&shown["status"], &shown["waiting"]["code"]),
        (&json!("running"), &json!("approval"))
    );
    assert_eq!(
        (&shown["approval"]["status"], &shown["approval"]["needed"]),
        (&json!("awaited"), &json!(2))
    );
    let (bob, eve) = (token(&api, "deployer").await, token(&api, "admin").await);
    let first = approve(&api, &bob, &id).await;
    assert_eq!((first.0, &first.1["approval"]["given"]), (200, &json!(1)), "{first:?}");
    let again = approve(&api, &bob, &id).await;
    assert!(again.0 == 409 && message(&again).contains("already"), "{again:?}");
    let last = approve(&api, &eve, &id).await;
    assert_eq!((last.0, &last.1["approval"]["status"]), (200, &json!("given")), "{last:?}");
    let late = approve(&api, &eve, &id).await;
    assert!(late.0 == 409 && message(&late).contains("waits for no approval"), "{late:?}");
    let (job, of_job) = begin_accepted(&api, &id).await;
    assert_eq!(
        (&of_job["plan"]["do"], &of_job["plan"]["digest"]),
        (&json!("apply"), &json!(DIGEST))
    );
    let path = format!("/deployments/{id}/attempts/2/plan/file-0");
    let sealed = crate::job::raw(crate::job::request(&api, &job.token, Method::GET, &path)).await;
    assert_eq!(sealed.status, 200);
    assert_eq!(job.result(&api, json!({ "status": "success", "phase": "apply" })).await.0, 204);
    let ended = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!((&ended["status"], &ended["plan"]["digest"]), (&json!("succeeded"), &json!(DIGEST)));
    let audit = api.audit().await.join("\n");
    assert_eq!(audit.matches("deployment.approve").count(), 2, "{audit}");
}

#[tokio::test]
async fn who_may_not_review_is_told_why_and_changes_nothing() {
    let api = ruled(json!({ "required": "always", "comment_required": true })).await;
    let id = waiting(&api).await;
    let before = stored(&api, &id).await;
    let bob = token(&api, "deployer").await;
    let said = json!({ "plan_digest": DIGEST, "comment": "good" });
    let other = json!({ "plan_digest": "cd".repeat(32), "comment": "good" });
    let faulty = json!({ "plan_digest": "x", "comment": "good" });
    let long = json!({ "plan_digest": DIGEST, "comment": "x".repeat(301) });
    // `order` was requested by the administrator.
    for (who, body, status, part) in [
        (&api.ours.admin, &said, 403, "who has requested"),
        (&api.ours.viewer, &said, 403, "not an approver"),
        (&bob, &other, 409, DIGEST),
        (&bob, &faulty, 400, "plan_digest"),
        (&bob, &json!({ "comment": "good" }), 400, "plan_digest"),
        (&bob, &long, 400, "comment"),
        (&bob, &json!({ "plan_digest": DIGEST }), 400, "comment"),
    ] {
        let refused = review(&api, who, &id, "approve", body).await;
        assert!(refused.0 == status && message(&refused).contains(part), "{part}: {refused:?}");
    }
    let path = format!("/orgs/their-org/deployments/{id}/actions/approve");
    let body = serde_json::to_vec(&said).unwrap();
    assert_eq!(api.send(Method::POST, &path, Some(&api.theirs.admin), Some(body)).await.0, 404);
    assert_eq!(review(&api, &api.ours.viewer, &id, "discard", &json!({})).await.0, 403);
    assert_eq!(stored(&api, &id).await, before);
    let rejected = review(&api, &bob, &id, "reject", &json!({ "comment": "no" })).await;
    assert_eq!((rejected.0, &rejected.1["status"]), (200, &json!("cancelled")));
    assert_eq!(rejected.1["status_message"], "its plan was rejected: no");
    assert_eq!(rejected.1["approval"]["status"], "not_given");
    assert!(environment(&api).await.queue.is_idle(), "the next deployment may start");
    assert_eq!(review(&api, &bob, &id, "reject", &json!({})).await.0, 409);
}

#[tokio::test]
async fn an_approval_expires_and_a_runner_that_would_not_wait_gets_no_job() {
    let api = ruled(json!({ "required": "changes", "expires_seconds": 300 })).await;
    let id = waiting(&api).await;
    api.clock.advance(Duration::from_mins(5));
    let bob = token(&api, "deployer").await;
    let late = approve(&api, &bob, &id).await;
    assert!(late.0 == 409 && message(&late).contains("expired"), "{late:?}");
    assert_eq!(review(&api, &bob, &id, "discard", &json!({})).await.0, 200);
    let made = api.make("/deployments", order()).await;
    let id = made["id"].as_str().unwrap();
    let code = crate::job::launch(&api, id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 13 });
    assert_eq!(api.call_as(&code, Method::POST, &path, Some(&body)).await.0, 409);
}

#[tokio::test]
async fn what_has_no_plan_to_review_waits_for_nobody() {
    let api = ruled(json!({ "required": "always" })).await;
    let mut plan = order();
    plan["plan_only"] = true.into();
    let (job, of_job) = begin(&api, plan).await;
    assert_eq!(of_job["plan"]["do"], "keep", "a plan alone changes nothing");
    assert_eq!(job.result(&api, planned(0)).await.0, 204);
    assert_eq!(api.get(&format!("/deployments/{}", job.id)).await.1["status"], "succeeded");
    // Its apply waits at once, without a job, for the approval of that plan.
    let apply = json!({ "project_id": "shop", "env_id": "main", "mode": "apply", "plan_deployment_id": job.id });
    let made = api.make("/deployments", apply).await;
    assert_eq!(
        (&made["status"], &made["approval"]["status"]),
        (&json!("queued"), &json!("awaited"))
    );
    let id = made["id"].as_str().unwrap();
    let bob = token(&api, "deployer").await;
    assert_eq!(approve(&api, &bob, id).await.0, 200);
    let (_, of_job) = begin_accepted(&api, id).await;
    assert_eq!(
        (&of_job["plan"]["do"], &of_job["plan"]["digest"]),
        (&json!("apply"), &json!(DIGEST))
    );
    let mut state = order();
    state["mode"] = "state".into();
    state["state_command"] = json!({ "command": "list" });
    let listed = api.make("/deployments", state).await;
    assert_eq!(listed["approval"], Value::Null);
}

#[tokio::test]
async fn a_plan_without_changes_succeeds_and_a_stale_one_is_planned_again() {
    let api = ruled(json!({ "required": "always" })).await;
    let (job, _) = begin(&api, order()).await;
    assert_eq!(job.result(&api, json!({ "status": "success", "phase": "plan" })).await.0, 204);
    assert_eq!(api.get(&format!("/deployments/{}", job.id)).await.1["status"], "succeeded");
    let id = waiting(&api).await;
    let bob = token(&api, "deployer").await;
    assert_eq!(approve(&api, &bob, &id).await.0, 200);
    let (job, _) = begin_accepted(&api, &id).await;
    let failure = json!({ "class": "user", "message": "STALE_PLAN: the state has changed" });
    let stale = json!({ "status": "failure", "phase": "apply", "untouched": true, "stale_plan": true, "failure": failure });
    assert_eq!(job.result(&api, stale.clone()).await.0, 204);
    // Its answer was lost, so the runner repeats it.
    assert_eq!(job.result(&api, stale).await.0, 204);
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(
        (&shown["status"], &shown["approval"]["status"]),
        (&json!("launching"), &json!("planning"))
    );
    assert_eq!(shown["approval"]["given"], 0);
    let again: (Job, Value) = begin_accepted(&api, &id).await;
    assert_eq!(again.1["plan"]["do"], "review");
}

#[tokio::test]
async fn a_plan_that_waits_without_the_turn_lets_others_run_and_comes_back_at_its_place() {
    let api = ruled(json!({ "required": "destructive", "hold": "release" })).await;
    let bob = token(&api, "deployer").await;
    let (job, _) = begin(&api, order()).await;
    let first = job.id.clone();
    let state = json!({ "lineage": "one", "serial": 3, "resources": 2 });
    let mut result = planned(1);
    result["state"] = state;
    assert_eq!(job.result(&api, result).await.0, 204);
    let waits = api.get(&format!("/deployments/{first}")).await.1;
    assert_eq!(waits["approval"]["status"], "awaited", "{waits}");
    assert_eq!(waits["approval"]["hold"], "release", "{waits}");
    let after = environment(&api).await;
    assert_eq!((after.queue.head(), after.queue.away.len()), (None, 1), "others may run");
    let refused = api.delete("/projects/shop/envs/main").await;
    assert!(refused.0 == 409 && message(&refused).contains("run or wait"), "{refused:?}");
    assert_eq!(after.module.applied, None, "it has applied nothing");

    // Another deployment runs to its end, and changes the state.
    let (second, _) = begin(&api, order()).await;
    let applied = json!({
        "status": "success", "phase": "apply",
        "state": { "lineage": "one", "serial": 8, "resources": 3 },
    });
    // A third one has the turn while the first one is approved.
    assert_eq!(second.result(&api, applied).await.0, 204);
    let (third, _) = begin(&api, order()).await;
    assert_eq!(approve(&api, &bob, &first).await.0, 200);
    let waits = api.get(&format!("/deployments/{first}")).await.1;
    assert_eq!(waits["waiting"]["code"], "earlier_deployment", "{waits}");
    assert_eq!(waits["waiting"]["blocked_by"], json!(third.id), "{waits}");
    assert_eq!(environment(&api).await.queue.waiting.len(), 1);
    assert_eq!(third.result(&api, json!({ "status": "success", "phase": "apply" })).await.0, 204);

    // It is given up.
    let cancelled = api.post(&format!("/deployments/{first}/actions/cancel"), json!({})).await;
    assert_eq!(cancelled.0, 202, "{cancelled:?}");
    let after = environment(&api).await;
    assert!(after.queue.is_idle(), "{:?}", after.queue);
    assert_eq!(after.module.applied, Some(third.deployment()), "the last one that has applied");
}

#[tokio::test]
async fn an_environment_chooses_by_itself_what_becomes_of_its_turn() {
    let api = ruled(json!({ "required": "always", "hold": "release" })).await;
    let own = json!({ "approval": { "required": "always", "hold": "turn" } });
    assert_eq!(api.patch("/projects/shop/envs/main", own).await.0, 200);
    let id = waiting(&api).await;
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(shown["approval"]["hold"], "turn", "{shown}");
    assert_eq!(environment(&api).await.queue.current.map(|id| id.to_string()), Some(id));
}

#[tokio::test]
async fn without_another_word_a_plan_that_waits_keeps_the_turn() {
    let api = ruled(json!({ "required": "always" })).await;
    let id = waiting(&api).await;
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(shown["approval"]["hold"], "turn", "{shown}");
    assert_eq!(shown["waiting"]["since"], shown["approval"]["since"], "{shown}");
    assert!(shown["approval"]["expires_at"].is_string(), "{shown}");
    let later = api.make("/deployments", order()).await;
    let shown = api.get(&format!("/deployments/{}", later["id"].as_str().unwrap())).await.1;
    assert_eq!(shown["waiting"]["code"], "earlier_deployment", "{shown}");
    assert_eq!(shown["waiting"]["blocked_by"], json!(id), "{shown}");
}
