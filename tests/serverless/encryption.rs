//! Keys of one's own, versions, and objects that are written once: what the template declares when it is asked to.

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
fn each_store_is_encrypted_with_the_key_that_it_is_given_and_its_users_may_use_it_there_alone() {
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
        let uses = statements.iter().find(|one| one["Sid"] == "UseDataKeys");
        if role["Policies"][0]["PolicyName"] == "issuer" {
            assert_eq!(uses, None, "it stores nothing");
            continue;
        }
        let uses = uses.unwrap();
        let keys = ["TableKey", "BucketKey", "QueuesKey"].map(key);
        assert_eq!(uses["Resource"], json!(keys), "not those of logs and alarms");
        let through =
            ["dynamodb", "s3", "sqs"].map(|name| format!("{name}.{REGION}.amazonaws.com"));
        assert_eq!(uses["Condition"]["StringEquals"]["kms:ViaService"], json!(through));
    }
}

#[test]
fn without_keys_of_ones_own_no_role_has_a_right_to_any() {
    let stack = declared(&[]);
    let roles = serde_json::to_string(&of_kind(&stack, "AWS::IAM::Role")).unwrap();
    assert!(!roles.contains("UseDataKeys"), "{roles}");
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
fn versions_and_keys_of_several_regions_are_choices() {
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
async fn no_function_can_write_over_a_log_an_output_or_an_uploaded_module() {
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
            // MinIO refuses the signature, after the policy has let it pass.
            let said = put(&name, true).send().await.unwrap().text().await.unwrap();
            assert!(!said.contains("is not authorized to perform"), "{function}: {name}: {said}");
        }
    }
}
