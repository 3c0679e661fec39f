//! AWS: `AssumeRoleWithWebIdentity`.

use crate::harness::{Canyon, ROLE, account, aws_auth, role, runner};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::federation::RunnerIdentity;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

const ACCOUNT: &str = "123456789012";

async fn refusal(canyon: &Canyon, who: RunnerIdentity, auth: &AwsAuth, session: &str) -> String {
    let error = canyon.again().aws(who, auth, "eu-central-1", session).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Config, "{error}");
    canyon.stable(who, &error.to_string())
}

fn accounts(account: &Value) -> Value {
    json!({ "aws": { "accounts": { ACCOUNT: account } } })
}

#[tokio::test]
async fn a_role_that_trusts_the_runner_returns_credentials_for_an_hour() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon.set(accounts(&account(&canyon.url, who))).await;
    let given = canyon.federation.aws(who, &aws_auth(), "eu-central-1", "acme-shop").await.unwrap();
    assert!(given.access_key_id().starts_with("ASIA"), "{given:?}");
    assert!(given.session_token().is_some(), "{given:?}");
    let left = given.expiry().unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(left > Duration::from_mins(58) && left <= Duration::from_hours(1), "{left:?}");
    let calls = canyon.strict.calls("aws_sts").await;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["session_name"], "acme-shop");
    assert_eq!(calls[0]["sub"], who.subject());
}

#[tokio::test]
async fn each_rejection_states_what_to_change_in_aws() {
    let (canyon, who) = (Canyon::start().await, runner());
    let good = account(&canyon.url, who);
    let session = "acme-shop";

    let mut other_audience = good.clone();
    other_audience["oidc_providers"][0]["client_ids"] = json!(["https://other.example"]);
    canyon.set(accounts(&other_audience)).await;
    insta::assert_snapshot!("aws_audience", refusal(&canyon, who, &aws_auth(), session).await);

    let mut no_provider = good.clone();
    no_provider["oidc_providers"] = json!([]);
    canyon.set(accounts(&no_provider)).await;
    insta::assert_snapshot!("aws_provider", refusal(&canyon, who, &aws_auth(), session).await);

    let mut other_runner = good.clone();
    other_runner["roles"]["canyon-runner"] = role(&canyon.url, &runner().subject());
    canyon.set(accounts(&other_runner)).await;
    insta::assert_snapshot!("aws_trust", refusal(&canyon, who, &aws_auth(), session).await);

    canyon.set(accounts(&good)).await;
    let absent = AwsAuth { role_arn: format!("{ROLE}-absent"), ..aws_auth() };
    insta::assert_snapshot!("aws_absent", refusal(&canyon, who, &absent, session).await);
    insta::assert_snapshot!("aws_session", refusal(&canyon, who, &aws_auth(), "a b").await);

    let mut region_off = good;
    region_off["sts_disabled"] = json!(true);
    canyon.set(accounts(&region_off)).await;
    let auth = AwsAuth { sts_region: Some("eu-south-1".to_owned()), ..aws_auth() };
    insta::assert_snapshot!("aws_region", refusal(&canyon, who, &auth, session).await);
}

/// Does not happen with a correct clock, because tokens are exchanged at once.
#[tokio::test]
async fn an_expired_token_causes_a_message_about_the_clock() {
    let (canyon, who) = (Canyon::start().await, runner());
    let body = "<ErrorResponse><Error><Code>ExpiredTokenException</Code>\
        <Message>Token expired: current date/time 1 must be before 0</Message></Error></ErrorResponse>";
    let mut state = accounts(&account(&canyon.url, who));
    state["faults"] = json!([{ "service": "aws_sts", "status": 400, "body": body }]);
    canyon.set(state).await;
    insta::assert_snapshot!("aws_expired", refusal(&canyon, who, &aws_auth(), "acme-shop").await);
}

/// IAM's wildcards as people use them: all runners of one organization, and no others.
#[tokio::test]
async fn a_trust_policy_for_a_whole_organization_accepts_only_its_runners() {
    let (canyon, who) = (Canyon::start().await, runner());
    let mut account = account(&canyon.url, who);
    let mut policy = role(&canyon.url, "");
    let statement = &mut policy["trust_policy"]["Statement"][0];
    let host = canyon.url.strip_prefix("https://").unwrap();
    statement["Condition"] = json!({
        "StringEquals": { format!("{host}:aud"): "sts.amazonaws.com" },
        "StringLike": { format!("{host}:sub"): format!("org:{}:runner:*", who.org) },
    });
    account["roles"]["canyon-runner"] = policy;
    canyon.set(accounts(&account)).await;
    let sibling = RunnerIdentity { runner: runner().runner, ..who };
    for (who, accepted) in [(who, true), (sibling, true), (runner(), false)] {
        let asked = canyon.federation.aws(who, &aws_auth(), "eu-central-1", "acme-shop").await;
        assert_eq!(asked.is_ok(), accepted, "{asked:?}");
    }
}

/// Each partition is a separate cloud: another domain, and in China another audience.
#[tokio::test]
async fn the_partition_of_the_role_determines_the_audience() {
    let (canyon, who) = (Canyon::start().await, runner());
    let cases = [
        ("aws", "eu-central-1", "sts.amazonaws.com"),
        ("aws-us-gov", "us-gov-west-1", "sts.amazonaws.com"),
        ("aws-cn", "cn-north-1", "sts.amazonaws.com.cn"),
    ];
    for (partition, region, audience) in cases {
        let mut account = account(&canyon.url, who);
        account["oidc_providers"][0]["client_ids"] = json!([audience]);
        let text = account["roles"].to_string();
        let text = text.replace("arn:aws:iam", &format!("arn:{partition}:iam"));
        let text = text.replace("\"sts.amazonaws.com\"", &format!("\"{audience}\""));
        account["roles"] = serde_json::from_str(&text).unwrap();
        canyon.set(accounts(&account)).await;
        let auth = AwsAuth {
            role_arn: ROLE.replace("arn:aws:", &format!("arn:{partition}:")),
            ..aws_auth()
        };
        let given = canyon.federation.aws(who, &auth, region, "acme-shop").await;
        assert!(given.is_ok(), "{partition}: {given:?}");
    }
}
