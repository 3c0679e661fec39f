//! Calls that an attacker who controls a function would make, and AWS refuses: the function's role names the items
//! that it may write, and what its keys may sign.

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
async fn the_events_function_can_write_deployments_and_no_tokens_roles_or_runners() {
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
    for (pk, expected) in [
        ("AZtrpYFHRk6y2UeV0Z0v9A#stores", "done"),
        ("AZtrpYFHRk6y2UeV0Z0v9A#variables", "dynamodb:BatchGetItem"),
    ] {
        let batch = json!({ "RequestItems": { table: { "Keys": [item(pk)] } } });
        let said =
            call(cloud, "events", "dynamodb", "DynamoDB_20120810.BatchGetItem", &batch).await;
        assert!(said.contains(expected), "{pk}: {said}");
    }
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

/// The key that signs tokens about runners, and the key that signs the tokens of jobs.
fn signing_keys(cloud: &Cloud) -> [String; 2] {
    let first = |of: &str| cloud.stack["keys"][of][0].as_str().unwrap().to_owned();
    let keys = [first("signing"), first("job_signing")];
    assert_ne!(keys[0], keys[1]);
    keys
}

/// The result of a KMS operation with this key.
async fn use_key(cloud: &Cloud, function: &str, operation: &str, key: &str) -> String {
    let body = match operation {
        "Sign" => json!({
            "KeyId": key, "Message": "dG9rZW4=", "MessageType": "RAW",
            "SigningAlgorithm": "RSASSA_PKCS1_V1_5_SHA_256",
        }),
        "GenerateDataKey" => json!({ "KeyId": key, "KeySpec": "AES_256" }),
        _ => json!({ "KeyId": key }),
    };
    call(cloud, function, "kms", &format!("TrentService.{operation}"), &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_that_the_internet_reaches_can_neither_sign_as_a_runner_nor_read_its_keys() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let [of_runners, of_jobs] = signing_keys(cloud);
    for (function, operation, key, expected) in [
        ("api", "Sign", &of_jobs, "done"),
        ("api", "GetPublicKey", &of_jobs, "done"),
        ("api", "Sign", &of_runners, "kms:Sign"),
        ("api", "GetPublicKey", &of_runners, "kms:GetPublicKey"),
        ("issuer", "GetPublicKey", &of_runners, "done"),
        ("issuer", "GetPublicKey", &of_jobs, "done"),
        ("issuer", "Sign", &of_runners, "kms:Sign"),
        ("issuer", "Sign", &of_jobs, "kms:Sign"),
        ("events", "Sign", &of_runners, "kms:Sign"),
        ("events", "Sign", &of_jobs, "kms:Sign"),
        ("launcher", "Sign", &of_jobs, "kms:Sign"),
        ("sweep", "Sign", &of_jobs, "kms:Sign"),
    ] {
        let said = use_key(cloud, function, operation, key).await;
        assert!(said.contains(expected), "{function}, {operation} with {key}: {said}");
    }
    let variables = &cloud.function("api").config().environment;
    assert!(variables.values().all(|value| !value.contains(&of_runners)), "{variables:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_that_the_internet_reaches_publishes_no_keys_and_they_come_without_it() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let event = |path: &str| {
        let mut event = crate::samples::sample("api-health");
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["path"] = path.into();
        event.to_string()
    };
    let documents = [
        "/.well-known/openid-configuration",
        "/.well-known/jwks",
        "/jobs/.well-known/openid-configuration",
        "/jobs/.well-known/jwks",
    ];
    for path in documents {
        let answer = cloud.function("api").invoke(event(path)).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["statusCode"], 404, "{path}: {answer}");
    }
    // `api` gets no requests at all from here on.
    cloud.function("api").limit_concurrency(0);
    for path in documents {
        let answer = reqwest::get(format!("{}{path}", server.url())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let document: Value = answer.json().await.unwrap();
        let name = if path.starts_with("/jobs/") { "/jobs" } else { "" };
        let issuer = format!("{}{name}", server.url());
        if path.ends_with("jwks") {
            assert_eq!(document["keys"].as_array().unwrap().len(), 1, "{path}: {document}");
        } else {
            assert_eq!(document["issuer"], issuer, "{path}");
            assert_eq!(document["jwks_uri"], format!("{issuer}/.well-known/jwks"), "{path}");
        }
    }
    let health = reqwest::get(format!("{}/health", server.url())).await.unwrap();
    assert_eq!(health.status(), StatusCode::SERVICE_UNAVAILABLE, "that is of `api`");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_that_publishes_keys_reaches_nothing_that_canyon_stores() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let table = &cloud.stack["table"]["create"]["TableName"];
    let key = json!({ "pk": { "S": "system#master-key" }, "sk": { "S": "K" } });
    for operation in ["GetItem", "PutItem", "DeleteItem"] {
        let body = json!({ "TableName": table, "Key": key, "Item": key });
        let target = format!("DynamoDB_20120810.{operation}");
        let said = call(cloud, "issuer", "dynamodb", &target, &body).await;
        assert!(said.contains(&format!("dynamodb:{operation}")), "{operation}: {said}");
    }
    let master_key = cloud.stack["keys"]["master"].as_str().unwrap();
    let said = use_key(cloud, "issuer", "GenerateDataKey", master_key).await;
    assert!(said.contains("kms:GenerateDataKey"), "{said}");
    let entry = json!({ "Source": "canyon", "DetailType": "deployment.failed", "Detail": "{}",
        "EventBusName": cloud.stack["bus"]["name"] });
    let entries = json!({ "Entries": [entry] });
    let said = call(cloud, "issuer", "events", "AWSEvents.PutEvents", &entries).await;
    assert!(said.contains("events:PutEvents"), "{said}");
    let variables = &cloud.function("issuer").config().environment;
    for name in ["CANYON_TABLE", "CANYON_BUCKET", "CANYON_MASTER_KEY", "CANYON_EVENT_BUS"] {
        assert!(!variables.contains_key(name), "it needs no {name}");
    }
}
