//! How many requests to the table a deployment costs. Each takes milliseconds on AWS, and is billed.

use crate::harness::Api;
use crate::job::{Job, claim, environment, furnished, launch, order, piece, stored};
use crate::runner_checks::ecs;
use canyon_domain::deployment::Status;
use canyon_store::deployment_item::Wake;
use canyon_store::meter::Reading;
use canyon_store::outcome::Saved;
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

/// What a deployment takes of its 14 requests and 30 write units. The launcher's own have tests of their own: four requests for a
/// launch, and on a laptop two to remove its job.
const ON_A_LAPTOP: (u64, f64) = (10, 26.0);
/// The end stays due until the launcher has published it. That takes a unit more here, and two of the launcher.
const ON_AWS: (u64, f64) = (10, 27.0);

#[tokio::test]
async fn on_a_laptop_the_api_takes_ten_requests_of_a_deployment() {
    assert_eq!(taken(furnished().await).await, ON_A_LAPTOP);
}

#[tokio::test]
async fn on_aws_the_api_takes_ten_requests_of_a_deployment() {
    let api = Api::start_with(false).await;
    api.make("/projects", json!({ "id": "shop" })).await;
    api.make("/env-types", json!({ "id": "dev" })).await;
    api.make("/runners", ecs()).await;
    api.make("/runner-rules", json!({ "runner_id": ecs()["id"] })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    assert_eq!(taken(api).await, ON_AWS);
}

/// What a deployment takes from its acceptance to its end: requests of the API, and write units together with its launch.
async fn taken(mut api: Api) -> (u64, f64) {
    let mut readings: Vec<(&str, Reading)> = Vec::new();
    let meter = api.serve_metered().await;
    let made = api.make("/deployments", order()).await;
    let id = made["id"].as_str().unwrap();
    readings.push(("accept", meter.take()));

    let code = launch(&api, id).await;
    // Its writes are the launcher's, its reads are not.
    let launched = meter.take();
    let (_, claimed) = claim(&api, id, 1, &code, "claimant-of-the-test").await;
    let token = claimed["token"].as_str().unwrap();
    readings.push(("claim", meter.take()));

    let send = async |path: &str, body: Value| {
        let path = format!("/deployments/{id}/{path}");
        let url = format!("{}/orgs/{}{path}", api.url, api.ours.id);
        let request = api.http.request(Method::POST, url).bearer_auth(token);
        let request = request.header("canyon-environment", "shop/main").json(&body);
        let status = request.send().await.unwrap().status();
        assert!(status.is_success(), "{path}: {status}");
    };
    // More than what is read before the token is verified.
    let chunks = json!([piece(0, &[b'x'; 8 * 1024])]);
    send("attempts/1/report", json!({ "phase": "plan", "chunks": chunks })).await;
    readings.push(("log", meter.take()));
    send("attempts/1/report", json!({ "phase": "apply" })).await;
    readings.push(("apply", meter.take()));
    let output = json!({ "value": "y".repeat(8 * 1024), "type": "string", "sensitive": false });
    let state =
        json!({ "lineage": "6f2c4a51-0000-4000-8000-000000000000", "serial": 1, "resources": 1 });
    let result = json!({ "status": "success", "state": state, "plain_outputs": { "x": output } });
    send("results", result).await;
    readings.push(("result", meter.take()));

    let requests: Vec<_> = readings.iter().map(|(step, of)| (*step, of.requests())).collect();
    let wanted = [("accept", 2), ("claim", 3), ("log", 1), ("apply", 2), ("result", 2)];
    assert_eq!(requests, wanted, "{readings:#?}");
    let of_api: f64 = readings.iter().map(|(_, of)| of.write_units()).sum();
    (requests.iter().map(|(_, number)| number).sum(), of_api + launched.write_units())
}

/// Canyon reads what the header names, and believes nothing of it.
#[tokio::test]
async fn a_result_that_names_another_environment_ends_its_own() {
    let api = furnished().await;
    api.make("/projects/shop/envs", json!({ "id": "other", "env_type_id": "dev" })).await;
    for named in ["shop/other", "shop/none", "/", "main", "shop/main/", "sh\u{f6}p/main", ""] {
        let job = Job::start(&api).await;
        let url = format!("{}/orgs/{}/deployments/{}/results", api.url, api.ours.id, job.id);
        let request = api.http.post(url).bearer_auth(&job.token);
        let named_so = HeaderValue::from_bytes(named.as_bytes()).unwrap();
        let request = request.header("canyon-environment", named_so);
        let answer = request.json(&json!({ "status": "success" })).send().await.unwrap();
        assert_eq!(answer.status(), 204, "{named}");
        assert_eq!(stored(&api, &job.id).await.status, Status::Succeeded, "{named}");
        assert_eq!(environment(&api).await.queue.current, None, "{named}");
    }
}

#[tokio::test]
async fn a_job_of_an_earlier_version_gets_the_variables_of_its_environments_type() {
    let api = furnished().await;
    let set = json!({ "terraform": { "a": { "value": "of the type" } } });
    let (status, answer) = api.patch("/env-types/dev/variables", set).await;
    assert_eq!(status, 200, "{answer}");
    let id = crate::job::deploy(&api).await;
    let mut of_earlier = stored(&api, &id).await;
    of_earlier.env_type = None;
    of_earlier.version += 1;
    let saved = api.app.table.save_deployment(api.ours.uuid, &of_earlier, Wake::None).await;
    assert_eq!(saved.unwrap(), Saved::Yes);
    let code = launch(&api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 5 });
    let (status, claimed) = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert_eq!((status, &claimed["job"]["variables"][0]["value"]), (200, &json!("of the type")));
}
