//! The whole path, from writes to a real stream, through the front, to the function.

use super::*;
use crate::front::{Account, Front, Policy, Upstreams};
use crate::parts::dynamodb_local::DynamoDbLocal;
use crate::stack::Statement;
use std::collections::BTreeMap;

const STREAM: &str = "arn:aws:dynamodb:eu-west-1:123456789012:table/canyon/stream/1";
const LIMIT: Duration = Duration::from_secs(20);

struct Site {
    _database: DynamoDbLocal,
    url: String,
    client: reqwest::Client,
    front: Front,
    source: StreamSource,
}

/// A table with a stream, and a front whose `launcher` may read that stream and nothing else.
async fn site() -> Site {
    let database = DynamoDbLocal::start().await;
    let url = database.url().to_owned();
    let account = Account {
        id: "123456789012".to_owned(),
        region: "eu-west-1".to_owned(),
        streams: BTreeMap::from([("canyon".to_owned(), STREAM.to_owned())]),
        ..Account::default()
    };
    let upstreams =
        Upstreams { dynamodb: url.clone(), database: None, s3: url.clone(), other: url.clone() };
    let front = Front::new(account, upstreams, 1);
    let role = json!([
        {"Effect": "Allow", "Resource": STREAM,
         "Action": ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"]},
        {"Effect": "Allow", "Resource": "arn:aws:dynamodb:*:*:table/canyon/stream/*", "Action": "dynamodb:ListStreams"},
    ]);
    let role: Vec<Statement> = serde_json::from_value(role).unwrap();
    let endpoint = front.open("launcher", Policy::read(&role).unwrap()).await.unwrap();
    let source = StreamSource {
        endpoint,
        access_key: "AKID".to_owned(),
        region: "eu-west-1".to_owned(),
        table: "canyon".to_owned(),
    };
    let site = Site { _database: database, url, client: reqwest::Client::new(), front, source };
    site.call(
        "CreateTable",
        json!({
            "TableName": "canyon", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
        }),
    )
    .await;
    site
}

impl Site {
    async fn call(&self, operation: &str, body: Value) {
        let scope = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/dynamodb/aws4_request, \
                     SignedHeaders=host, Signature=00";
        let request = self.client.post(&self.url).header("authorization", scope);
        let request = request.header("x-amz-target", format!("DynamoDB_20120810.{operation}"));
        let request = request.header("content-type", "application/x-amz-json-1.0");
        let answer = request.body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{operation}: {}", answer.text().await.unwrap());
    }

    async fn put(&self, key: &str, round: u32, wake: bool) {
        let mut item = json!({"pk": {"S": key}, "round": {"N": round.to_string()}});
        if wake {
            item["wake"] = json!({"BOOL": true});
        }
        self.call("PutItem", json!({"TableName": "canyon", "Item": item})).await;
    }

    async fn start(&self, change: Value, script: &Arc<Script>) -> Mapping {
        let settings = Settings {
            source: self.source.clone(),
            target: script.clone(),
            function_arn: "arn:f".to_owned(),
            may_send: Box::new(|_| true),
            scale: 1_000.0,
            seed: 5,
        };
        let mut mapping = super::mapping(&json!({
            "EventSourceArn": STREAM,
            "FilterCriteria": {"Filters": [{"Pattern":
                "{\"eventName\":[\"INSERT\",\"MODIFY\"],\"dynamodb\":{\"NewImage\":{\"wake\":{\"BOOL\":[true]}}}}"}]},
        }));
        let change = super::mapping(&change);
        mapping.parallelization_factor = change.parallelization_factor;
        mapping.starting_position = change.starting_position;
        Mapping::start(&mapping, settings).await.unwrap()
    }
}

#[tokio::test]
async fn records_that_pass_the_filter_arrive_in_lambdas_form() {
    let site = site().await;
    site.put("before", 1, true).await;
    let script = Script::content();
    let mapping = site.start(json!({}), &script).await;
    site.put("quiet", 1, false).await;
    site.put("after", 1, true).await;
    site.call("DeleteItem", json!({"TableName": "canyon", "Key": {"pk": {"S": "after"}}})).await;
    mapping.settled(LIMIT).await.unwrap();
    assert_eq!(script.keys().concat(), ["before", "after"]);
    let record = lock(&script.payloads)[0]["Records"][0].clone();
    assert_eq!(record["eventSourceARN"], STREAM);
    assert_eq!(
        (&record["awsRegion"], &record["eventSource"]),
        (&json!("eu-west-1"), &json!("aws:dynamodb"))
    );
    assert!(record["eventID"].is_string() && record["eventVersion"].is_string());
    let change = &record["dynamodb"];
    assert_eq!(
        change["NewImage"],
        json!({"pk": {"S": "before"}, "round": {"N": "1"}, "wake": {"BOOL": true}})
    );
    assert!(change["ApproximateCreationDateTime"].is_u64() && change["SizeBytes"].is_u64());
    assert!(change["SequenceNumber"].as_str().unwrap().parse::<u128>().is_ok());
    assert_eq!(change["StreamViewType"], "NEW_IMAGE");
    let counts = mapping.counts();
    assert_eq!((counts.read, counts.passed, counts.failures), (4, 2, 0));
    let used = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"];
    let used = used.map(|name| format!("dynamodb:{name}"));
    assert_eq!(site.front.used_actions("launcher"), used.into());
    mapping.stop().await;
    let late = site.start(json!({"StartingPosition": "LATEST"}), &script).await;
    site.put("latest", 1, true).await;
    late.settled(LIMIT).await.unwrap();
    assert_eq!(script.keys().concat(), ["before", "after", "latest"]);
}

#[tokio::test]
async fn many_batches_at_once_and_a_disturbed_stream_still_keep_each_item_in_order() {
    let site = site().await;
    let script = Script::choking(&["13"]);
    script.slowness.store(20, Ordering::SeqCst);
    for round in 0..5 {
        for item in 0..20 {
            site.put(&format!("item-{item}"), round, true).await;
        }
    }
    let mapping = site.start(json!({"ParallelizationFactor": 10}), &script).await;
    mapping.disturb(Disturbance { copies: 2, shuffle: true, ..Disturbance::default() });
    mapping.poison();
    mapping.settled(LIMIT).await.unwrap();
    let payloads = lock(&script.payloads).clone();
    let mut rounds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in payloads.iter().flat_map(|event| event["Records"].as_array().unwrap()) {
        let image = &record["dynamodb"]["NewImage"];
        if let Some(key) = image["pk"]["S"].as_str() {
            let round = image["round"]["N"].as_str().unwrap().to_owned();
            rounds.entry(key.to_owned()).or_default().push(round);
        }
    }
    assert_eq!(rounds.len(), 20);
    for (key, rounds) in rounds {
        assert!(
            rounds.len() >= 10,
            "{key} came {} times, and each of five was to come twice",
            rounds.len()
        );
        let mut first: Vec<_> = Vec::new();
        for round in rounds {
            if !first.contains(&round) {
                first.push(round);
            }
        }
        assert_eq!(first, ["0", "1", "2", "3", "4"], "{key}");
    }
    assert_eq!(mapping.failed().len(), 1, "the poison record, once");
    mapping.disturb(Disturbance { off: true, ..Disturbance::default() });
    let before = script.keys().len();
    site.put("unseen", 1, true).await;
    mapping.settled(LIMIT).await.unwrap();
    mapping.calm();
    mapping.settled(LIMIT).await.unwrap();
    assert_eq!((script.keys().len(), mapping.counts().dropped), (before, 1));
}
