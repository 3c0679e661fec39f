//! Customer-managed keys, versions, and objects that are written once: what the template declares on request.

use crate::harness::server::Server;
use crate::stack::declared;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::region::REGION;
use reqwest::Method;
use serde_json::{Value, json};

const KEY: &str = "arn:aws:kms:us-east-1:123456789012:key/";

fn of_kind<'a>(stack: &'a Value, kind: &str) -> Vec<&'a Value> {
    let resources = stack["resources"].as_object().unwrap().values();
    let found: Vec<_> =
        resources.filter(|one| one["Type"] == kind).map(|one| &one["Properties"]).collect();
    assert!(!found.is_empty(), "{kind}");
    found
}

#[test]
fn each_store_is_encrypted_with_its_configured_key_and_its_users_may_use_the_key_only_there() {
    let names = ["TableKey", "BucketKey", "LogsKey", "QueuesKey", "TopicKey"];
    let given = names.map(|name| format!("{name}={KEY}{name}"));
    let stack = declared(&given.each_ref().map(String::as_str));
    let key = |name: &str| json!(format!("{KEY}{name}"));
    let table = &of_kind(&stack, "AWS::DynamoDB::Table")[0]["SSESpecification"];
    let of_table =
        json!({ "SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": key("TableKey") });
    assert_eq!(*table, of_table);
    let bucket = &of_kind(&stack, "AWS::S3::Bucket")[0]["BucketEncryption"];
    let bucket = &bucket["ServerSideEncryptionConfiguration"][0];
    assert_eq!(bucket["BucketKeyEnabled"], true);
    assert_eq!(bucket["ServerSideEncryptionByDefault"]["KMSMasterKeyID"], key("BucketKey"));
    for group in of_kind(&stack, "AWS::Logs::LogGroup") {
        assert_eq!(group["KmsKeyId"], key("LogsKey"), "{group}");
    }
    for queue in of_kind(&stack, "AWS::SQS::Queue") {
        assert_eq!(
            (&queue["KmsMasterKeyId"], &queue["SqsManagedSseEnabled"]),
            (&key("QueuesKey"), &json!(false))
        );
    }
    assert_eq!(of_kind(&stack, "AWS::SNS::Topic")[0]["KmsMasterKeyId"], key("TopicKey"));
    for role in of_kind(&stack, "AWS::IAM::Role") {
        let statements = role["Policies"][0]["PolicyDocument"]["Statement"].as_array().unwrap();
        let name = role["Policies"][0]["PolicyName"].as_str().unwrap();
        let mut found: Vec<_> = statements.iter().flat_map(rights_on_keys).collect();
        found.sort();
        // By a service, the actions on the keys of what it stores there.
        let (writes, reads) =
            ("Decrypt DescribeKey Encrypt GenerateDataKey ReEncryptFrom ReEncryptTo", "Decrypt");
        let mut wanted = match name {
            "api" | "sweep" => vec![("BucketKey", "s3", writes), ("TableKey", "dynamodb", writes)],
            "launcher" => vec![
                ("BucketKey", "s3", writes),
                ("QueuesKey", "sqs", "Decrypt GenerateDataKey"),
                ("TableKey", "dynamodb", writes),
            ],
            "events" => vec![
                ("BucketKey", "s3", reads),
                ("QueuesKey", "sqs", "Decrypt GenerateDataKey"),
                ("TableKey", "dynamodb", writes),
            ],
            "issuer" => vec![],
            other => panic!("{other}"),
        };
        wanted.sort_unstable();
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(key, by, actions)| [key, by, actions].map(str::to_owned))
            .collect();
        assert_eq!(found, wanted, "{name}");
    }
}

/// Key, service and actions of each of the given keys that a statement names. A statement about keys of two stores names the
/// services in the same order.
fn rights_on_keys(statement: &Value) -> Vec<[String; 3]> {
    let list = |value: &Value| match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(one) => vec![one.clone()],
        _ => Vec::new(),
    };
    let keys = list(&statement["Resource"]);
    let services = list(&statement["Condition"]["StringEquals"]["kms:ViaService"]);
    let mut actions = list(&statement["Action"]);
    actions.sort();
    let actions = actions.join(" ").replace("kms:", "");
    let given =
        keys.iter().enumerate().filter_map(|(place, key)| Some((place, key.strip_prefix(KEY)?)));
    let right = |(place, key): (usize, &str)| {
        let service = services.get(place).unwrap_or_else(|| panic!("{statement}: by any service"));
        let service = service.strip_suffix(&format!(".{REGION}.amazonaws.com")).unwrap();
        [key.to_owned(), service.to_owned(), actions.clone()]
    };
    given.map(right).collect()
}

#[test]
fn without_customer_managed_keys_no_role_may_use_any() {
    let stack = declared(&[]);
    let roles = serde_json::to_string(&of_kind(&stack, "AWS::IAM::Role")).unwrap();
    for right in ["UseDataKeys", "UseQueuesKey", "UseTableKey", "ReadObjectsByKey"] {
        assert!(!roles.contains(right), "{roles}");
    }
    for queue in of_kind(&stack, "AWS::SQS::Queue") {
        assert_eq!(
            (&queue["SqsManagedSseEnabled"], queue.get("KmsMasterKeyId")),
            (&json!(true), None)
        );
    }
    let keys = of_kind(&stack, "AWS::KMS::Key");
    assert!(keys.iter().all(|key| key.get("MultiRegion").is_none()), "{keys:?}");
}

#[test]
fn versions_and_multi_region_keys_are_optional() {
    let stack = declared(&["BucketVersions=true", "MultiRegionKeys=true"]);
    let bucket = of_kind(&stack, "AWS::S3::Bucket")[0];
    assert_eq!(bucket["VersioningConfiguration"]["Status"], "Enabled");
    let rules = bucket["LifecycleConfiguration"]["Rules"].as_array().unwrap();
    let former = rules.iter().find(|rule| rule["Id"] == "former-versions").unwrap();
    assert_eq!(former["NoncurrentVersionExpiration"]["NoncurrentDays"], 30);
    let keys = of_kind(&stack, "AWS::KMS::Key");
    assert!(keys.iter().all(|key| key["MultiRegion"] == true), "{keys:?}");
    let plain = declared(&[]);
    let bucket = of_kind(&plain, "AWS::S3::Bucket")[0];
    assert!(bucket.get("VersioningConfiguration").is_none(), "{bucket}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_function_can_overwrite_a_log_an_output_or_an_uploaded_module() {
    let server = Server::start().await;
    let cloud = server.cloud();
    let bucket = cloud.stack["bucket"]["name"].as_str().unwrap();
    for function in FUNCTIONS.into_iter().filter(|name| !["events", "issuer"].contains(name)) {
        let config = cloud.function(function).config();
        let endpoint = &config.environment["AWS_ENDPOINT_URL"];
        let key = &config.credentials.access_key_id;
        let scope = format!("{key}/20260101/{REGION}/s3/aws4_request");
        let put = |name: &str, once: bool| {
            let url = format!("{endpoint}/{bucket}/{name}");
            let signed = "SignedHeaders=host;x-amz-date, Signature=00";
            let request = reqwest::Client::new()
                .request(Method::PUT, url)
                .header("authorization", format!("AWS4-HMAC-SHA256 Credential={scope}, {signed}"))
                .body("log");
            if once { request.header("if-none-match", "*") } else { request }
        };
        let outputs = "organization/deployments/0199/attempts/1/outputs.json";
        let mut names = vec![outputs.to_owned()];
        // The other functions may write no module at all.
        names.extend((function == "api").then(|| format!("organization/archives/{:064x}", 1)));
        for name in names {
            let said = put(&name, false).send().await.unwrap().text().await.unwrap();
            assert!(
                said.contains("<Code>AccessDenied</Code>") && said.contains("s3:PutObject"),
                "{name}: {said}"
            );
            // MinIO refuses the signature, after the policy has allowed the call.
            let said = put(&name, true).send().await.unwrap().text().await.unwrap();
            assert!(!said.contains("is not authorized to perform"), "{function}: {name}: {said}");
        }
    }
}
