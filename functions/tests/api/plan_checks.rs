//! External checks of plans: their rules, and the answers of services.

use crate::approvals::{approve, ruled, token, waiting};
use crate::container_world::begin_accepted;
use crate::harness::{Answer, Api, faults, message};
use crate::job::{environment, furnished, stored};
use canyon_identity::bearer::AttemptRef;
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::time::Duration;

const URL: &str = "https://checks.example.com/canyon";

fn check(id: &str, mandatory: bool) -> Value {
    json!({ "id": id, "url": URL, "mandatory": mandatory })
}

/// An API with a deployment whose plan waits for `count` people and these checks. Returns also the deployment's id.
async fn checked(count: u8, checks: &[Value]) -> (Api, String) {
    let rule = json!({ "required": "changes", "count": count, "checks": checks });
    let api = ruled(rule).await;
    let id = waiting(&api).await;
    (api, id)
}

/// The token that the launcher sends to the service of a check.
async fn token_of(api: &Api, id: &str, attempt: u32, check: &str) -> String {
    let key = api.app.master_keys.get().await.unwrap();
    let deployment = id.parse().unwrap();
    let of = AttemptRef { org: api.ours.uuid, deployment, number: attempt };
    key.check_token(of, &check.parse().unwrap()).expose_secret().to_owned()
}

async fn answer_as(api: &Api, token: &str, id: &str, check: &str, body: &Value) -> Answer {
    let path = format!("/deployments/{id}/checks/{check}");
    api.call_as(token, Method::PUT, &path, Some(body)).await
}

/// The service of a check answers about the first plan.
async fn answer(api: &Api, id: &str, check: &str, body: &Value) -> Answer {
    let token = token_of(api, id, 1, check).await;
    answer_as(api, &token, id, check, body).await
}

fn passed() -> Value {
    json!({ "status": "passed", "message": "0 findings", "url": "https://checks.example.com/7" })
}

#[tokio::test]
async fn the_last_of_approvals_and_checks_applies_the_plan() {
    let (api, id) = checked(1, &[check("security", true), check("cost", false)]).await;
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    let [security, cost] = shown["approval"]["checks"].as_array().unwrap().as_slice() else {
        panic!("{shown}");
    };
    assert_eq!(
        (&security["id"], &security["status"], &cost["mandatory"]),
        (&json!("security"), &json!("pending"), &json!(false))
    );
    assert!(security["deadline"].is_string(), "{security}");
    let reason = shown["waiting"]["reason"].as_str().unwrap();
    assert!(reason.contains("security: pending, cost: pending"), "{reason}");
    let running = answer(&api, &id, "security", &json!({ "status": "running" })).await;
    assert_eq!((running.0, &running.1["status"]), (200, &json!("running")), "{running:?}");
    let bob = token(&api, "deployer").await;
    let approved = approve(&api, &bob, &id).await;
    assert_eq!((approved.0, &approved.1["approval"]["status"]), (200, &json!("awaited")));
    let last = answer(&api, &id, "security", &passed()).await;
    assert_eq!(
        (last.0, &last.1["message"], &last.1["url"]),
        (200, &json!("0 findings"), &json!("https://checks.example.com/7"))
    );
    let (_, of_job) = begin_accepted(&api, &id).await;
    assert_eq!(of_job["plan"]["do"], "apply", "{of_job}");
    let audit = api.audit().await.join("\n");
    assert_eq!(audit.matches("deployment.check").count(), 1, "the final answer: {audit}");
}

#[tokio::test]
async fn only_the_token_of_this_check_of_this_plan_answers() {
    let (api, id) = checked(0, &[check("security", true), check("cost", true)]).await;
    let other = waiting_elsewhere();
    let before = stored(&api, &id).await;
    let of_cost = token_of(&api, &id, 1, "cost").await;
    let of_other = token_of(&api, other, 1, "security").await;
    let of_next_plan = token_of(&api, &id, 3, "security").await;
    let of_unknown = token_of(&api, &id, 1, "unknown").await;
    for (token, check, expected) in [
        (&of_cost, "security", 401),
        (&api.ours.admin, "security", 401),
        (&of_other, "security", 404),
        (&of_next_plan, "security", 409),
        (&of_unknown, "unknown", 404),
    ] {
        let refused = answer_as(&api, token, &id, check, &passed()).await;
        assert_eq!(refused.0, expected, "{check}: {refused:?}");
    }
    // Another organization's path, and no token at all.
    let own = token_of(&api, &id, 1, "security").await;
    let body = || Some(passed().to_string().into_bytes());
    let path = |org: &str| format!("/orgs/{org}/deployments/{id}/checks/security");
    assert_eq!(api.send(Method::PUT, &path("their-org"), Some(&own), body()).await.0, 404);
    assert_eq!(api.send(Method::PUT, &path("our-org"), None, body()).await.0, 401);
    // It opens nothing else.
    assert_eq!(api.call_as(&own, Method::GET, &format!("/deployments/{id}"), None).await.0, 401);
    assert_eq!(stored(&api, &id).await, before);
}

/// A deployment that does not exist.
fn waiting_elsewhere() -> &'static str {
    "01234567-89ab-7def-8123-456789abcdef"
}

#[tokio::test]
async fn a_faulty_answer_is_refused_by_the_paths_of_its_faults() {
    let (api, id) = checked(0, &[check("security", true)]).await;
    let of = |field: &str, value: Value| {
        let mut body = passed();
        body[field] = value;
        body
    };
    for (body, field) in [
        (of("status", "pending".into()), "status"),
        (of("status", "good".into()), "status"),
        (of("message", "x".repeat(501).into()), "message"),
        (of("message", "a\u{1b}[2J".into()), "message"),
        (of("message", "yes\u{202e}on".into()), "message"),
        (of("url", "http://checks.example.com".into()), "url"),
        (of("verdict", true.into()), "verdict"),
    ] {
        let refused = answer(&api, &id, "security", &body).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{refused:?}");
    }
    let large = of("message", "x".repeat(20_000).into());
    assert_eq!(answer(&api, &id, "security", &large).await.0, 413);
}

#[tokio::test]
async fn a_final_answer_stays_also_after_the_end() {
    let (api, id) = checked(1, &[check("security", true), check("cost", false)]).await;
    let failed = json!({ "status": "failed", "message": "too dear" });
    assert_eq!(answer(&api, &id, "cost", &failed).await.0, 200);
    assert_eq!(answer(&api, &id, "cost", &failed).await.0, 200, "the same again");
    let other = answer(&api, &id, "cost", &passed()).await;
    assert!(other.0 == 409 && message(&other).contains("final"), "{other:?}");
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(shown["approval"]["status"], "awaited", "an advisory check ends nothing");
    assert_eq!(answer(&api, &id, "security", &failed).await.0, 200);
    let ended = api.get(&format!("/deployments/{id}")).await.1;
    assert_eq!(
        (&ended["status"], &ended["status_message"]),
        (&json!("cancelled"), &json!("the check `security` of its plan has failed: too dear"))
    );
    assert!(environment(&api).await.queue.is_idle(), "the next deployment may start");
    assert_eq!(answer(&api, &id, "security", &failed).await.0, 200, "the same again");
    assert_eq!(answer(&api, &id, "security", &passed()).await.0, 409);
    let audit = api.audit().await.join("\n");
    assert_eq!(audit.matches("deployment.check").count(), 2, "{audit}");
}

#[tokio::test]
async fn an_answer_that_comes_too_late_or_after_a_discard_is_refused() {
    let (api, id) = checked(0, &[check("security", true)]).await;
    api.clock.advance(Duration::from_mins(5));
    let late = answer(&api, &id, "security", &passed()).await;
    assert!(late.0 == 409 && message(&late).contains("time"), "{late:?}");
    let discarded = api.act(&format!("/deployments/{id}/actions/discard")).await;
    assert_eq!(discarded.0, 200, "{discarded:?}");
    let after = answer(&api, &id, "security", &passed()).await;
    assert!(after.0 == 409 && message(&after).contains("cancelled"), "{after:?}");
}

#[tokio::test]
async fn a_stale_plan_is_checked_again_and_the_answer_about_the_earlier_one_is_refused() {
    let (api, id) = checked(0, &[check("security", true)]).await;
    assert_eq!(answer(&api, &id, "security", &passed()).await.0, 200);
    let (job, _) = begin_accepted(&api, &id).await;
    let failure = json!({ "class": "user", "message": "STALE_PLAN: the state has changed" });
    let stale = json!({ "status": "failure", "phase": "apply", "untouched": true, "stale_plan": true, "failure": failure });
    assert_eq!(job.result(&api, stale).await.0, 204);
    let shown = api.get(&format!("/deployments/{id}")).await.1;
    let check = &shown["approval"]["checks"][0];
    assert_eq!((&check["status"], &check["message"]), (&json!("pending"), &Value::Null));
    let earlier = answer(&api, &id, "security", &passed()).await;
    assert!(earlier.0 == 409 && message(&earlier).contains("earlier plan"), "{earlier:?}");
}

#[tokio::test]
async fn the_checks_of_a_rule_are_stored_and_each_fault_is_named_by_its_path() {
    let api = furnished().await;
    let set = async |path: &str, count: u8, checks: Value| {
        let rule = json!({ "required": "changes", "count": count, "checks": checks });
        api.patch(path, json!({ "approval": rule })).await
    };
    let of_type = "/env-types/dev";
    let wrong = json!([
        { "id": "security", "url": "http://checks.example.com", "timeout_seconds": 601 },
        { "id": "security", "url": "https://10.0.0.1" },
    ]);
    let refused = set(of_type, 0, wrong).await;
    let expected = vec![
        "approval.checks[1].id",
        "approval.checks[0].timeout_seconds",
        "approval.checks[0].url",
        "approval.checks[1].url",
    ];
    let mut found = faults(&refused);
    found.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!((refused.0, found), (400, sorted));
    for checks in [json!([]), json!([check("cost", false)])] {
        let refused = set(of_type, 0, checks).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["approval.count"]));
    }
    let made = set(of_type, 0, json!([{ "id": "security", "url": URL }])).await;
    let stored = &made.1["approval"]["checks"][0];
    assert_eq!(
        (made.0, &stored["mandatory"], &stored["timeout_seconds"]),
        (200, &json!(true), &json!(300))
    );
    let env = "/projects/shop/envs/main";
    let same = set(env, 1, json!([check("security", false)])).await;
    assert_eq!((same.0, faults(&same)), (400, vec!["approval.checks[0].id"]));
    assert_eq!(set(env, 1, json!([check("cost", false)])).await.0, 200);
}

#[tokio::test]
async fn services_of_canyons_own_machine_are_checked_by_a_laptop_alone() {
    for (is_laptop, expected) in [(true, 201), (false, 400)] {
        let api = Api::start_with(is_laptop).await;
        let checks = json!([{ "id": "security", "url": "http://127.0.0.1:8080/canyon" }]);
        let rule = json!({ "required": "changes", "checks": checks });
        let made = api.post("/env-types", json!({ "id": "dev", "approval": rule })).await;
        assert_eq!(made.0, expected, "{made:?}");
    }
}
