//! Google Cloud: token exchange, then the service account.

use crate::harness::{Canyon, PROVIDER, gcp_auth, provider, runner};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::gke::GcpAuth;
use canyon_identity::federation::RunnerIdentity;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

async fn refusal(canyon: &Canyon, who: RunnerIdentity, auth: &GcpAuth) -> String {
    let error = canyon.again().gcp(who, auth).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Config, "{error}");
    canyon.stable(who, &error.to_string())
}

fn gcp(state: &Value) -> Value {
    json!({ "gcp": state })
}

#[tokio::test]
async fn the_runner_acts_as_a_service_account_that_trusts_it() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon.set(gcp(&provider(&canyon.url, who))).await;
    let given = canyon.federation.gcp(who, &gcp_auth()).await.unwrap();
    let left = given.ends_at.duration_since(Timestamp::now());
    assert!(
        left > SignedDuration::from_mins(58) && left <= SignedDuration::from_hours(1),
        "{left}"
    );
    let calls = canyon.strict.calls("gcp_sts").await;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["aud"], format!("//iam.googleapis.com/{PROVIDER}"));
}

/// Google accepts the provider's name as audience with and without the scheme, unless the provider
/// lists audiences.
#[tokio::test]
async fn the_token_has_the_audience_of_the_runner() {
    let (canyon, who) = (Canyon::start().await, runner());
    let with_scheme =
        GcpAuth { gcp_audience: format!("https://iam.googleapis.com/{PROVIDER}"), ..gcp_auth() };
    let mut state = provider(&canyon.url, who);
    canyon.set(gcp(&state)).await;
    assert!(canyon.federation.gcp(who, &with_scheme).await.is_ok());
    state["providers"][0]["allowed_audiences"] = json!([with_scheme.gcp_audience]);
    canyon.set(gcp(&state)).await;
    assert!(canyon.again().gcp(who, &with_scheme).await.is_ok());
    insta::assert_snapshot!("gcp_audience", refusal(&canyon, who, &gcp_auth()).await);
}

#[tokio::test]
async fn each_rejection_states_what_to_change_in_google_cloud() {
    let (canyon, who) = (Canyon::start().await, runner());
    let good = provider(&canyon.url, who);

    let mut disabled = good.clone();
    disabled["providers"][0]["disabled"] = json!(true);
    canyon.set(gcp(&disabled)).await;
    insta::assert_snapshot!("gcp_provider", refusal(&canyon, who, &gcp_auth()).await);

    let mut other_issuer = good.clone();
    other_issuer["providers"][0]["issuer"] = json!("https://other.example");
    canyon.set(gcp(&other_issuer)).await;
    insta::assert_snapshot!("gcp_issuer", refusal(&canyon, who, &gcp_auth()).await);

    let mut condition = good.clone();
    condition["providers"][0]["attribute_condition"] =
        json!(format!("assertion.sub == '{}'", runner().subject()));
    canyon.set(gcp(&condition)).await;
    insta::assert_snapshot!("gcp_condition", refusal(&canyon, who, &gcp_auth()).await);

    let mut other_runner = good.clone();
    other_runner["service_accounts"] = provider(&canyon.url, runner())["service_accounts"].clone();
    canyon.set(gcp(&other_runner)).await;
    insta::assert_snapshot!("gcp_binding", refusal(&canyon, who, &gcp_auth()).await);

    let mut absent = good.clone();
    absent["service_accounts"] = json!({});
    canyon.set(gcp(&absent)).await;
    insta::assert_snapshot!("gcp_account", refusal(&canyon, who, &gcp_auth()).await);

    // Google accepts subjects of at most 127 bytes.
    let mut long = good;
    long["providers"][0]["attribute_mapping"] =
        json!({ "google.subject": "assertion.iss + assertion.sub + assertion.sub" });
    canyon.set(gcp(&long)).await;
    insta::assert_snapshot!("gcp_long", refusal(&canyon, who, &gcp_auth()).await);
}
