//! Secret inputs of a deployment: only its jobs get them.

use crate::harness::{faults, message};
use crate::job::{furnished, order, run, stored};
use canyon_domain::deployment::Mode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const SECRET: &str = "correct horse";

fn with_secrets(inputs: &Value, secrets: &Value) -> Value {
    let mut body = order();
    body["module"]["inputs"] = inputs.clone();
    body["secret_inputs"] = secrets.clone();
    body
}

#[tokio::test]
async fn the_jobs_of_a_deployment_and_of_its_rollback_and_destruction_get_its_secret_inputs() {
    let api = furnished().await;
    let kept = json!({ "terraform": { "key": { "value": "kept" }, "other": { "value": "kept" } } });
    assert_eq!(api.patch("/variables", kept).await.0, 200);
    let secrets =
        json!({ "key": SECRET, "map": { "a": ["${context.env.id}", 12_345_678_901_u64] } });
    let (id, job) = run(&api, with_secrets(&json!({ "size": 3 }), &secrets)).await;
    let variable = |name: &str, value: &Value| {
        json!({ "kind": "terraform", "name": name, "value": value, "secret": true,
            "from": "environment:shop/main", "is_input": true })
    };
    let mut other = variable("other", &json!("kept"));
    other["from"] = json!("organization");
    for field in ["secret", "is_input"] {
        other.as_object_mut().unwrap().remove(field);
    }
    let expected =
        json!([other, variable("key", &secrets["key"]), variable("map", &secrets["map"])]);
    assert_eq!(job["variables"], expected);
    assert_eq!(job["bundle"]["sealed_inputs"], Value::Null);

    let rollback = json!({
        "project_id": "shop", "env_id": "main", "mode": "rollback", "rollback_to_deployment_id": id,
    });
    let (again, job) = run(&api, rollback).await;
    assert_eq!(job["variables"], expected);
    let (last, job) =
        run(&api, json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" })).await;
    assert_eq!(stored(&api, &last).await.mode, Mode::Destroy);
    assert_eq!(job["variables"], expected);

    for id in [id, again, last] {
        let (_, whole) = api.get(&format!("/deployments/{id}")).await;
        assert_eq!(whole["module"]["inputs"], json!({ "size": 3 }));
        assert_eq!(whole["module"]["hidden_inputs"], json!(["key", "map"]));
        let bundle = api.app.table.bundle(api.ours.uuid, id.parse().unwrap()).await.unwrap();
        let bundle = serde_json::to_string(&bundle.unwrap()).unwrap();
        for text in [whole.to_string(), bundle] {
            assert!(!text.contains(SECRET) && !text.contains("12345678901"), "{text}");
        }
    }
    assert!(!api.audit().await.join("\n").contains(SECRET));
}

#[tokio::test]
async fn one_answer_names_every_faulty_secret_input_without_its_value() {
    let api = furnished().await;
    let secrets = json!({
        "1a": SECRET, "both": SECRET, "short": "12345", "none": null, "large": "x".repeat(64 * 1024),
        "good": SECRET,
    });
    let mut body = with_secrets(&json!({ "both": 1 }), &secrets);
    let refused = api.post("/deployments", body.clone()).await;
    let expected = ["1a", "both", "large", "none", "short"];
    let expected = expected.map(|name| format!("secret_inputs[{name:?}]"));
    assert_eq!(
        (refused.0, faults(&refused)),
        (400, expected.each_ref().map(String::as_str).to_vec())
    );
    assert!(!refused.1.to_string().contains(SECRET), "{refused:?}");

    body["secret_inputs"] = json!({ "good": SECRET });
    body.as_object_mut().unwrap().remove("module");
    for mode in ["rollback", "destroy"] {
        body["mode"] = json!(mode);
        let refused = api.post("/deployments", body.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["secret_inputs"]), "{mode}");
    }
    body["secret_inputs"] = json!([SECRET]);
    let refused = api.post("/deployments", body).await;
    assert_eq!(refused.0, 400);
    assert!(!refused.1.to_string().contains(SECRET), "{refused:?}");
}

#[tokio::test]
async fn an_idempotency_key_tells_one_secret_from_another_and_no_digest_of_it_is_stored() {
    let api = furnished().await;
    let body = |secret: &str| with_secrets(&json!({}), &json!({ "pin": secret })).to_string();
    let send = async |secret: &str| {
        let request = api
            .http
            .post(format!("{}/orgs/{}/deployments", api.url, api.ours.id))
            .bearer_auth(&api.ours.deployer)
            .header("Idempotency-Key", "k")
            .header("content-type", "application/json")
            .body(body(secret));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let first = send("123456").await;
    assert_eq!(first.0, 201, "{first:?}");
    assert_eq!(send("123456").await.1["id"], first.1["id"]);
    let caller = stored(&api, first.1["id"].as_str().unwrap()).await.created_by.into();
    let known = api.app.table.idempotency(api.ours.uuid, &caller, "k").await.unwrap().unwrap();
    assert_ne!(known.body, hex::encode(Sha256::digest(body("123456"))));
    let other = send("123457").await;
    assert_eq!(other.0, 409, "{other:?}");
    assert!(message(&other).contains("another body"), "{other:?}");
}

#[tokio::test]
async fn what_is_no_object_of_values_is_refused_without_being_repeated() {
    let api = furnished().await;
    for wrong in [json!(SECRET), json!([SECRET]), json!(12_345_678), json!(true), json!(null)] {
        let mut body = order();
        body["secret_inputs"] = wrong.clone();
        let refused = api.post("/deployments", body).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["secret_inputs"]), "{refused:?}");
        let said = refused.1.to_string();
        assert!(!said.contains(SECRET) && !said.contains("12345678"), "{said}");
    }
}
