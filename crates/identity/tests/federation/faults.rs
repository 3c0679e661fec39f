//! Clouds that fail, and clouds that must not be trusted.

use crate::harness::{
    Canyon, account, application, aws_auth, azure_auth, gcp_auth, provider, runner,
};
use canyon_domain::failure::FailureClass;
use canyon_identity::federation::{FederationError, RunnerIdentity};
use serde_json::{Value, json};

const MANAGEMENT: &str = "https://management.azure.com/.default";
const SERVICES: [&str; 4] = ["aws_sts", "gcp_sts", "gcp_iam_credentials", "azure_authority"];

fn state(canyon: &Canyon, who: RunnerIdentity, fault: &Value) -> Value {
    json!({
        "aws": { "accounts": { "123456789012": account(&canyon.url, who) } },
        "gcp": provider(&canyon.url, who),
        "azure": application(&canyon.url, who),
        "faults": [fault],
    })
}

async fn ask(canyon: &Canyon, who: RunnerIdentity, service: &str) -> Result<(), FederationError> {
    let federation = canyon.again();
    match service {
        "aws_sts" => federation.aws(who, &aws_auth(), "eu-central-1", "acme-shop").await.map(drop),
        "azure_authority" => federation.azure(who, &azure_auth(), MANAGEMENT).await.map(drop),
        _ => federation.gcp(who, &gcp_auth()).await.map(drop),
    }
}

#[tokio::test]
async fn a_call_to_a_cloud_is_retried_twice() {
    let (canyon, who) = (Canyon::start().await, runner());
    for service in SERVICES {
        let fault = json!({ "service": service, "status": 503, "times": 2 });
        canyon.set(state(&canyon, who, &fault)).await;
        canyon.strict.forget_calls().await;
        ask(&canyon, who, service).await.unwrap();
        assert_eq!(canyon.strict.calls(service).await.len(), 3, "{service}");
    }
}

#[tokio::test]
async fn a_cloud_that_is_down_is_class_lost_and_one_that_throttles_is_class_throttled() {
    let (canyon, who) = (Canyon::start().await, runner());
    for service in SERVICES {
        let fault = json!({ "service": service, "status": 500, "times": 100 });
        canyon.set(state(&canyon, who, &fault)).await;
        canyon.strict.forget_calls().await;
        let error = ask(&canyon, who, service).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Lost, "{error}");
        assert_eq!(canyon.strict.calls(service).await.len(), 3, "{service}: tries are bounded");
        let fault = json!({ "service": service, "status": 429, "times": 100 });
        canyon.set(state(&canyon, who, &fault)).await;
        let error = ask(&canyon, who, service).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Throttled, "{service}: {error}");
    }
}

#[tokio::test]
async fn an_issuer_that_a_cloud_cannot_reach_is_class_lost() {
    let (canyon, who) = (Canyon::start().await, runner());
    let mut state = state(&canyon, who, &json!({ "service": "front", "status": 503, "times": 99 }));
    canyon.set(state.clone()).await;
    for service in ["aws_sts", "gcp_sts", "azure_authority"] {
        let error = ask(&canyon, who, service).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Lost, "{error}");
    }
    state["faults"] = json!([]);
    canyon.set(state).await;
    for service in ["aws_sts", "gcp_sts", "azure_authority"] {
        ask(&canyon, who, service).await.unwrap();
    }
}

/// A token goes only to the configured address.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (canyon, who) = (Canyon::start().await, runner());
    let elsewhere = format!("{}/elsewhere", canyon.strict.address("gke"));
    for service in ["aws_sts", "gcp_iam_credentials", "azure_authority"] {
        let fault = json!({
            "service": service, "status": 307, "times": 100, "headers": { "location": elsewhere },
        });
        canyon.set(state(&canyon, who, &fault)).await;
        let error = ask(&canyon, who, service).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Lost, "{service}: {error}");
        assert_eq!(canyon.strict.calls("gke").await.len(), 0, "{service}");
    }
}

/// Some services return parts of the request.
#[tokio::test]
async fn a_token_that_a_cloud_sends_back_is_in_no_message() {
    let (canyon, who) = (Canyon::start().await, runner());
    let token = canyon.federation.assertion(who, "audience").await.unwrap();
    let token = secrecy::ExposeSecret::expose_secret(&token);
    let message = format!("bad token '{token}' given {}", "x ".repeat(10_000));
    let xml = format!(
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    let bodies = [
        ("aws_sts", json!(xml)),
        ("gcp_sts", json!({ "error": "invalid_grant", "error_description": message })),
        (
            "gcp_iam_credentials",
            json!({ "error": { "status": "PERMISSION_DENIED", "message": message } }),
        ),
        (
            "azure_authority",
            json!({ "error": "x", "error_description": message, "error_codes": [1] }),
        ),
    ];
    for (service, body) in bodies {
        let fault = json!({ "service": service, "status": 403, "times": 9, "body": body });
        canyon.set(state(&canyon, who, &fault)).await;
        let text = ask(&canyon, who, service).await.unwrap_err().to_string();
        assert!(text.contains("bad token (token) given"), "{service}: {text}");
        assert!(!text.contains("eyJ") && text.len() < 1_200, "{service}: {text}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_not_read() {
    let (canyon, who) = (Canyon::start().await, runner());
    for service in ["gcp_iam_credentials", "azure_authority"] {
        let fault =
            json!({ "service": service, "status": 200, "times": 9, "body": "x".repeat(600_000) });
        canyon.set(state(&canyon, who, &fault)).await;
        let error = ask(&canyon, who, service).await.unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }
}
