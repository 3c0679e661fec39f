//! What a deployment runs differently from another one, and what a request would.

use crate::container_world::succeeds;
use crate::harness::{Api, faults, message};
use crate::job::{furnished, order};
use serde_json::{Value, json};

fn with(code: &str, inputs: &Value) -> Value {
    let mut body = order();
    body["module"] = json!({ "source": "inline", "source_code": code, "inputs": inputs });
    body
}

async fn diff(api: &Api, id: &str, from: &str) -> (u16, Value) {
    let query = if from.is_empty() { String::new() } else { format!("?fromDeploymentId={from}") };
    let answer = api.act(&format!("/deployments/{id}/actions/diff{query}")).await;
    (answer.0, answer.1)
}

fn said(diff: &Value) -> Vec<String> {
    let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let changes = diff["changes"].as_array().unwrap().iter();
    changes
        .map(|one| {
            format!("{} {}: {}", text(one, "resource"), text(one, "type"), text(one, "summary"))
        })
        .collect()
}

#[tokio::test]
async fn a_deployment_is_compared_with_the_one_before_it_and_a_request_with_the_last() {
    let api = furnished().await;
    let mut dry = with("a", &json!({ "size": "hunter2" }));
    dry["is_dry_run"] = json!(true);
    let first = api.post("/deployments", dry).await;
    assert_eq!(first.0, 200, "{first:?}");
    assert_eq!(first.1["diff"]["num_added"], 1, "{first:?}");

    let one = succeeds(&api, with("a", &json!({ "size": "hunter2" }))).await;
    let two = succeeds(&api, with("a\nb", &json!({ "zone": "b" }))).await;
    let (status, found) = diff(&api, &two, "").await;
    assert_eq!((status, &found["from_deployment_id"]), (200, &json!(one)), "{found}");
    let expected = [
        "module module_changed: the text of the module has changed: 1 -> 2 lines",
        "module params_changed: added: zone; removed: size",
    ];
    assert_eq!(said(&found), expected);
    assert_eq!(found["num_changed"], 1);
    assert!(!found.to_string().contains("hunter2"), "{found}");
    let (_, first) = diff(&api, &one, "").await;
    assert_eq!(
        (first["num_added"].clone(), first["from_deployment_id"].clone()),
        (json!(1), Value::Null)
    );
    let (_, same) = diff(&api, &two, &two).await;
    assert_eq!(said(&same), [""; 0]);

    let mut same = with("a\nb", &json!({ "zone": "b" }));
    same["is_dry_run"] = json!(true);
    let nothing = api.post("/deployments", same).await;
    assert_eq!(said(&nothing.1["diff"]), [""; 0], "{nothing:?}");
    let mut destroy = json!({ "mode": "destroy", "project_id": "shop", "env_id": "main" });
    destroy["is_dry_run"] = json!(true);
    let removed = api.post("/deployments", destroy).await;
    assert_eq!(removed.1["diff"]["num_removed"], 1, "{removed:?}");
}

#[tokio::test]
async fn only_deployments_of_one_environment_for_one_thing_are_compared() {
    let api = furnished().await;
    api.make("/projects/shop/envs", json!({ "id": "other", "env_type_id": "dev" })).await;
    let one = succeeds(&api, with("a", &json!({}))).await;
    let mut elsewhere = with("a", &json!({}));
    elsewhere["env_id"] = json!("other");
    let other = api.make("/deployments", elsewhere).await["id"].as_str().unwrap().to_owned();
    let (status, body) = diff(&api, &one, &other).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.to_string().contains("fromDeploymentId"), "{body}");
    let absent = uuid::Uuid::nil().to_string();
    assert_eq!(diff(&api, &one, &absent).await.0, 404);
    assert_eq!(diff(&api, &absent, "").await.0, 404);
    let refused = api.act(&format!("/deployments/{one}/actions/diff?from=x")).await;
    assert_eq!((refused.0, faults(&refused).is_empty()), (400, false), "{}", message(&refused));
}
