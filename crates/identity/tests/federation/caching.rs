//! Exchanged tokens are cached: many concurrent callers make one exchange, and a rejection is
//! cached briefly.

use crate::harness::{
    Canyon, account, application, aws_auth, azure_auth, gcp_auth, provider, runner,
};
use canyon_domain::runner::eks::AwsAuth;
use futures::future::join_all;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const MANAGEMENT: &str = "https://management.azure.com/.default";

/// KMS signs 1,000 times a second for a whole account, so there is one assertion for each runner
/// and audience.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callers_make_one_signature_and_one_exchange_for_each_cloud() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon
        .set(json!({
            "aws": { "accounts": { "123456789012": account(&canyon.url, who) } },
            "gcp": provider(&canyon.url, who),
            "azure": application(&canyon.url, who),
        }))
        .await;
    let callers = (0..1_000).map(|_| {
        let federation = Arc::clone(&canyon.federation);
        tokio::spawn(async move {
            let key = federation.aws(who, &aws_auth(), "eu-central-1", "acme-shop").await;
            federation.gcp(who, &gcp_auth()).await.unwrap();
            federation.azure(who, &azure_auth(), MANAGEMENT).await.unwrap();
            key.unwrap().access_key_id().to_owned()
        })
    });
    let keys: HashSet<_> =
        join_all(callers).await.into_iter().map(|caller| caller.unwrap()).collect();
    assert_eq!(keys.len(), 1);
    for service in ["aws_sts", "gcp_sts", "gcp_iam_credentials", "azure_authority"] {
        assert_eq!(canyon.strict.calls(service).await.len(), 1, "{service}");
    }
    assert_eq!(canyon.signer.signed(), 3, "one for each audience");
}

/// Requests that differ in one parameter must get different results.
#[tokio::test]
async fn nothing_is_shared_between_runners_regions_and_sessions() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon
        .set(json!({ "aws": { "accounts": { "123456789012": account(&canyon.url, who) } } }))
        .await;
    let elsewhere = AwsAuth { sts_region: Some("eu-west-1".to_owned()), ..aws_auth() };
    let asked =
        [(&aws_auth(), "one-session"), (&aws_auth(), "another"), (&elsewhere, "one-session")];
    let mut keys = HashSet::new();
    for (auth, session) in asked {
        let given = canyon.federation.aws(who, auth, "eu-central-1", session).await.unwrap();
        keys.insert(given.access_key_id().to_owned());
    }
    assert_eq!(keys.len(), asked.len());
    assert!(
        canyon.federation.aws(runner(), &aws_auth(), "eu-central-1", "one-session").await.is_err()
    );
    assert_eq!(canyon.signer.signed(), 2, "one for each runner");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_rejected_callers_make_one_call_and_a_fixed_role_is_accepted_soon() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon
        .set(json!({ "aws": { "accounts": { "123456789012": account(&canyon.url, runner()) } } }))
        .await;
    let auth = aws_auth();
    let ask = || canyon.federation.aws(who, &auth, "eu-central-1", "acme-shop");
    for asked in join_all((0..1_000).map(|_| ask())).await {
        asked.unwrap_err();
    }
    ask().await.unwrap_err();
    assert_eq!(canyon.strict.calls("aws_sts").await.len(), 1);
    canyon
        .set(json!({ "aws": { "accounts": { "123456789012": account(&canyon.url, who) } } }))
        .await;
    let accepted = async {
        while ask().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), accepted)
        .await
        .expect("accepted after some seconds");
    assert_eq!(canyon.strict.calls("aws_sts").await.len(), 2);
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_fail_the_others() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon
        .set(json!({
            "azure": application(&canyon.url, who),
            "faults": [{ "service": "azure_authority", "wait_seconds": 1 }],
        }))
        .await;
    let auth = azure_auth();
    let ask = || canyon.federation.azure(who, &auth, MANAGEMENT);
    let first = tokio::time::timeout(Duration::from_millis(300), ask()).await;
    assert!(first.is_err(), "the first caller gave up");
    ask().await.unwrap();
    assert_eq!(canyon.strict.calls("azure_authority").await.len(), 1);
}

/// A short-lived token is reused for half of its life, and never returned after its expiry.
#[tokio::test]
async fn a_token_that_expires_soon_is_exchanged_again() {
    let (canyon, who) = (Canyon::start().await, runner());
    let mut state = application(&canyon.url, who);
    let client = azure_auth().client_id;
    let tenant = azure_auth().tenant_id;
    state["tenants"][&tenant]["applications"][&client]["token_seconds"] = json!(4);
    canyon.set(json!({ "azure": state })).await;
    let mut ends = HashSet::new();
    for _ in 0..30 {
        let given = canyon.federation.azure(who, &azure_auth(), MANAGEMENT).await.unwrap();
        let left = given.ends_at.duration_since(jiff::Timestamp::now());
        // Two seconds less half of what the exchange took.
        assert!(left.as_secs_f64() > 0.5, "{left}");
        ends.insert(given.ends_at);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!((3..=7).contains(&ends.len()), "exchanged {} times in 6 s", ends.len());
}
