//! Where the job of a definition runs: at the runner of the environment, in another cluster, or by the agent of another runner.

use crate::container_world::{begin, order_without_job, resources, with_engine, with_runner};
use crate::harness::{Api, message};
use serde_json::{Value, json};

const DEFS: &str = "/resources/defs";
const ACCOUNTS: &str = "/resources/accounts";
const PROVIDER: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";

fn definition(id: &str, of: &str, driver: &str, inputs: &Value, res_id: Option<&str>) -> Value {
    json!({
        "id": id, "name": id, "type": of, "driver_type": format!("humanitec/{driver}"),
        "driver_inputs": inputs, "criteria": [{ "res_id": res_id }],
    })
}

/// The published shape: a `config` that names a cluster with its account, and what an `agent` resource says.
async fn with_definitions(api: &Api, namespace: &str) {
    let outputs = "skip_permission_checks: true\ncluster:\n  account: acme/cloud\n  cluster:\n    name: us\n    project_id: acme-prod\n    zone: us-east1\n    loadbalancer: 10.10.10.10\n    cluster_type: gke\n";
    let templates = json!({ "outputs": outputs, "secrets": { "agent_url": "{{ .driver.secrets.agent_url }}" } });
    let inputs = json!({ "values": { "templates": templates },
        "secrets": { "agent_url": "${resources.agent.outputs.url}" } });
    let config =
        definition("config-runner", "config", "template", &inputs, Some("container-runner"));
    api.make(DEFS, config).await;
    let none = json!({ "values": { "url": "" } });
    api.make(DEFS, definition("the-agent", "agent", "echo", &none, None)).await;
    let job = json!({ "image": "acme/bucket:1", "command": ["/opt/bucket"],
        "namespace": namespace, "service_account": "bucket" });
    let inputs = json!({ "values": { "job": job } });
    api.make(DEFS, definition("s3-bucket", "s3", "container-runner", &inputs, None)).await;
}

async fn with_account(api: &Api) {
    let credentials = json!({ "gcp_audience": PROVIDER,
        "gcp_service_account": "canyon@acme-prod.iam.gserviceaccount.com" });
    let account = json!({ "id": "cloud", "type": "gcp-identity", "credentials": credentials });
    api.make(ACCOUNTS, account).await;
}

async fn explained(api: &Api) -> Value {
    let (status, found) =
        api.get("/projects/shop/envs/main/resources/s3.default%23main/explanation").await;
    assert_eq!(status, 200, "{found}");
    found
}

/// The place that the deployment shows, as runner and cluster.
async fn place(api: &Api, id: &Value) -> (Value, Value) {
    let (_, shown) = api.get(&format!("/deployments/{}", id.as_str().unwrap())).await;
    (shown["runner_id"].clone(), shown["container"]["cluster"].clone())
}

#[tokio::test]
async fn a_definition_moves_its_job_to_another_cluster_and_a_destroy_runs_there() {
    let api = with_engine().await;
    with_definitions(&api, "jobs").await;
    let refused = api.post("/deployments", order_without_job("deploy", "s3")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    let words = "its `cluster.account` is `cloud`, and there is no such account; create it with: canyon create account cloud";
    assert!(message(&refused).contains(words), "{}", refused.1);
    assert_eq!(explained(&api).await["problem"], json!(message(&refused)), "it says the same");

    with_account(&api).await;
    let found = explained(&api).await;
    assert_eq!(
        (&found["runner_id"], &found["cluster"]),
        (&json!("engine"), &json!("kubernetes-gke us")),
        "{found}"
    );
    let (job, claimed) = begin(&api, order_without_job("deploy", "s3")).await;
    let there = (json!("engine"), json!("kubernetes-gke us"));
    assert_eq!(place(&api, &claimed["deployment_id"]).await, there);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;

    // The definition and the account are gone, and its resource is where it was made.
    for path in [
        format!("{DEFS}/s3-bucket?force=true"),
        format!("{DEFS}/config-runner?force=true"),
        format!("{ACCOUNTS}/cloud"),
    ] {
        let gone = api.delete(&path).await;
        assert_eq!(gone.0, 204, "{path}: {}", gone.1);
    }
    let (job, claimed) = begin(&api, order_without_job("destroy", "s3")).await;
    assert_eq!(place(&api, &claimed["deployment_id"]).await, there);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    assert_eq!(resources(&api).await, []);
}

#[tokio::test]
async fn a_definition_that_names_an_agent_is_for_the_runner_of_that_agent() {
    let api = with_engine().await;
    with_definitions(&api, "jobs").await;
    let inside = json!({ "driver_type": "humanitec/agent", "driver_inputs": { "values": { "id": "inside", "url": null } } });
    let changed = api.patch(&format!("{DEFS}/the-agent"), inside).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let refused = api.post("/deployments", order_without_job("deploy", "s3")).await;
    assert!(
        message(&refused).contains("runner `inside`")
            && message(&refused).contains("there is no such runner"),
        "{}",
        refused.1
    );

    let storage = json!({ "type": "gcs", "bucket": "states" });
    let job = json!({ "namespace": "own", "service_account": "own" });
    let runner = json!({ "id": "inside", "state_storage_configuration": storage,
        "runner_configuration": { "type": "kubernetes-agent", "job": job } });
    api.make("/runners", runner).await;
    let (status, made) = api.post("/deployments", order_without_job("deploy", "s3")).await;
    assert_eq!(status, 201, "{made}");
    // The agent is in its cluster: no account is asked for.
    assert_eq!(place(&api, &made["id"]).await, (json!("inside"), Value::Null));
}

#[tokio::test]
async fn a_place_that_no_runner_may_have_is_refused_by_its_fields() {
    let api = Api::start().await;
    let job = json!({ "namespace": "jobs", "service_account": "job" });
    let cluster = json!({ "name": "eu", "project_id": "acme-prod", "location": "europe-west3",
        "auth": { "gcp_audience": PROVIDER, "gcp_service_account": "canyon@acme-prod.iam.gserviceaccount.com" } });
    with_runner(&api, json!({ "type": "kubernetes-gke", "job": job, "cluster": cluster })).await;
    with_definitions(&api, "jobs").await;
    with_account(&api).await;
    let template = json!({ "driver_inputs": { "values": { "job": { "pod_template": { "spec": { "hostNetwork": true } } } } } });
    let changed = api.patch(&format!("{DEFS}/s3-bucket"), template).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let refused = api.post("/deployments", order_without_job("deploy", "s3")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    for part in [
        "resource definition `s3-bucket` does not fit runner `engine`",
        "`job.pod_template.spec.hostNetwork`",
    ] {
        assert!(message(&refused).contains(part), "no {part} in {}", refused.1);
    }
    let changed = api
        .patch(&format!("{ACCOUNTS}/cloud"), json!({ "credentials": { "gcp_audience": null } }))
        .await;
    assert_eq!(changed.0, 400, "{}", changed.1);
}
