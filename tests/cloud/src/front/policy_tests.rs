use super::*;
use serde_json::{Value, json};

fn policy(statements: Value) -> Result<Policy, String> {
    Policy::read(&serde_json::from_value::<Vec<Statement>>(statements).unwrap())
}

fn allows(statements: Value, need: &Need) -> bool {
    policy(statements).unwrap().allows(need)
}

#[test]
fn a_deny_wins_over_an_allow_and_no_match_refuses() {
    let table = "arn:aws:dynamodb:eu-west-1:123456789012:table/canyon";
    let allow = json!({"Effect": "Allow", "Action": "dynamodb:*Item", "Resource": table});
    let deny = json!({"Effect": "Deny", "Action": ["DYNAMODB:deleteitem"], "Resource": ["*"]});
    let need = |action: &str| Need::new(action, table);
    assert!(allows(json!([allow]), &need("dynamodb:PutItem")));
    assert!(!allows(json!([allow]), &need("dynamodb:Query")));
    assert!(!allows(json!([allow]), &Need::new("dynamodb:PutItem", format!("{table}/index/due"))));
    assert!(!allows(json!([allow, deny]), &need("dynamodb:DeleteItem")));
    assert!(!allows(json!([deny, allow]), &need("dynamodb:DeleteItem")));
    assert!(allows(json!([deny, allow]), &need("dynamodb:PutItem")));
    let all_but =
        json!({"Effect": "Allow", "NotAction": "dynamodb:PutItem", "NotResource": "arn:x"});
    assert!(!allows(json!([all_but]), &need("dynamodb:PutItem")));
    assert!(allows(json!([all_but]), &need("dynamodb:GetItem")));
    assert!(!allows(json!([all_but]), &Need::new("dynamodb:GetItem", "arn:x")));
}

#[test]
fn a_condition_is_enforced_and_an_unknown_one_makes_the_policy_invalid() {
    let with = |condition: Value| json!([{"Effect": "Allow", "Action": "kms:Sign", "Resource": "*", "Condition": condition}]);
    let rs256 = vec!["RSASSA_PKCS1_V1_5_SHA_256".to_owned()];
    let need = Need::new("kms:Sign", "arn:k").with("kms:SigningAlgorithm", rs256);
    for (condition, expected) in [
        (json!({"StringEquals": {"kms:SigningAlgorithm": "RSASSA_PKCS1_V1_5_SHA_256"}}), true),
        (
            json!({"StringEquals": {"KMS:signingalgorithm": ["x", "RSASSA_PKCS1_V1_5_SHA_256"]}}),
            true,
        ),
        (json!({"StringEquals": {"kms:SigningAlgorithm": "RSASSA_PSS_SHA_256"}}), false),
        (json!({"StringNotEquals": {"kms:SigningAlgorithm": "RSASSA_PSS_SHA_256"}}), true),
        (json!({"StringLike": {"kms:SigningAlgorithm": "*_SHA_256"}}), true),
        (json!({"StringEquals": {"s3:prefix": "x"}}), false),
        (json!({"StringEqualsIfExists": {"s3:prefix": "x"}}), true),
        (json!({"Null": {"s3:prefix": true}}), true),
        (json!({"Bool": {"aws:SecureTransport": false}}), false),
        (json!({"Bool": {"aws:SecureTransport": "true"}}), true),
    ] {
        assert_eq!(allows(with(condition.clone()), &need), expected, "{condition}");
    }
    let unknown = policy(with(json!({"StringEquals": {"aws:SourceIp": "10.0.0.1"}})));
    assert!(unknown.unwrap_err().contains("aws:sourceip"));
    assert!(policy(with(json!({"DateLessThan": {"s3:prefix": "x"}}))).is_err());
    assert!(policy(json!([{"Effect": "Allow", "Action": "kms:Sign"}])).is_err());
}

#[test]
fn a_role_may_write_the_items_whose_keys_its_policy_names_and_no_others() {
    let statements = json!([{
        "Effect": "Allow", "Action": "dynamodb:*", "Resource": "*",
        "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["*#dep#*", "*#idem#*"]}},
    }]);
    for (keys, expected) in [
        (vec!["a#dep#1"], true),
        (vec!["a#dep#1", "a#idem#2"], true),
        (vec!["a#dep#1", "system#master-key"], false),
        (vec!["token#x"], false),
    ] {
        let keys: Vec<_> = keys.into_iter().map(str::to_owned).collect();
        let need =
            Need::new("dynamodb:PutItem", "arn:t").with("dynamodb:LeadingKeys", keys.clone());
        assert_eq!(allows(statements.clone(), &need), expected, "{keys:?}");
    }
}
