mod faults;

use super::*;
use crate::stack::Statement;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;

/// The calls that reached the service behind the front: request line, host, body.
type Seen = Arc<Mutex<Vec<(String, String, String)>>>;

/// A service that records its calls, and answers `PutEvents` with ids and everything else with `{}`. The header `signed`
/// of an answer is the signature that it got.
async fn service() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let log = seen.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let log = log.clone();
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                let log = log.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let host = head.headers["host"].to_str().unwrap().to_owned();
                    let line = format!("{} {}", head.method, head.uri);
                    let body = String::from_utf8_lossy(&body).into_owned();
                    let events = json!({"FailedEntryCount": 1, "Entries": [{"EventId": "e-1"}, {"ErrorCode": "X"}]});
                    let answer = if body.contains("Entries") { events } else { json!({}) };
                    log.lock().unwrap().push((line, host, body));
                    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
                    let signature = head.headers["authorization"].clone();
                    response.headers_mut().insert("signed", signature);
                    if head.uri.path().ends_with("missing") {
                        *response.status_mut() = StatusCode::NOT_FOUND;
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    (url, seen)
}

async fn front() -> (Front, Seen) {
    let (url, seen) = service().await;
    let account = Account {
        id: "123456789012".to_owned(),
        region: "eu-west-1".to_owned(),
        key_aliases: BTreeMap::from([("alias/master".to_owned(), key("m"))]),
        ..Account::default()
    };
    let upstreams = Upstreams {
        dynamodb: url.clone(),
        database: Some("own".to_owned()),
        s3: url.clone(),
        other: url,
    };
    (Front::new(account, upstreams, 1), seen)
}

fn key(id: &str) -> String {
    format!("arn:aws:kms:eu-west-1:123456789012:key/{id}")
}

fn policy(actions: &[(&str, &str)]) -> Policy {
    let statements = actions.iter().map(|(action, resource)| {
        json!({"Effect": "Allow", "Action": action, "Resource": resource, "Sid": "passed over"})
    });
    let statements: Vec<Statement> = serde_json::from_value(statements.collect()).unwrap();
    Policy::read(&statements).unwrap()
}

fn signed(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/{service}/aws4_request, \
         SignedHeaders=host, Signature=00"
    )
}

thread_local! {
    /// Each test has a thread of its own, and creating a client takes a while.
    static CLIENT: reqwest::Client = reqwest::Client::new();
}

fn client() -> reqwest::Client {
    CLIENT.with(Clone::clone)
}

async fn call(url: &str, service: &str, target: &str, body: &Value) -> (u16, Value) {
    let request = client().post(url).header("authorization", signed(service));
    let answer =
        request.header("x-amz-target", target).body(body.to_string()).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn s3(url: &str, method: reqwest::Method, path: &str) -> reqwest::Response {
    let request = client().request(method, format!("{url}{path}"));
    request.header("authorization", signed("s3")).send().await.unwrap()
}

const TABLE: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/canyon";

#[tokio::test]
async fn calls_of_dynamodb_get_the_key_of_the_clouds_database_and_others_keep_theirs() {
    let (front, _) = front().await;
    let url = front.open("api", Policy::administrator()).await.unwrap();
    for (service, target, key) in [
        ("dynamodb", "DynamoDB_20120810.ListTables", "own"),
        ("dynamodb", "DynamoDBStreams_20120810.ListStreams", "own"),
        ("kms", "TrentService.ListKeys", "AKID"),
    ] {
        let request = client().post(&url).header("authorization", signed(service));
        let answer = request.header("x-amz-target", target).body("{}").send().await.unwrap();
        let expected = signed(service).replace("AKID", key);
        assert_eq!(answer.headers()["signed"], expected.as_str(), "{target}");
    }
}

#[tokio::test]
async fn a_transaction_needs_the_action_of_each_of_its_items() {
    let (front, seen) = front().await;
    let granted = policy(&[("dynamodb:PutItem", TABLE), ("dynamodb:ConditionCheckItem", TABLE)]);
    let url = front.open("api", granted).await.unwrap();
    let item = |member: &str| json!({member: {"TableName": "canyon"}});
    let write = |members: &[&str]| json!({"TransactItems": members.iter().map(|name| item(name)).collect::<Vec<_>>()});
    let target = "DynamoDB_20120810.TransactWriteItems";
    let (status, _) =
        call(&url, "dynamodb", target, &write(&["Put", "ConditionCheck", "Put"])).await;
    assert_eq!(status, 200);
    let (status, refused) = call(&url, "dynamodb", target, &write(&["Put", "Delete"])).await;
    assert_eq!((status, seen.lock().unwrap().len()), (400, 1), "the second must not go through");
    assert_eq!(refused["__type"], "com.amazon.coral.service#AccessDeniedException");
    assert!(
        refused["message"].as_str().unwrap().contains("dynamodb:DeleteItem on resource: arn:aws")
    );
    assert_eq!(front.records().len(), 3, "two different needs, and what was refused");
    let used =
        BTreeSet::from(["dynamodb:ConditionCheckItem", "dynamodb:PutItem"].map(String::from));
    assert_eq!(front.used_actions("api"), used);
    let denied = front.denied();
    assert_eq!((denied.len(), denied[0].action.as_str()), (1, "dynamodb:DeleteItem"));
}

#[tokio::test]
async fn every_call_needs_the_action_and_resource_that_aws_documents() {
    let (front, _) = front().await;
    let url = front.open("any", Policy::administrator()).await.unwrap();
    let stream = format!("{TABLE}/stream/2026");
    let local = "arn:aws:dynamodb:ddblocal:000000000000:table/canyon/stream/2026";
    let ciphertext = {
        use base64::Engine as _;
        let blob = format!("{}rest", "d".repeat(36));
        base64::engine::general_purpose::STANDARD.encode(blob)
    };
    for (service, target, body, action, resource) in [
        (
            "dynamodb",
            "DynamoDB_20120810.GetItem",
            json!({"TableName": "canyon"}),
            "dynamodb:GetItem",
            TABLE.to_owned(),
        ),
        (
            "dynamodb",
            "DynamoDB_20120810.Query",
            json!({"TableName": TABLE, "IndexName": "due"}),
            "dynamodb:Query",
            format!("{TABLE}/index/due"),
        ),
        (
            "dynamodb",
            "DynamoDB_20120810.BatchGetItem",
            json!({"RequestItems": {"canyon": {}}}),
            "dynamodb:BatchGetItem",
            TABLE.to_owned(),
        ),
        (
            "dynamodb",
            "DynamoDB_20120810.TransactGetItems",
            json!({"TransactItems": [{"Get": {"TableName": "canyon"}}]}),
            "dynamodb:GetItem",
            TABLE.to_owned(),
        ),
        (
            "dynamodb",
            "DynamoDBStreams_20120810.DescribeStream",
            json!({"StreamArn": local}),
            "dynamodb:DescribeStream",
            stream.clone(),
        ),
        (
            "dynamodb",
            "DynamoDBStreams_20120810.GetRecords",
            json!({"ShardIterator": format!("{local}|001|x")}),
            "dynamodb:GetRecords",
            stream.clone(),
        ),
        (
            "dynamodb",
            "DynamoDBStreams_20120810.ListStreams",
            json!({"TableName": "canyon"}),
            "dynamodb:ListStreams",
            format!("{TABLE}/stream/*"),
        ),
        ("kms", "TrentService.Sign", json!({"KeyId": "k"}), "kms:Sign", key("k")),
        (
            "kms",
            "TrentService.GetPublicKey",
            json!({"KeyId": key("k")}),
            "kms:GetPublicKey",
            key("k"),
        ),
        (
            "kms",
            "TrentService.GenerateDataKey",
            json!({"KeyId": "alias/master"}),
            "kms:GenerateDataKey",
            key("m"),
        ),
        (
            "kms",
            "TrentService.Decrypt",
            json!({"CiphertextBlob": ciphertext}),
            "kms:Decrypt",
            key(&"d".repeat(36)),
        ),
        (
            "events",
            "AWSEvents.PutEvents",
            json!({"Entries": [{"EventBusName": "canyon"}]}),
            "events:PutEvents",
            "arn:aws:events:eu-west-1:123456789012:event-bus/canyon".to_owned(),
        ),
        (
            "ecs",
            "AmazonEC2ContainerServiceV20141113.RunTask",
            json!({"taskDefinition": "arn:t"}),
            "ecs:RunTask",
            "arn:t".to_owned(),
        ),
    ] {
        front.forget();
        call(&url, service, target, &body).await;
        let records = front.records();
        let found: Vec<_> =
            records.iter().map(|found| (&*found.action, &*found.resource)).collect();
        assert_eq!(found, [(action, &*resource)], "{target}");
    }
}

#[tokio::test]
async fn s3_calls_are_parsed_by_method_and_path_and_missing_objects_hidden_without_list_bucket() {
    use reqwest::Method;
    let (front, seen) = front().await;
    let objects = policy(&[
        ("s3:GetObject", "arn:aws:s3:::blobs/*"),
        ("s3:PutObject", "arn:aws:s3:::blobs/a/*"),
    ]);
    let api = front.open("api", objects).await.unwrap();
    let admin = front.open("admin", Policy::administrator()).await.unwrap();
    for (method, path, action, resource) in [
        (Method::GET, "/blobs?list-type=2&prefix=a", "s3:ListBucket", "blobs"),
        (Method::GET, "/blobs/a/b%20c", "s3:GetObject", "blobs/a/b c"),
        (Method::HEAD, "/blobs/a", "s3:GetObject", "blobs/a"),
        (Method::PUT, "/blobs/a", "s3:PutObject", "blobs/a"),
        (Method::POST, "/blobs/a?uploads", "s3:PutObject", "blobs/a"),
        (Method::DELETE, "/blobs/a?uploadId=1", "s3:AbortMultipartUpload", "blobs/a"),
        (Method::DELETE, "/blobs/a", "s3:DeleteObject", "blobs/a"),
    ] {
        front.forget();
        s3(&admin, method.clone(), path).await;
        let found = front.records();
        let resource = format!("arn:aws:s3:::{resource}");
        let expected = vec![(action, &*resource)];
        let found: Vec<_> = found.iter().map(|one| (&*one.action, &*one.resource)).collect();
        assert_eq!(found, expected, "{method} {path}");
    }
    front.forget();
    seen.lock().unwrap().clear();
    let refused = s3(&api, Method::PUT, "/blobs/b").await;
    assert_eq!(refused.status(), 403);
    assert!(refused.text().await.unwrap().contains("<Code>AccessDenied</Code>"));
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(s3(&api, Method::GET, "/blobs/missing").await.status(), 403, "it may not list");
    assert_eq!(s3(&admin, Method::GET, "/blobs/missing").await.status(), 404);
    let actions: Vec<_> = front.denied().into_iter().map(|record| record.action).collect();
    assert_eq!(actions, ["s3:PutObject", "s3:ListBucket"]);
}

#[tokio::test]
async fn forwarded_calls_are_unchanged() {
    let (front, seen) = front().await;
    let url = front.open("api", Policy::administrator()).await.unwrap();
    let path = "/blobs/a//b%2Fc/%7e?x-id=PutObject&marker=%20+";
    let client = client();
    let request = client.put(format!("{url}{path}")).header("authorization", signed("s3"));
    request.body("bytes").send().await.unwrap();
    let (line, host, body) = seen.lock().unwrap()[0].clone();
    assert_eq!(
        format!("http://{host}"),
        url,
        "the signature covers the host that the caller named"
    );
    assert!(line.ends_with(path) && body == "bytes", "{line} {body}");
    let unsigned = client.get(&url).send().await.unwrap();
    assert_eq!(unsigned.status(), 403);
}

#[tokio::test]
async fn an_aws_service_that_acts_for_a_function_needs_the_function_s_role() {
    let (front, _) = front().await;
    front.open("launcher", policy(&[("sqs:SendMessage", "arn:aws:sqs:*:*:dead")])).await.unwrap();
    assert!(front.authorize("launcher", "sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:dead"));
    assert!(!front.authorize("launcher", "sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:other"));
    assert!(!front.authorize("unknown", "sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:dead"));
}
