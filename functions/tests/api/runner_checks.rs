//! Checks of runners: requested, followed and answered; and the trust configuration.

use crate::agent_world::far;
use crate::harness::Api;
use canyon_domain::runner_check::{CheckStep, StepReport, StepResult};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn ecs() -> Value {
    json!({
        "id": "fargate",
        "runner_configuration": {
            "type": "serverless-ecs",
            "auth": { "role_arn": "arn:aws:iam::123456789012:role/canyon-launch" },
            "job": {
                "region": "eu-central-1", "cluster": "canyon", "subnets": ["subnet-0a1b2c3d"],
                "execution_role_arn": "arn:aws:iam::123456789012:role/canyon-execution",
            },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    })
}

#[tokio::test]
async fn a_check_is_asked_for_once_and_followed_to_its_end() {
    let api = Api::start().await;
    api.make("/runners", ecs()).await;
    let (status, asked) = api.act("/runners/fargate/actions/check").await;
    assert_eq!((status, &asked["status"]), (202, &json!("waiting")), "{asked}");
    let (_, again) = api.act("/runners/fargate/actions/check").await;
    assert_eq!(again["id"], asked["id"], "one check at a time");
    assert!(api.audit().await.contains(&"runner.check runners/fargate".to_owned()));

    // As a launcher does.
    let id = "fargate".parse().unwrap();
    let mut check = api.app.table.runner_check(api.ours.uuid, &id).await.unwrap().unwrap();
    assert!(check.begin(api.app.clock.now()));
    let found = |step, result| StepReport { step, result, message: "seen".to_owned() };
    check.record(found(CheckStep::Definition, StepResult::Ok));
    check.version += 1;
    api.app.table.save_check(api.ours.uuid, &check).await.unwrap();

    let path = format!("/runners/fargate/checks/{}", asked["id"].as_str().unwrap());
    let waiting = api.get(&format!("{path}?after_steps=0&wait_seconds=25")).await;
    assert_eq!(waiting.1["steps"][0]["step"], "definition");
    let next_steps = format!("{path}?after_steps=1&wait_seconds=25");
    let follower = api.get(&next_steps);
    let launcher = async {
        check.record(found(CheckStep::Exchange, StepResult::Failed));
        check.end(&[CheckStep::Cluster], "late", api.app.clock.now());
        check.version += 1;
        api.app.table.save_check(api.ours.uuid, &check).await.unwrap();
    };
    let ((status, done), ()) = tokio::join!(follower, launcher);
    assert_eq!((status, &done["status"], &done["succeeded"]), (200, &json!("done"), &json!(false)));
    let steps = done["steps"].as_array().unwrap();
    assert_eq!(
        steps[2],
        json!({ "step": "cluster", "result": "skipped", "message": "`exchange` failed" })
    );

    let (_, next) = api.act("/runners/fargate/actions/check").await;
    assert_ne!(next["id"], asked["id"], "the last one is done");
    assert_eq!(api.get(&path).await.0, 404, "another has taken its place");
}

#[tokio::test]
async fn a_check_that_no_launcher_answers_expires_and_makes_room() {
    let api = Api::start().await;
    api.make("/runners", ecs()).await;
    let (_, asked) = api.act("/runners/fargate/actions/check").await;
    api.clock.advance(Duration::from_secs(121));
    let path = format!("/runners/fargate/checks/{}", asked["id"].as_str().unwrap());
    let (_, expired) = api.get(&format!("{path}?wait_seconds=25")).await;
    assert_eq!(expired["status"], "expired");
    assert_eq!(expired["succeeded"], Value::Null);
    let (_, next) = api.act("/runners/fargate/actions/check").await;
    assert_ne!(next["id"], asked["id"]);
}

#[tokio::test]
async fn a_viewer_reads_without_requesting_and_another_organization_sees_nothing() {
    let api = Api::start().await;
    api.make("/runners", ecs()).await;
    let ask = "/runners/fargate/actions/check";
    assert_eq!(api.call_as(&api.ours.viewer, Method::POST, ask, None).await.0, 403);
    assert_eq!(api.call_as(&api.ours.deployer, Method::POST, ask, None).await.0, 202);
    let trust = "/runners/fargate/trust";
    assert_eq!(api.call_as(&api.ours.viewer, Method::GET, trust, None).await.0, 200);
    assert_eq!(api.call_as(&api.theirs.admin, Method::GET, trust, None).await.0, 404);
    assert_eq!(api.act("/runners/absent/actions/check").await.0, 404);
}

#[tokio::test]
async fn a_runner_that_agents_serve_is_checked_too_and_no_cloud_need_trust_it() {
    let api = Api::start().await;
    api.make("/runners", far("docker", json!({}))).await;
    assert_eq!(api.act("/runners/docker/actions/check").await.0, 202);
    let (_, trust) = api.get("/runners/docker/trust").await;
    assert_eq!(trust["documents"], json!([]));
}

#[tokio::test]
async fn the_trust_of_a_runner_names_its_issuer_and_this_life_of_it() {
    let api = Api::start().await;
    let first = api.make("/runners", ecs()).await;
    let (_, trust) = api.get("/runners/fargate/trust").await;
    let subject =
        |made: &Value| format!("org:{}:runner:{}", api.ours.uuid, made["uuid"].as_str().unwrap());
    assert_eq!(trust["issuer"], api.url);
    assert_eq!(trust["subject"], subject(&first));
    assert_eq!(trust["audience"], "sts.amazonaws.com");
    assert!(trust["documents"][1]["text"].as_str().unwrap().contains(&subject(&first)));
    api.delete("/runners/fargate").await;
    let second = api.make("/runners", ecs()).await;
    let (_, trust) = api.get("/runners/fargate/trust").await;
    assert_eq!(trust["subject"], subject(&second));
    assert_ne!(subject(&first), subject(&second));
}
