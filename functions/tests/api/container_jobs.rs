//! Container jobs, from the request to what readers see of them.

use crate::container_world::{
    IMAGE, begin, begin_accepted, order_for, order_without_job, resources, shown_environment,
    succeeds, with_engine, with_job_settings,
};
use crate::harness::{Api, faults, message};
use crate::job::{Job, claim, everything, launch, stored};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Status;
use canyon_domain::failure::FailureClass;
use reqwest::Method;
use serde_json::{Value, json};

const DIGEST: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f9012345670a1b2c3d4e5f60718293a4b5";

/// A request with texts that are different in each environment.
fn order_with_texts() -> Value {
    let text = "${context.env.id}-$HOME-hunter2";
    let mut body = order_for("s3#photos");
    body["container"]["variables"] = json!({ "BUCKET": text });
    body["container"]["inputs"] =
        json!({ "names": [text], "size": 12_345_678_901_234_567_890_u64 });
    body["container"]["files"] =
        json!({ "a/b.txt": text, "c": { "content": text, "mode": "0755" } });
    body
}

#[tokio::test]
async fn a_runner_gets_the_job_with_the_values_of_its_run_and_no_state() {
    let api = with_engine().await;
    let (_, job) = begin(&api, order_with_texts()).await;
    let text = "main-$HOME-hunter2";
    let expected = json!({
        "resource": "s3.default#photos",
        "job": {
            "image": IMAGE, "command": ["/opt/bucket"], "variables": { "BUCKET": text },
            "inputs": { "names": [text], "size": 12_345_678_901_234_567_890_u64 },
            "files": { "a/b.txt": text, "c": { "content": text, "mode": "0755" } },
        },
    });
    assert_eq!(job["bundle"]["container"], expected);
    assert_eq!(job["backend"], Value::Null, "it has no state");
    assert_eq!(job["mode"], "deploy");
}

#[tokio::test]
async fn readers_see_what_ran_without_its_values_and_the_resource_with_its_outputs() {
    let api = with_engine().await;
    let (job, _) = begin(&api, order_with_texts()).await;
    assert_eq!(resources(&api).await, [("s3.default#photos".to_owned(), "creating".to_owned())]);
    let outputs = json!({
        "url": { "sensitive": false, "value": "https://b", "type": "string" },
        "key": { "sensitive": true, "value": "hunter2", "type": "string" },
    });
    let fetched = json!({ "commit": DIGEST });
    let body = json!({ "status": "success", "phase": "apply", "plain_outputs": outputs, "fetched": fetched });
    assert_eq!(job.result(&api, body).await.0, 204);

    let viewer = &api.ours.viewer;
    let path = format!("/deployments/{}", job.id);
    let (_, shown) = api.call_as(viewer, Method::GET, &path, None).await;
    assert_eq!(
        (&shown["kind"], &shown["resource"], &shown["status"]),
        (&json!("container"), &json!("s3.default#photos"), &json!("succeeded"))
    );
    let expected = json!({
        "image": IMAGE, "digest": DIGEST, "command": ["/opt/bucket"], "shared_directory": "/canyon/work",
        "variables": ["BUCKET"], "files": ["a/b.txt", "c"], "inputs": ["names", "size"],
        "timeout_seconds": 3600, "grace_seconds": 60, "idempotent": false,
    });
    assert_eq!(shown["container"], expected);
    let (_, outputs) = api.call_as(viewer, Method::GET, &format!("{path}/outputs"), None).await;
    let expected = json!({
        "url": { "sensitive": false, "value": "https://b", "type": "string" },
        "key": { "sensitive": true, "type": "string" },
    });
    assert_eq!(outputs, expected);
    let environment = shown_environment(&api).await;
    let resource = &environment["resources"][0];
    assert_eq!(
        (&resource["status"], &resource["deployment_id"]),
        (&json!("ready"), &json!(job.id))
    );
    assert_eq!(
        (&resource["type"], &resource["class"], &resource["id"]),
        (&json!("s3"), &json!("default"), &json!("photos"))
    );
    let (_, page) = api.get("/deployments").await;
    let listed = &page["items"][0];
    assert_eq!((&listed["kind"], &listed["resource"]), (&json!("container"), &shown["resource"]));
    for text in [shown, environment, page, api.get("/audit-records").await.1] {
        assert!(!text.to_string().contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn an_older_runner_gets_no_container_job_and_the_deployment_says_why() {
    let api = with_engine().await;
    let made = api.make("/deployments", order_for("s3#photos")).await;
    let id = made["id"].as_str().unwrap();
    let code = launch(&api, id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 10 });
    let refused = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    let ended = stored(&api, id).await;
    assert_eq!(ended.status, Status::Failed);
    let outcome = ended.attempts[0].ended.clone().unwrap().outcome;
    assert!(
        matches!(&outcome, Outcome::Failed(failure) if failure.class == FailureClass::Config),
        "{outcome:?}"
    );
    assert!(ended.message.contains("format 11 of jobs, and it knows 10"), "{}", ended.message);
    assert_eq!(resources(&api).await, [], "its program never ran");
}

fn rollback_to(id: &str) -> Value {
    json!({ "project_id": "shop", "env_id": "main", "mode": "rollback", "rollback_to_deployment_id": id })
}

fn claims(token: &Value) -> Value {
    let part = token["token"].as_str().unwrap().split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

async fn token(api: &Api, job: &Job) -> Value {
    let path = format!("/deployments/{}/attempts/{}/actions/issue-token", job.id, job.number);
    let body = json!({ "audience": "sts.amazonaws.com", "phase": "apply" });
    let (status, answer) = api.call_as(&job.token, Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn a_cloud_can_tell_a_container_job_from_a_module_by_its_token_and_a_role_may_be_for_one_kind()
 {
    let arn = |name: &str| format!("arn:aws:iam::123456789012:role/{name}");
    let identity = json!({
        "aws": { "role_arn": arn("all") },
        "named_roles": {
            "modules": { "aws_role_arn": arn("modules"), "kinds": ["tofu"] },
            "programs": { "aws_role_arn": arn("programs"), "kinds": ["container"] },
        },
    });
    let api = with_job_settings(json!({ "identity": identity })).await;
    let of_container = |role: &str| {
        let mut body = order_for("s3#photos");
        body["role"] = json!(role);
        body
    };
    let refused = api.post("/deployments", of_container("modules")).await;
    assert_eq!(refused.0, 403, "{}", refused.1);
    let expected = "role 'modules' is not allowed for kind 'container'";
    assert!(message(&refused).contains(expected), "{}", refused.1);
    let mut of_module = crate::job::order();
    of_module["role"] = json!("programs");
    assert_eq!(api.post("/deployments", of_module).await.0, 403);

    let (job, claimed) = begin(&api, of_container("programs")).await;
    assert_eq!(claimed["identity"]["aws"]["role_arn"], arn("programs"));
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    let says = claims(&token(&api, &job).await);
    assert_eq!((&says["kind"], &says["role"]), (&json!("container"), &json!("programs")));
    job.succeed(&api).await;
    // A rollback is of the kind of what it repeats.
    for (role, status) in [("modules", 403), ("programs", 201)] {
        let mut again = rollback_to(&job.id);
        again["role"] = json!(role);
        let answer = api.post("/deployments", again).await;
        assert_eq!(answer.0, status, "{role}: {}", answer.1);
    }
    let (_, page) = api.get("/deployments").await;
    begin_accepted(&api, page["items"][0]["id"].as_str().unwrap()).await.0.succeed(&api).await;
    let module = Job::start(&api).await;
    assert_eq!(module.report(&api, "apply", json!([])).await.0, 200);
    assert_eq!(claims(&token(&api, &module).await)["kind"], "tofu");
}

#[tokio::test]
async fn a_rollback_runs_the_container_job_of_an_earlier_deployment_again() {
    let api = with_engine().await;
    let first = succeeds(&api, order_with_texts()).await;
    let mut newer = order_for("s3#photos");
    newer["container"]["image"] = json!("ghcr.io/acme/bucket:2");
    succeeds(&api, newer).await;
    let (job, claimed) = begin(&api, rollback_to(&first)).await;
    let of = &claimed["bundle"]["container"];
    assert_eq!(
        (&of["resource"], &of["job"]["image"]),
        (&json!("s3.default#photos"), &json!(IMAGE))
    );
    assert_eq!(of["job"]["variables"]["BUCKET"], "main-$HOME-hunter2");
    let updating = ("s3.default#photos".to_owned(), "updating".to_owned());
    assert_eq!(resources(&api).await, [updating]);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    let environment = shown_environment(&api).await;
    assert_eq!(environment["resources"][0]["deployment_id"], json!(job.id));
    let (_, shown) = api.get(&format!("/deployments/{}", job.id)).await;
    assert_eq!(
        (&shown["kind"], &shown["container"]["image"]),
        (&json!("container"), &json!(IMAGE))
    );
}

#[tokio::test]
async fn a_rollback_to_a_container_job_takes_nothing_that_is_for_modules_and_runs_nothing_as_a_plan()
 {
    let api = with_engine().await;
    let first = succeeds(&api, order_for("s3#photos")).await;
    let before = everything(&api).await;
    let mut body = rollback_to(&first);
    for (field, value) in [
        ("plan_only", json!(true)),
        ("accept_state", json!(true)),
        ("max_deletions", json!(0)),
        ("targets", json!(["a.b"])),
        ("replace", json!(["a.b"])),
        ("parallelism", json!(2)),
    ] {
        body[field] = value;
    }
    let refused = api.post("/deployments", body).await;
    let expected =
        ["plan_only", "accept_state", "max_deletions", "targets", "replace", "parallelism"];
    assert_eq!((refused.0, faults(&refused)), (400, expected.to_vec()), "{}", refused.1);
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_program_without_a_claim_format_is_an_older_one() {
    let api = with_engine().await;
    let made = api.make("/deployments", order_for("s3#photos")).await;
    let id = made["id"].as_str().unwrap();
    let code = launch(&api, id).await;
    assert_eq!(claim(&api, id, 1, &code, "claimant-of-the-test").await.0, 409);
    assert_eq!(stored(&api, id).await.status, Status::Failed);
}

#[tokio::test]
async fn a_check_runs_the_job_of_the_resource_and_what_it_finds_is_the_resources() {
    let api = with_engine().await;
    let mut body = order_for("s3#photos");
    body["container"]["check"] =
        json!({ "command": ["/opt/bucket", "check"], "drift_exit_code": 4 });
    let created = succeeds(&api, body.clone()).await;
    for (changed, expected) in [(0, "in_sync"), (1, "drifted")] {
        let (job, claimed) = begin(&api, order_without_job("plan_only", "s3#photos")).await;
        assert_eq!((&claimed["mode"], &claimed["plan_only"]), (&json!("deploy"), &json!(true)));
        assert_eq!(claimed["bundle"]["container"]["job"]["check"], body["container"]["check"]);
        let counts = json!({ "num_resources_added": 0, "num_resources_removed": 0, "num_resources_changed": changed });
        let result = json!({ "status": "success", "phase": "plan", "tf_resource_counts": counts });
        assert_eq!(job.result(&api, result).await.0, 204);
        let environment = shown_environment(&api).await;
        let resource = &environment["resources"][0];
        let check = &resource["last_check"];
        assert_eq!((&check["status"], &check["deployment_id"]), (&json!(expected), &json!(job.id)));
        assert_eq!(
            (&resource["status"], &resource["deployment_id"]),
            (&json!("ready"), &json!(created))
        );
    }
}
