//! `${context.KEY}` in inputs and kept variables: stored as written, replaced in each run.

use crate::harness::faults;
use crate::job::{furnished, order, run};
use serde_json::{Value, json};

fn with_inputs(inputs: &Value) -> Value {
    let mut body = order();
    body["module"]["inputs"] = inputs.clone();
    body
}

#[tokio::test]
async fn a_reference_has_the_values_of_each_run_and_is_shown_as_it_was_written() {
    let api = furnished().await;
    let inputs = json!({
        "name": "${context.org.id}/${context.project.id}/${context.env.id}/${context.env_type.id}",
        "tags": [{ "by": "run ${context.deployment.id} of ${context.runner.id}" }],
        "template": "${aws.region} $\\{var.x} $\\{context.any}",
    });
    let (id, job) = run(&api, with_inputs(&inputs)).await;
    let (_, whole) = api.get(&format!("/deployments/{id}")).await;
    assert_eq!(whole["module"]["inputs"], inputs);
    let expected = |id: &str| {
        json!({
            "name": format!("{}/shop/main/dev", api.ours.id),
            "tags": [{ "by": format!("run {id} of {}", whole["runner_id"].as_str().unwrap()) }],
            "template": "${aws.region} $\\{var.x} ${context.any}",
        })
    };
    assert_eq!(job["bundle"]["module"]["inputs"], expected(&id));

    let rollback = json!({
        "project_id": "shop", "env_id": "main", "mode": "rollback", "rollback_to_deployment_id": id,
    });
    let (again, job) = run(&api, rollback).await;
    assert_eq!(job["bundle"]["module"]["inputs"], expected(&again));
    let (_, whole) = api.get(&format!("/deployments/{again}")).await;
    assert_eq!(whole["module"]["inputs"], inputs);
}

#[tokio::test]
async fn a_kept_variable_may_refer_to_the_run_and_a_secret_stays_as_it_is() {
    let api = furnished().await;
    let text = "app-${context.env.id}";
    let body = json!({
        "terraform": {
            "name": { "value": { "a": [text] } },
            "key": { "value": "${context.env.id} ${context.any}", "secret": true },
        },
        "environment": { "APP": { "value": text } },
    });
    let (status, changed) = api.patch("/variables", body).await;
    assert_eq!((status, &changed["environment"]["APP"]["value"]), (200, &json!(text)), "{changed}");
    let (_, job) = run(&api, order()).await;
    let values = ["terraform.key", "terraform.name", "environment.APP"].map(|wanted| {
        let is_wanted = |one: &&Value| {
            format!("{}.{}", one["kind"].as_str().unwrap(), one["name"].as_str().unwrap()) == wanted
        };
        job["variables"].as_array().unwrap().iter().find(is_wanted).unwrap()["value"].clone()
    });
    let key = json!("${context.env.id} ${context.any}");
    assert_eq!(values, [key, json!({ "a": ["app-main"] }), json!("app-main")]);
}

#[tokio::test]
async fn one_answer_names_every_reference_that_is_not_known() {
    let api = furnished().await;
    let inputs = json!({
        "a": "${context.env.id} ${context.hunter2}", "b": { "c": [0, "${context.env.id"] }, "d": "${context.env.id}",
    });
    let mut body = with_inputs(&inputs);
    body["rollback_to_deployment_id"] = json!("00000000-0000-7000-8000-000000000001");
    let refused = api.post("/deployments", body).await;
    let expected =
        ["rollback_to_deployment_id", "module.inputs[\"a\"]", "module.inputs[\"b\"][\"c\"][1]"];
    assert_eq!((refused.0, faults(&refused)), (400, expected.to_vec()));
    let text = refused.1.to_string();
    assert!(text.contains("`${context.deployment.id}`"), "{text}");
    assert!(text.contains("a reference `${context.hunter2}`"), "{text}");

    let value = |text: &str| json!({ "value": text });
    let body = json!({
        "terraform": { "a": value("${context.}"), "b": value("${context.env.id}") },
        "environment": { "C": value("${context.ENV}") },
    });
    let refused = api.patch("/variables", body).await;
    let expected = ["terraform[\"a\"].value", "environment[\"C\"].value"];
    assert_eq!((refused.0, faults(&refused)), (400, expected.to_vec()));
    assert_eq!(api.get("/variables").await.1["terraform"], json!({}), "nothing is written");
}
