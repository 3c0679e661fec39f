//! An environment whose runner runs container jobs, and what their runners report.

use crate::harness::Api;
use crate::job::{Job, launch, stored};
use canyon_domain::attempt::Outcome;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "ghcr.io/acme/bucket:1.1.0";

/// An API with the environment `main`, whose runner launches jobs on a Docker engine.
pub(crate) async fn with_engine() -> Api {
    with_job_settings(json!({})).await
}

/// The same with the runner's settings `job`.
pub(crate) async fn with_job_settings(job: Value) -> Api {
    let api = Api::start().await;
    with_runner(&api, json!({ "type": "docker-agent", "job": job })).await;
    api
}

/// Makes the environment `main` with a runner of this configuration.
pub(crate) async fn with_runner(api: &Api, configuration: Value) {
    let local = json!({ "type": "local", "path": "/var/lib/state" });
    let bucket = json!({ "type": "s3", "bucket": "states" });
    let storage = if configuration["type"] == "local" { local } else { bucket };
    let runner = json!({
        "id": "engine", "runner_configuration": configuration, "state_storage_configuration": storage,
    });
    api.make("/projects", json!({ "id": "shop" })).await;
    api.make("/env-types", json!({ "id": "dev" })).await;
    api.make("/runners", runner).await;
    api.make("/runner-rules", json!({ "runner_id": "engine" })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
}

/// A request for `resource` without a job.
pub(crate) fn order_without_job(mode: &str, resource: &str) -> Value {
    json!({ "project_id": "shop", "env_id": "main", "mode": mode, "resource": resource })
}

/// A request to create or update `resource`.
pub(crate) fn order_for(resource: &str) -> Value {
    let mut body = order_without_job("deploy", resource);
    body["container"] = json!({ "image": IMAGE, "command": ["/opt/bucket"] });
    body
}

/// Deploys `body`, and claims the job as a runner of this version. Returns also the job as it was claimed.
pub(crate) async fn begin(api: &Api, body: Value) -> (Job, Value) {
    let made = api.make("/deployments", body).await;
    begin_accepted(api, made["id"].as_str().unwrap()).await
}

/// The same for a deployment that was accepted.
pub(crate) async fn begin_accepted(api: &Api, id: &str) -> (Job, Value) {
    let code = launch(api, id).await;
    let number = u32::try_from(stored(api, id).await.attempts.len()).unwrap();
    let path = format!("/deployments/{id}/attempts/{number}/claim");
    let body =
        json!({ "claimant": "claimant-of-the-test", "job_format": canyon_domain::job::FORMAT });
    let (status, claimed) = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    (Job { id: id.to_owned(), number, token }, claimed["job"].clone())
}

/// The same until its program runs.
pub(crate) async fn run_program(api: &Api, body: Value) -> Job {
    let (job, _) = begin(api, body).await;
    assert_eq!(job.report(api, "apply", json!([])).await.0, 200);
    job
}

/// A deployment that succeeds. Returns its id.
pub(crate) async fn succeeds(api: &Api, body: Value) -> String {
    let job = run_program(api, body).await;
    job.succeed(api).await;
    job.id
}

/// A deployment whose program fails. Returns its id.
pub(crate) async fn fails(api: &Api, body: Value) -> String {
    let job = run_program(api, body).await;
    let failure = json!({ "status": "failure" });
    assert_eq!(job.result(api, failure).await.0, 204);
    job.id
}

/// A deployment whose machine is taken back while its program runs. Returns its id.
pub(crate) async fn is_lost(api: &Api, body: Value) -> String {
    let job = run_program(api, body).await;
    let mut deployment = stored(api, &job.id).await;
    let now = api.clock.now();
    let outcome = Outcome::Failed(Failure::new(FailureClass::Spot, "the machine was taken back"));
    lifecycle::end(&mut deployment, job.number, outcome, now).unwrap();
    assert!(deployment.status.is_terminal(), "a program that began is not repeated");
    deployment.version += 1;
    let ended = api.app.table.end_deployment(api.ours.uuid, &deployment, now, None).await;
    assert_eq!(ended.unwrap(), Saved::Yes);
    job.id
}

/// The environment as readers see it.
pub(crate) async fn shown_environment(api: &Api) -> Value {
    let (status, environment) = api.get("/projects/shop/envs/main").await;
    assert_eq!(status, 200, "{environment}");
    environment
}

/// The name and status of each resource of the environment.
pub(crate) async fn resources(api: &Api) -> Vec<(String, String)> {
    let environment = shown_environment(api).await;
    let text = |of: &Value| of.as_str().unwrap().to_owned();
    let resources = environment["resources"].as_array().into_iter().flatten();
    resources.map(|one| (text(&one["name"]), text(&one["status"]))).collect()
}
