//! Resources that a module makes by its definition: their states, and what would abandon one.

use crate::container_world::{begin, order_without_job, shown_environment, with_runner};
use crate::harness::{Api, message};
use serde_json::{Value, json};

const DEFS: &str = "/resources/defs";

fn module(id: &str, more: &Value) -> Value {
    let mut body = json!({
        "id": id, "name": id, "type": "s3", "driver_type": "humanitec/opentofu-container-runner",
        "driver_inputs": { "values": { "files": { "main.tf": "# ${context.env.id}" }, "variables": { "size": 1 } } },
        "criteria": [{}],
    });
    canyon_domain::merge_patch::merge_patch(&mut body, more.clone());
    body
}

async fn with_module() -> Api {
    let api = Api::start().await;
    with_runner(&api, json!({ "type": "docker-agent" })).await;
    let config = json!({
        "id": "config", "name": "config", "type": "config", "driver_type": "humanitec/echo",
        "criteria": [{ "res_id": "opentofu-container-runner" }, { "res_id": "container-runner" }],
    });
    api.make(DEFS, config).await;
    api.make(DEFS, module("s3-module", &json!({}))).await;
    api
}

/// A run for `resource` that leaves `resources` in its state. Returns the job as it was claimed.
async fn leaves(api: &Api, mode: &str, resource: &str, serial: u64, resources: u64) -> Value {
    let (job, claimed) = begin(api, order_without_job(mode, resource)).await;
    assert_eq!(job.report(api, "apply", json!([])).await.0, 200);
    let state =
        json!({ "lineage": resource, "serial": serial, "resources": resources, "addresses": [] });
    let result = json!({ "status": "success", "phase": "apply", "state": state });
    assert_eq!(job.result(api, result).await.0, 204);
    claimed
}

#[tokio::test]
async fn each_resource_has_a_state_of_its_own() {
    let api = with_module().await;
    let first = leaves(&api, "deploy", "s3#photos", 1, 2).await;
    assert_eq!(first["bundle"]["resource"]["files"]["main.tf"], "# main");
    assert_eq!(first["bundle"]["module"]["inputs"], json!({ "size": 1 }));
    let other = leaves(&api, "deploy", "s3#videos", 7, 1).await;
    let places = [&first, &other].map(|job| job["state"]["place"].as_str().unwrap().to_owned());
    assert_ne!(places[0], places[1]);
    let uuid = shown_environment(&api).await["uuid"].as_str().unwrap().to_owned();
    assert!(
        !places.iter().any(|place| place.contains(&uuid)),
        "that of the environment is another: {places:?}"
    );

    let mut set = order_without_job("deploy", "s3#photos");
    set["params"] = json!({ "size": 2 });
    let refused = api.post("/deployments", set).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    let again = leaves(&api, "deploy", "s3#photos", 2, 2).await;
    assert_eq!(again["state"]["place"], places[0].as_str());
    let environment = shown_environment(&api).await;
    assert_eq!(
        environment.get("state"),
        None,
        "the environment's own module was never deployed: {environment}"
    );
    assert_eq!(environment["resources"][0]["kind"], "tofu", "{environment}");

    leaves(&api, "destroy", "s3#photos", 3, 1).await;
    let left = &shown_environment(&api).await["resources"][0];
    assert_eq!(
        (&left["name"], &left["status"]),
        (&json!("s3.default#photos"), &json!("failed")),
        "something is left"
    );
    leaves(&api, "destroy", "s3#photos", 4, 0).await;
    let environment = shown_environment(&api).await;
    assert_eq!(environment["resources"].as_array().unwrap().len(), 1, "{environment}");
}

#[tokio::test]
async fn what_would_abandon_the_state_of_a_resource_is_refused() {
    let api = with_module().await;
    leaves(&api, "deploy", "s3#photos", 1, 2).await;
    let container = json!({
        "driver_type": "humanitec/container-runner",
        "driver_inputs": { "values": { "files": null, "variables": null, "job": { "image": "a:1", "command": ["/x"] } } },
    });
    let changed = api.patch(&format!("{DEFS}/s3-module"), container).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let refused = api.post("/deployments", order_without_job("deploy", "s3#photos")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("was made by an OpenTofu module"), "{}", refused.1);
    let mut own = order_without_job("deploy", "s3#photos");
    own["container"] = json!({ "image": "a:1", "command": ["/x"] });
    let refused = api.post("/deployments", own).await;
    assert_eq!(refused.0, 409, "{}", refused.1);

    let elsewhere = json!({ "state_storage_configuration": { "type": "s3", "bucket": "others" } });
    let refused = api.patch("/runners/engine", elsewhere).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("would create everything a second time"), "{}", refused.1);
}

#[tokio::test]
async fn secrets_of_a_module_are_given_to_its_job_and_shown_to_no_caller() {
    let api = with_module().await;
    let secrets = json!({ "driver_inputs": { "secret_refs": { "variables": {
        "token": { "value": "hunter-2-hunter" }, "key": { "store": "team", "ref": "shop/key" },
    } } } });
    assert_eq!(api.patch(&format!("{DEFS}/s3-module"), secrets).await.0, 200);
    let refused = api.post("/deployments", order_without_job("deploy", "s3")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("the variable `key` of its definition"), "{}", refused.1);
    let store = json!({ "type": "vault", "url": "https://vault.example.com", "role": "job" });
    api.make("/secret-stores", json!({ "id": "team", "store_configuration": store })).await;
    let (job, claimed) = begin(&api, order_without_job("deploy", "s3")).await;
    let named = |list: &str, name: &str| {
        let list = claimed[list].as_array().unwrap();
        list.iter().find(|one| one["name"] == name).cloned().unwrap()
    };
    let token = named("variables", "token");
    assert_eq!((&token["value"], &token["kind"]), (&json!("hunter-2-hunter"), &json!("terraform")));
    assert_eq!(named("stored_variables", "key")["reference"]["ref"], "shop/key");
    let (_, shown) = api.get(&format!("/deployments/{}", job.id)).await;
    assert_eq!(shown["module"]["source"], "inline", "{shown}");
    assert!(!shown.to_string().contains("hunter-2-hunter"), "{shown}");
}
