//! The installer's policy, checked against each call that CloudFormation makes in the installer's name: those that AWS
//! publishes for each kind of resource (`tests/cloud/installer.py`). `install.rs` checks the calls of `sam` and `aws`
//! themselves.

use crate::harness::programs;
use canyon_cloud::front::Policy;
use canyon_cloud::region::{ACCOUNT, REGION};
use canyon_cloud::stack::Statement;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

const BOUNDARY: &str = "arn:aws:iam::123456789012:policy/bounds";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A policy of `infra/aws` with an account's names in place of those that the installer replaces, and with a change.
fn document(file: &str, change: impl FnOnce(Value) -> Value) -> Value {
    let text = fs::read_to_string(root().join("infra/aws").join(file)).unwrap();
    let text = text.replace("CODE_BUCKET", "aws-sam-cli-managed-default-samclisourcebucket-*");
    let text = text.replace("REGION", REGION).replace("ACCOUNT", ACCOUNT);
    change(serde_json::from_str(&text).unwrap())
}

fn read(document: &Value) -> Policy {
    let statements: Vec<Statement> = serde_json::from_value(document["Statement"].clone()).unwrap();
    Policy::read(&statements).unwrap()
}

/// The installer's policy.
pub(crate) fn policy(change: impl FnOnce(Value) -> Value) -> Policy {
    read(&document("installer-policy.json", change))
}

/// The same, with the rights that a restore needs in addition.
pub(crate) fn policy_with_restore() -> Policy {
    let mut both = document("installer-policy.json", |policy| policy);
    let mut more = document("restore-policy.json", |policy| policy);
    let statements = both["Statement"].as_array_mut().unwrap();
    statements.append(more["Statement"].as_array_mut().unwrap());
    read(&both)
}

/// As docs/install-aws.md says: roles that it creates must have the boundary.
fn bounded(mut policy: Value) -> Value {
    let statements = policy["Statement"].as_array_mut().unwrap();
    let of_roles = statements.iter_mut().find(|one| one["Sid"] == "RolePolicies").unwrap();
    of_roles["Condition"]["StringEquals"]["iam:PermissionsBoundary"] = json!(BOUNDARY);
    policy
}

/// The refused calls of CloudFormation for a stack with these parameters, as `step resource action ARN`.
fn refused(policy: &Policy, parameters: &[&str]) -> BTreeSet<String> {
    let mut python = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"));
    python.current_dir(root()).arg("tests/cloud/installer.py");
    for parameter in parameters {
        python.args(["--parameter", parameter]);
    }
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let calls: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(calls.len() > 500, "{} calls", calls.len());
    let refused = calls.iter().filter(|call| {
        let context: BTreeMap<_, _> = serde_json::from_value(call["context"].clone()).unwrap();
        let text = |name: &str| call[name].as_str().unwrap();
        !policy.permits(text("action"), text("arn"), &context)
    });
    let shown = refused.map(|call| {
        let words = ["step", "resource", "action", "arn"].map(|name| call[name].as_str().unwrap());
        words.join(" ")
    });
    shown.collect()
}

#[test]
fn the_installer_may_do_what_cloudformation_does_in_its_name_with_and_without_a_boundary() {
    let boundary = format!("PermissionsBoundary={BOUNDARY}");
    let plain = policy(|policy| policy);
    let none = BTreeSet::new();
    assert_eq!(refused(&plain, &[]), none);
    assert_eq!(refused(&plain, &["SourceAccounts=111122223333", &boundary]), none);
    let keys = ["TableKey", "BucketKey", "LogsKey", "QueuesKey", "TopicKey"];
    let keys = keys.map(|name| format!("{name}=arn:aws:kms:{REGION}:{ACCOUNT}:key/theirs"));
    assert_eq!(refused(&plain, &keys.each_ref().map(String::as_str)), none);
    assert_eq!(refused(&plain, &["BucketVersions=true", "MultiRegionKeys=true"]), none);
    let bounded = policy(bounded);
    assert_eq!(refused(&bounded, &[&boundary]), none);
    let unbounded = refused(&bounded, &[]);
    let makes_a_role = "install ApiRole iam:CreateRole";
    assert!(unbounded.iter().any(|call| call.starts_with(makes_a_role)), "{unbounded:?}");
    assert!(unbounded.iter().all(|call| call.contains("Role iam:")), "{unbounded:?}");
}

#[test]
fn the_installer_can_neither_reach_data_or_other_names_nor_use_its_rights_directly() {
    let policy = policy(|policy| policy);
    let via =
        |service: &str| BTreeMap::from([("aws:CalledViaFirst".to_owned(), service.to_owned())]);
    let (alone, cloudformation) = (BTreeMap::new(), via("cloudformation.amazonaws.com"));
    let table = format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/canyon");
    let role = |name: &str| format!("arn:aws:iam::{ACCOUNT}:role/{name}");
    for (action, resource, context) in [
        ("dynamodb:GetItem", table.clone(), &alone),
        ("dynamodb:Scan", table.clone(), &cloudformation),
        ("dynamodb:DeleteTable", table, &cloudformation),
        ("s3:GetObject", format!("arn:aws:s3:::canyon-{ACCOUNT}-{REGION}/x"), &cloudformation),
        ("s3:DeleteBucket", format!("arn:aws:s3:::canyon-{ACCOUNT}-{REGION}"), &alone),
        ("kms:Decrypt", "arn:aws:kms:us-east-1:123456789012:key/ours".to_owned(), &alone),
        ("kms:ScheduleKeyDeletion", "arn:aws:kms:us-east-1:1:key/x".to_owned(), &cloudformation),
        (
            "lambda:InvokeFunction",
            format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:canyon-api"),
            &alone,
        ),
        ("iam:CreateRole", role("canyon-api"), &alone),
        ("iam:CreateRole", role("administrator"), &cloudformation),
        ("iam:DeleteRolePermissionsBoundary", role("canyon-api"), &cloudformation),
    ] {
        assert!(!policy.permits(action, &resource, context), "{action} on {resource}");
    }
}

#[test]
fn the_restoring_principal_may_use_the_tables_key_through_dynamodb_only() {
    let policy = policy_with_restore();
    let key = format!("arn:aws:kms:{REGION}:{ACCOUNT}:key/theirs");
    let via = |service: &str| {
        BTreeMap::from([("kms:ViaService".to_owned(), format!("{service}.{REGION}.amazonaws.com"))])
    };
    // "Permissions on the customer managed key": the rights that DynamoDB needs from the principal that creates a table
    // with it. (DynamoDB guide, "DynamoDB encryption at rest: usage of KMS keys".)
    for action in
        ["CreateGrant", "Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptTo"]
    {
        let action = format!("kms:{action}");
        assert!(policy.permits(&action, &key, &via("dynamodb")), "{action}");
        assert!(!policy.permits(&action, &key, &via("s3")), "{action} through S3");
        assert!(!policy.permits(&action, &key, &BTreeMap::new()), "{action} directly");
    }
}

#[test]
fn the_installers_policy_fits_into_a_role() {
    // "The maximum size of all inline policies of a role: 10,240 characters", without white space. (IAM quotas.)
    let text = fs::read_to_string(root().join("infra/aws/installer-policy.json")).unwrap();
    let size = text.chars().filter(|letter| !letter.is_whitespace()).count();
    assert!(size < 10_000, "{size}: names of accounts and regions are longer than their words");
}
