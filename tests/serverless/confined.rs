//! What a function in the hands of an attacker could ask for, and is refused: its role names the items that it may
//! write, and what its keys may sign.

use crate::harness::server::Server;
use canyon_cloud::cloud::Cloud;
use canyon_cloud::region::REGION;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Calls AWS as this function does.
async fn call(cloud: &Cloud, function: &str, service: &str, target: &str, body: &Value) -> String {
    let config = cloud.function(function).config();
    let endpoint = config.environment["AWS_ENDPOINT_URL"].clone();
    let key = &config.credentials.access_key_id;
    let scope = format!("{key}/20260101/{REGION}/{service}/aws4_request");
    let signed = "SignedHeaders=host;x-amz-date;x-amz-target, Signature=00";
    let request = reqwest::Client::new()
        .post(endpoint)
        .header("authorization", format!("AWS4-HMAC-SHA256 Credential={scope}, {signed}"))
        .header("x-amz-target", target)
        .header("content-type", "application/x-amz-json-1.1")
        .body(body.to_string());
    let answer = request.send().await.unwrap();
    let (status, said) = (answer.status(), answer.text().await.unwrap());
    if status == StatusCode::OK { "done".to_owned() } else { said }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_that_takes_events_writes_deployments_and_no_tokens_roles_or_runners() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let table = &cloud.function("events").config().environment["CANYON_TABLE"];
    let item = |pk: &str| json!({ "pk": { "S": pk }, "sk": { "S": "T" } });
    for (pk, expected) in [
        ("AZtrpYFHRk6y2UeV0Z0v9A#dep#0199", "done"),
        ("AZtrpYFHRk6y2UeV0Z0v9A#audit#2026-11", "done"),
        ("AZtrpYFHRk6y2UeV0Z0v9A#envs", "done"),
        ("token#of-an-administrator", "dynamodb:PutItem"),
        ("system#master-key", "dynamodb:PutItem"),
        ("AZtrpYFHRk6y2UeV0Z0v9A#runners", "dynamodb:PutItem"),
        ("AZtrpYFHRk6y2UeV0Z0v9A#eventsources", "dynamodb:PutItem"),
    ] {
        let put = json!({ "TableName": table, "Item": item(pk) });
        let said = call(cloud, "events", "dynamodb", "DynamoDB_20120810.PutItem", &put).await;
        assert!(said.contains(expected), "{pk}: {said}");
        let transaction = json!({ "TransactItems": [{ "Put": put }] });
        let target = "DynamoDB_20120810.TransactWriteItems";
        let said = call(cloud, "events", "dynamodb", target, &transaction).await;
        assert!(said.contains(expected), "{pk}, in a transaction: {said}");
    }
    let get = json!({ "TableName": table, "Key": item("system#master-key") });
    let said = call(cloud, "events", "dynamodb", "DynamoDB_20120810.GetItem", &get).await;
    assert!(said.contains("dynamodb:GetItem"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_signs_with_the_algorithm_of_canyons_tokens_and_no_other() {
    let server = Server::start().await;
    let cloud = server.cloud();
    for (function, keys) in [
        ("api", "CANYON_JOB_SIGNING_KEYS"),
        ("launcher", "CANYON_SIGNING_KEYS"),
        ("sweep", "CANYON_SIGNING_KEYS"),
    ] {
        let keys = &cloud.function(function).config().environment[keys];
        for (algorithm, kind, expected) in [
            ("RSASSA_PKCS1_V1_5_SHA_256", "RAW", "done"),
            ("RSASSA_PKCS1_V1_5_SHA_512", "RAW", "kms:Sign"),
            ("RSASSA_PSS_SHA_256", "RAW", "kms:Sign"),
            ("RSASSA_PKCS1_V1_5_SHA_256", "EXTERNAL_MU", "kms:Sign"),
        ] {
            let sign = json!({
                "KeyId": keys, "Message": "dG9rZW4=", "MessageType": kind,
                "SigningAlgorithm": algorithm,
            });
            let said = call(cloud, function, "kms", "TrentService.Sign", &sign).await;
            assert!(said.contains(expected), "{function}: {algorithm}, {kind}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_that_the_internet_reaches_cannot_sign_as_a_runner() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let keys = cloud.function("api").config().environment.clone();
    assert_ne!(keys["CANYON_SIGNING_KEYS"], keys["CANYON_JOB_SIGNING_KEYS"]);
    let sign = |key: &str| {
        json!({
            "KeyId": key, "Message": "dG9rZW4=", "MessageType": "RAW",
            "SigningAlgorithm": "RSASSA_PKCS1_V1_5_SHA_256",
        })
    };
    for (function, key, expected) in [
        ("api", "CANYON_JOB_SIGNING_KEYS", "done"),
        ("api", "CANYON_SIGNING_KEYS", "kms:Sign"),
        ("events", "CANYON_SIGNING_KEYS", "kms:Sign"),
        ("events", "CANYON_JOB_SIGNING_KEYS", "kms:Sign"),
        ("launcher", "CANYON_JOB_SIGNING_KEYS", "kms:Sign"),
    ] {
        let said = call(cloud, function, "kms", "TrentService.Sign", &sign(&keys[key])).await;
        assert!(said.contains(expected), "{function} with {key}: {said}");
    }
}
