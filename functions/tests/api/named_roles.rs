//! Named roles of a runner: which requests may have one, and how long an administrator enables a disabled one.

use crate::harness::{Answer, Api, message};
use crate::job::{Job, claim, launch, order, stored};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const ENABLE: &str = "/runners/shared/named-roles/break-glass/actions/enable";
const DISABLE: &str = "/runners/shared/named-roles/break-glass/actions/disable";

fn arn(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

/// An API whose runner has roles: `fix` for those with a reason, `live` for production, and `break-glass`, which is disabled.
async fn with_roles() -> Api {
    let api = crate::job::furnished().await;
    let identity = json!({
        "aws": { "role_arn": arn("all") },
        "job_roles": { "plan": { "aws_role_arn": arn("plan") } },
        "named_roles": {
            "fix": { "aws_role_arn": arn("fix"), "requires": ["reason"] },
            "live": { "aws_role_arn": arn("live"), "env_types": ["production"], "kinds": ["tofu"] },
            "break-glass": { "aws_role_arn": arn("rescue"), "enabled": false },
        },
    });
    set_identity(&api, &identity).await;
    api
}

async fn set_identity(api: &Api, identity: &Value) {
    let configuration = json!({ "type": "local", "job": { "identity": identity } });
    let changed = api.patch("/runners/shared", json!({ "runner_configuration": configuration }));
    let changed = changed.await;
    assert_eq!(changed.0, 200, "{changed:?}");
}

fn asking_for(role: &str, reason: Option<&str>) -> Value {
    let mut body = order();
    body["role"] = json!(role);
    body["reason"] = json!(reason);
    body
}

async fn deploy_as(api: &Api, role: &str, reason: Option<&str>) -> Answer {
    api.post("/deployments", asking_for(role, reason)).await
}

async fn token(api: &Api, job: &Job, phase: &str) -> Answer {
    let path = format!("/deployments/{}/attempts/{}/actions/issue-token", job.id, job.number);
    let body = json!({ "audience": "sts.amazonaws.com", "phase": phase });
    api.call_as(&job.token, Method::POST, &path, Some(&body)).await
}

fn claims(token: &Value) -> Value {
    use base64::Engine as _;
    let part = token["token"].as_str().unwrap().split('.').nth(1).unwrap();
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    serde_json::from_slice(&engine.decode(part).unwrap()).unwrap()
}

async fn details_of(api: &Api, action: &str) -> Vec<Value> {
    let (_, page) = api.get(&format!("/audit-records?action={action}")).await;
    let records = page["items"].as_array().unwrap();
    records.iter().map(|record| record["details"].clone()).collect()
}

#[tokio::test]
async fn a_run_has_the_role_that_its_request_asks_for_and_everyone_sees_why() {
    let api = with_roles().await;
    let (status, made) = deploy_as(&api, "fix", Some("incident 12")).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    for shown in [&made, &api.get(&format!("/deployments/{id}")).await.1] {
        assert_eq!((&shown["role"], &shown["reason"]), (&json!("fix"), &json!("incident 12")));
    }
    let expected = json!(["mode: deploy", "role: fix", "reason: incident 12"]);
    assert_eq!(details_of(&api, "deployment.create").await, [expected]);

    let code = launch(&api, &id).await;
    let (_, claimed) = claim(&api, &id, 1, &code, "claimant-number-one").await;
    // The same role in both phases, also for a program that knows no named roles.
    assert_eq!(claimed["job"]["identity"], json!({ "aws": { "role_arn": arn("fix") } }));
    let job = Job { id, number: 1, token: claimed["token"].as_str().unwrap().to_owned() };
    for phase in ["plan", "apply"] {
        job.report(&api, phase, json!([])).await;
        let says = claims(&token(&api, &job, phase).await.1);
        assert_eq!(says["role"], "fix");
        // A cloud that sees only the subject distinguishes it too.
        let subject =
            format!("org:our-org:project:shop:env_type:dev:env:main:phase:{phase}:role:fix");
        assert_eq!(says["sub"], json!(subject));
    }
    // Without its role in the definition, the run gets no further tokens.
    set_identity(&api, &json!({ "aws": { "role_arn": arn("all") } })).await;
    let refused = token(&api, &job, "apply").await;
    assert_eq!(refused.0, 403);
    assert!(message(&refused).contains("has no role `fix` any more"), "{refused:?}");
}

#[tokio::test]
async fn a_request_for_a_role_that_it_may_not_have_is_refused_and_nothing_is_written() {
    let api = with_roles().await;
    let disabled = "role `break-glass` is disabled; an administrator enables it for at most 8 hours with: canyon \
                    enable role RUNNER break-glass --reason TEXT";
    for (role, reason, status, text) in [
        ("fix", None, 400, "`reason` is required by role `fix`"),
        ("fix", Some(" "), 400, "`reason` must be a text of at most 300 bytes"),
        (
            "live",
            Some("why"),
            403,
            "role 'live' is not allowed for kind 'tofu' in environments of type 'dev'",
        ),
        ("break-glass", Some("why"), 403, disabled),
        (
            "root",
            None,
            400,
            "`role` is no role of runner `shared`; it has `break-glass`, `fix`, `live`",
        ),
        ("plan", None, 400, "`role`"),
        ("a:b", None, 400, "`role`"),
    ] {
        let refused = deploy_as(&api, role, reason).await;
        assert_eq!(refused.0, status, "{role}: {refused:?}");
        assert!(message(&refused).contains(text), "{role}: {refused:?}");
        let mut body = asking_for(role, reason);
        body["is_dry_run"] = json!(true);
        assert_eq!(api.post("/deployments", body).await.0, status, "{role}");
    }
    let mut alone = order();
    alone["reason"] = json!("why");
    let refused = api.post("/deployments", alone).await;
    assert_eq!(refused.0, 400);
    assert!(message(&refused).contains("`reason` needs `role`"), "{refused:?}");
    assert_eq!(api.get("/deployments").await.1["items"], json!([]));
}

#[tokio::test]
async fn an_enabled_role_disables_itself_and_a_run_that_has_it_goes_on() {
    let api = with_roles().await;
    let body = json!({ "reason": "incident 12", "expires_in_seconds": 60 });
    let (status, runner) = api.post(ENABLE, body).await;
    assert_eq!(status, 200, "{runner}");
    let enabled = &runner["enabled_roles"][0];
    assert_eq!(
        (&enabled["name"], &enabled["reason"]),
        (&json!("break-glass"), &json!("incident 12"))
    );
    assert_eq!(api.get("/runners/shared").await.1["enabled_roles"], runner["enabled_roles"]);

    let (status, running) = deploy_as(&api, "break-glass", None).await;
    assert_eq!(status, 201, "{running}");
    let id = running["id"].as_str().unwrap().to_owned();
    let job = Job::of(&api, id.clone()).await;
    job.report(&api, "plan", json!([])).await;
    api.clock.advance(Duration::from_secs(61));
    // It goes on.
    let (status, answer) = token(&api, &job, "plan").await;
    assert_eq!((status, &claims(&answer)["role"]), (200, &json!("break-glass")));
    // The next is refused, also another attempt of the same run.
    assert_eq!(deploy_as(&api, "break-glass", None).await.0, 403);
    assert_eq!(api.get("/runners/shared").await.1.get("enabled_roles"), None);
    crate::job::lose(&api, &id).await;
    let code = launch(&api, &id).await;
    let (status, refused) = claim(&api, &id, 2, &code, "claimant-number-two").await;
    assert_eq!(status, 409, "{refused}");
    let ended = stored(&api, &id).await;
    assert!(ended.message.contains("role `break-glass` is disabled"), "{}", ended.message);

    let enabled = details_of(&api, "runner.enable_role").await;
    assert_eq!(enabled[0][0], "role: break-glass");
    assert_eq!(enabled[0][1], "reason: incident 12");
    assert!(enabled[0][2].as_str().unwrap().starts_with("until: "), "{enabled:?}");
}

#[tokio::test]
async fn an_administrator_disables_a_role_before_its_time() {
    let api = with_roles().await;
    assert_eq!(api.post(ENABLE, json!({ "reason": "incident 12" })).await.0, 200);
    // The last request counts, for its reason and its end.
    let (_, again) = api.post(ENABLE, json!({ "reason": "incident 13" })).await;
    assert_eq!(again["enabled_roles"].as_array().unwrap().len(), 1);
    assert_eq!(again["enabled_roles"][0]["reason"], "incident 13");
    for _ in 0..2 {
        let (status, runner) = api.act(DISABLE).await;
        assert_eq!((status, runner.get("enabled_roles")), (200, None), "{runner}");
    }
    assert_eq!(details_of(&api, "runner.disable_role").await, [json!(["role: break-glass"])]);
    assert_eq!(deploy_as(&api, "break-glass", None).await.0, 403);
}

#[tokio::test]
async fn only_a_disabled_role_is_enabled_for_a_reason_and_at_most_8_hours() {
    let api = with_roles().await;
    let good = json!({ "reason": "incident 12" });
    for (path, body, status, text) in [
        (ENABLE, json!({ "reason": "" }), 400, "`reason`"),
        (ENABLE, json!({ "reason": "a", "expires_in_seconds": 28_801 }), 400, "at most 8 hours"),
        (ENABLE, json!({}), 400, "reason"),
        ("/runners/shared/named-roles/fix/actions/enable", good.clone(), 409, "is always enabled"),
        (
            "/runners/shared/named-roles/none/actions/enable",
            good.clone(),
            404,
            "it has `break-glass`, `fix`, `live`",
        ),
        (
            "/runners/none/named-roles/fix/actions/enable",
            good.clone(),
            404,
            "there is no runner `none`",
        ),
    ] {
        let refused = api.post(path, body).await;
        assert_eq!(refused.0, status, "{path}: {refused:?}");
        assert!(message(&refused).contains(text), "{path}: {refused:?}");
    }
    assert_eq!(details_of(&api, "runner.enable_role").await, [Value::Null; 0]);
}
