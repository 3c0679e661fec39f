//! The resources of a deployed template: in moto, and, where moto does not store a property, in the
//! translated template with all parameters filled in.

use crate::bus::SOON;
use crate::harness::programs;
use crate::harness::server::Server;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::region::Region;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

async fn stack() -> Value {
    tokio::task::spawn_blocking(|| Region::shared().stack("looked-at")).await.unwrap()
}

/// The template's resources with these parameters.
pub(crate) fn declared(parameters: &[&str]) -> Value {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut python = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"));
    python.current_dir(root).args(["tests/cloud/stack.py", "--resources"]);
    for parameter in parameters {
        python.args(["--parameter", parameter]);
    }
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The alarms on a metric, by the value of their only dimension.
fn alarms<'a>(stack: &'a Value, namespace: &str, metric: &str) -> BTreeMap<&'a str, &'a Value> {
    let alarms = stack["alarms"].as_object().unwrap().values();
    let of = alarms.filter(|one| one["Namespace"] == namespace && one["MetricName"] == metric);
    of.map(|one| (one["Dimensions"][0]["Value"].as_str().unwrap(), one)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_has_the_shape_that_the_store_expects_and_is_kept_safe() {
    let stack = stack().await;
    let table = &stack["table"];
    let create = &table["create"];
    let keys = |pk: &str, sk: &str| json!([{ "AttributeName": pk, "KeyType": "HASH" }, { "AttributeName": sk, "KeyType": "RANGE" }]);
    assert_eq!(create["KeySchema"], keys("pk", "sk"));
    let projected = json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["project"] });
    let keys_only = json!({ "ProjectionType": "KEYS_ONLY" });
    let indexes: Vec<_> = [("gsi1", &projected), ("gsi2", &keys_only), ("gsi3", &keys_only)]
        .map(|(name, projection)| {
            let (pk, sk) = (format!("{name}pk"), format!("{name}sk"));
            json!({ "IndexName": name, "KeySchema": keys(&pk, &sk), "Projection": projection })
        })
        .into();
    assert_eq!(create["GlobalSecondaryIndexes"], json!(indexes));
    assert_eq!(create["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(create["StreamSpecification"]["StreamViewType"], "NEW_IMAGE");
    assert_eq!(create["DeletionProtectionEnabled"], true);
    assert_eq!(create["SSESpecification"]["Enabled"], true);
    assert_eq!(table["ttl"], json!({ "AttributeName": "ttl", "Enabled": true }));
    assert_eq!(table["point_in_time_recovery"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_keys_and_logs_outlive_the_stack_and_a_first_deployment_that_fails_leaves_only_the_table()
 {
    let stack = stack().await;
    let mut kept: BTreeMap<String, String> =
        serde_json::from_value(stack["retained"].clone()).unwrap();
    assert_eq!(kept.remove("Table").unwrap(), "Retain", "its protection would stop the rollback");
    let names: Vec<_> = kept.keys().map(String::as_str).collect();
    let expected = [
        "AccessLogGroup",
        "ApiLogGroup",
        "Bucket",
        "BucketPolicy",
        "EventsLogGroup",
        "IssuerLogGroup",
        "JobSigningKey",
        "LauncherLogGroup",
        "MasterKey",
        "SigningKey",
        "SweepLogGroup",
    ];
    assert_eq!(names, expected);
    assert!(kept.values().all(|policy| policy == "RetainExceptOnCreate"), "{kept:?}");
}

#[test]
fn launcher_sweep_and_issuer_have_reserved_executions() {
    let small = ["LauncherConcurrency=-1", "SweepConcurrency=-1", "IssuerConcurrency=-1"];
    for (parameters, expected) in
        [(&[][..], [json!(40), json!(2), json!(20)]), (&small, [const { Value::Null }; 3])]
    {
        let declared = declared(parameters);
        let functions = ["LauncherFunction", "SweepFunction", "IssuerFunction"];
        let reserved = functions.map(|function| {
            declared["resources"][function]["Properties"]["ReservedConcurrentExecutions"].clone()
        });
        assert_eq!(reserved, expected, "{parameters:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_gateways_own_address_is_closed_where_the_api_has_a_domain_of_its_own() {
    for (parameters, hidden) in [
        (vec![], None),
        (vec!["ApiUrl=https://canyon.example.com"], Some(true)),
        (vec!["ApiUrl=https://canyon.example.com", "ApiEndpoint=open"], None),
    ] {
        let api = &declared(&parameters)["resources"]["HttpApi"]["Properties"];
        assert_eq!(api["DisableExecuteApiEndpoint"].as_bool(), hidden, "{parameters:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_the_documents_of_the_issuers_go_past_the_api() {
    let stack = stack().await;
    let routes = json!({
        "$default": "api",
        "ANY /.well-known/{proxy+}": "issuer",
        "ANY /jobs/.well-known/{proxy+}": "issuer",
    });
    assert_eq!(stack["api"]["routes"], routes);
    let integrations = stack["api"]["integrations"].as_object().unwrap().values();
    let mut waits = BTreeMap::new();
    for integration in integrations {
        assert_eq!(integration["PayloadFormatVersion"], "2.0", "{integration}");
        let arn = integration["IntegrationUri"].as_str().unwrap().to_owned();
        waits.insert(arn, integration["TimeoutInMillis"].as_u64().unwrap());
    }
    for name in ["api", "issuer"] {
        let function = &stack["functions"][name];
        let longest = function["timeout"].as_u64().unwrap() * 1_000;
        assert!(waits[function["arn"].as_str().unwrap()] > longest, "{name} gives up first");
        let permissions = function["permissions"].as_array().unwrap();
        assert_eq!(permissions.len(), 1, "{name}: {permissions:?}");
        assert_eq!(permissions[0]["principal"], "apigateway.amazonaws.com", "{name}");
    }
}

#[test]
fn a_flood_of_requests_to_the_api_leaves_the_documents_of_the_issuers_their_own_rate() {
    let declared = declared(&["ApiRateLimit=1", "ApiBurstLimit=1"]);
    let resources = declared["resources"].as_object().unwrap();
    let stage = &resources["HttpApiStage"];
    let settings = stage["Properties"]["RouteSettings"].as_object().unwrap();
    let first = stage["DependsOn"].as_array().unwrap();
    let routes = resources.iter().filter(|(_, one)| one["Type"] == "AWS::ApiGatewayV2::Route");
    let mut rate = 0;
    for (name, route) in routes {
        let key = route["Properties"]["RouteKey"].as_str().unwrap();
        if key == "$default" {
            continue;
        }
        let own = &settings[key];
        assert!(own["ThrottlingBurstLimit"].as_u64().unwrap() >= 100, "{key}: {own}");
        rate += own["ThrottlingRateLimit"].as_u64().unwrap();
        assert!(
            first.contains(&json!(name)),
            "API Gateway refuses settings of a route that is not there"
        );
    }
    assert_eq!(settings.len(), 2);
    // "Each instance of your execution environment can serve up to 10 requests per second" (Lambda quotas).
    let executions =
        resources["IssuerFunction"]["Properties"]["ReservedConcurrentExecutions"].as_u64();
    assert_eq!(rate, 10 * executions.unwrap(), "one route's flood leaves executions to the other");
}

#[test]
fn an_upgrade_takes_the_keys_from_the_api_only_when_the_issuer_answers() {
    // CloudFormation changes a resource after those that it depends on; the function's code, after its role.
    let declared = declared(&[]);
    let role = &declared["resources"]["ApiRole"];
    let first = ["HttpApiIssuerRoute", "HttpApiJobIssuerRoute", "HttpApiInvokesIssuer"];
    assert_eq!(role["DependsOn"], json!(first));
    let of_function = &declared["resources"]["ApiFunction"]["Properties"]["Role"];
    assert_eq!(*of_function, json!({ "Fn::GetAtt": ["ApiRole", "Arn"] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bucket_is_private_and_the_keys_are_of_the_right_kind() {
    let stack = stack().await;
    let bucket = &stack["bucket"]["properties"];
    let access = bucket["PublicAccessBlockConfiguration"].as_object().unwrap();
    assert!(access.len() == 4 && access.values().all(|on| on == true), "{access:?}");
    let encryption = &bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    assert_eq!(encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"], "AES256");
    assert_eq!(bucket["OwnershipControls"]["Rules"][0]["ObjectOwnership"], "BucketOwnerEnforced");
    let policy = &stack["bucket"]["policy"]["PolicyDocument"]["Statement"][0];
    assert_eq!((&policy["Effect"], &policy["Action"]), (&json!("Deny"), &json!("s3:*")));
    assert_eq!(policy["Condition"]["Bool"]["aws:SecureTransport"], "false");
    let keys = &stack["keys"]["properties"];
    for key in ["SigningKey", "JobSigningKey"] {
        assert_eq!(keys[key]["KeySpec"], "RSA_2048");
        assert_eq!(keys[key]["KeyUsage"], "SIGN_VERIFY");
    }
    assert_eq!(keys["MasterKey"]["KeyUsage"], "ENCRYPT_DECRYPT");
    assert_eq!(keys["MasterKey"]["EnableKeyRotation"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_wakes_the_launcher_and_gives_up_in_time() {
    let stack = stack().await;
    let mapping = &stack["event_source_mapping"];
    assert_eq!(mapping["EventSourceArn"], stack["table"]["stream_arn"]);
    assert_eq!(mapping["FunctionArn"], stack["functions"]["launcher"]["arn"]);
    let filters = mapping["FilterCriteria"]["Filters"].as_array().unwrap();
    let pattern: Value = serde_json::from_str(filters[0]["Pattern"].as_str().unwrap()).unwrap();
    let woken = json!({ "NewImage": { "wake": { "BOOL": [true] } } });
    let expected = json!({ "eventName": ["INSERT", "MODIFY"], "dynamodb": woken });
    assert_eq!((filters.len(), pattern), (1, expected));
    for (name, value) in [
        ("BisectBatchOnFunctionError", json!(true)),
        ("FunctionResponseTypes", json!(["ReportBatchItemFailures"])),
        ("MaximumRetryAttempts", json!(5)),
        ("MaximumRecordAgeInSeconds", json!(900)),
        ("StartingPosition", json!("TRIM_HORIZON")),
    ] {
        assert_eq!(mapping[name], value, "{name}");
    }
    let failed = &mapping["DestinationConfig"]["OnFailure"]["Destination"];
    assert_eq!(*failed, stack["queues"]["canyon-tests-launcher-failed"]["arn"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_without_a_trace() {
    let stack = stack().await;
    let rules = stack["rules"].as_array().unwrap();
    let expected = BTreeMap::from([
        ("deployment-requested", &["events"][..]),
        ("task-stopped", &["events"]),
        ("sweep", &["sweep", "events"]),
    ]);
    assert_eq!(rules.len(), expected.len());
    for rule in rules {
        let name = rule["name"].as_str().unwrap().trim_start_matches("canyon-tests-");
        let targets = rule["targets"].as_array().unwrap();
        let functions: Vec<_> = targets.iter().filter_map(|one| one["function"].as_str()).collect();
        assert_eq!(functions, expected[name], "{name}");
        for (target, function) in targets.iter().zip(functions) {
            assert_eq!(target["dlq"], stack["queues"]["canyon-tests-undelivered"]["arn"], "{name}");
            let retries = &target["retry_policy"];
            let age = retries["MaximumEventAgeInSeconds"].as_u64().unwrap();
            assert!(age <= 3600, "{name}: {retries}");
            let invokes = stack["functions"][function]["permissions"].as_array().unwrap();
            let is_of_rule = |one: &Value| one["source_arn"] == rule["arn"];
            assert!(invokes.iter().any(is_of_rule), "{name}: {invokes:?}");
        }
    }
    let asynchronous = &stack["functions"]["events"]["asynchronous"];
    assert_eq!(asynchronous["MaximumRetryAttempts"], 2);
    assert_eq!(asynchronous["MaximumEventAgeInSeconds"], 3600);
    let failed = &asynchronous["DestinationConfig"]["OnFailure"]["Destination"];
    assert_eq!(*failed, stack["queues"]["canyon-tests-events-failed"]["arn"]);
    let watched = alarms(&stack, "AWS/SQS", "ApproximateNumberOfMessagesVisible");
    let queues = stack["queues"].as_object().unwrap();
    assert_eq!(watched.keys().collect::<BTreeSet<_>>().len(), queues.len());
    for (name, queue) in queues {
        assert!(watched.contains_key(name.as_str()), "no alarm for {name}");
        assert_eq!(
            (&queue["encrypted"], &queue["retention_seconds"]),
            (&json!(true), &json!(1_209_600))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_function_has_a_role_a_log_and_alarms_of_its_own() {
    let stack = stack().await;
    let mut roles = BTreeSet::new();
    for name in FUNCTIONS {
        let function = &stack["functions"][name];
        assert!(roles.insert(function["role"].to_string()), "{name} shares a role");
        assert_eq!(function["architectures"], json!(["arm64"]), "{name}");
        assert_eq!(function["runtime"], "provided.al2023", "{name}");
        for statement in stack["roles"][name].as_array().unwrap() {
            let text = |list: &str| statement[list].to_string();
            assert!(!text("Action").contains('*'), "{name}: {statement}");
            let without_resource = text("Action").contains("xray:");
            assert_eq!(text("Resource").contains("\"*\""), without_resource, "{name}: {statement}");
        }
        let group = function["log_group"].as_str().unwrap();
        assert_eq!(stack["log_groups"][group], 30, "{name}");
        for metric in ["Errors", "Throttles"] {
            let full = function["name"].as_str().unwrap();
            assert!(alarms(&stack, "AWS/Lambda", metric).contains_key(full), "{name}: {metric}");
        }
    }
    let dropped = alarms(&stack, "AWS/Lambda", "AsyncEventsDropped");
    assert_eq!(dropped.len(), 2, "what EventBridge calls: {dropped:?}");
    for (name, alarm) in stack["alarms"].as_object().unwrap() {
        assert_eq!(alarm["AlarmActions"][0], stack["outputs"]["AlarmTopicArn"], "{name}");
    }
    assert_eq!(stack["outputs"]["IssuerUrl"], stack["outputs"]["ApiUrl"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_alarm_of_what_is_overdue_watches_what_the_sweep_writes() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let deadline = Instant::now() + SOON;
    let metrics = loop {
        let log = cloud.function("sweep").log();
        if let Some(line) = log.lines().find(|line| line.contains("CloudWatchMetrics")) {
            break serde_json::from_str::<Value>(line).unwrap();
        }
        assert!(Instant::now() < deadline, "no metrics: {log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let written = &metrics["_aws"]["CloudWatchMetrics"][0];
    let watched = alarms(&cloud.stack, "Canyon", "OldestDueSeconds");
    let [alarm] = watched.values().collect::<Vec<_>>()[..] else { panic!("{watched:?}") };
    assert_eq!(written["Namespace"], alarm["Namespace"]);
    assert_eq!(written["Metrics"][0]["Name"], alarm["MetricName"]);
    assert_eq!(written["Dimensions"], json!([[alarm["Dimensions"][0]["Name"]]]));
    assert_eq!(metrics["Table"], cloud.stack["functions"]["sweep"]["environment"]["CANYON_TABLE"]);
    assert_eq!(alarm["Dimensions"][0]["Value"], "canyon-tests", "the table of the stack");
    assert!(metrics["OldestDueSeconds"].is_u64(), "{metrics}");
    assert_eq!(alarm["TreatMissingData"], "breaching", "silence rings too");
}
