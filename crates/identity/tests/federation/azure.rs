//! Azure: a federated credential of an application.

use crate::harness::{CLIENT, Canyon, TENANT, application, azure_auth, runner};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::aks::AzureAuth;
use canyon_identity::federation::RunnerIdentity;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const MANAGEMENT: &str = "https://management.azure.com/.default";

async fn refusal(canyon: &Canyon, who: RunnerIdentity, auth: &AzureAuth, scope: &str) -> String {
    let error = canyon.again().azure(who, auth, scope).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Config, "{error}");
    canyon.stable(who, &error.to_string())
}

fn azure(state: &Value) -> Value {
    json!({ "azure": state })
}

fn credential(state: &mut Value) -> &mut Value {
    &mut state["tenants"][TENANT]["applications"][CLIENT]["federated_credentials"][0]
}

#[tokio::test]
async fn a_federated_credential_returns_a_token_for_each_scope() {
    let (canyon, who) = (Canyon::start().await, runner());
    canyon.set(azure(&application(&canyon.url, who))).await;
    let aks = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";
    for scope in [MANAGEMENT, aks] {
        let given = canyon.federation.azure(who, &azure_auth(), scope).await.unwrap();
        let left = given.ends_at.duration_since(Timestamp::now());
        assert!(left > SignedDuration::from_mins(58), "{left}");
    }
    let calls = canyon.strict.calls("azure_authority").await;
    let scopes: Vec<_> = calls.iter().map(|call| call["scope"].as_str().unwrap()).collect();
    assert_eq!(scopes, [MANAGEMENT, aks]);
    assert_eq!(canyon.signer.signed(), 1, "one assertion serves both");
}

#[tokio::test]
async fn each_rejection_states_what_to_change_in_entra() {
    let (canyon, who) = (Canyon::start().await, runner());
    let good = application(&canyon.url, who);
    let auth = azure_auth();

    let other_runner = application(&canyon.url, runner());
    canyon.set(azure(&other_runner)).await;
    insta::assert_snapshot!("azure_subject", refusal(&canyon, who, &auth, MANAGEMENT).await);

    let mut upper = good.clone();
    credential(&mut upper)["subject"] = json!(who.subject().to_uppercase());
    canyon.set(azure(&upper)).await;
    insta::assert_snapshot!("azure_case", refusal(&canyon, who, &auth, MANAGEMENT).await);

    let mut other_issuer = good.clone();
    credential(&mut other_issuer)["issuer"] = json!("https://other.example");
    canyon.set(azure(&other_issuer)).await;
    insta::assert_snapshot!("azure_issuer", refusal(&canyon, who, &auth, MANAGEMENT).await);

    let mut other_audience = good.clone();
    credential(&mut other_audience)["audiences"] = json!(["api://other"]);
    canyon.set(azure(&other_audience)).await;
    insta::assert_snapshot!("azure_audience", refusal(&canyon, who, &auth, MANAGEMENT).await);

    canyon.set(azure(&good)).await;
    let client = AzureAuth { client_id: TENANT.to_owned(), ..azure_auth() };
    insta::assert_snapshot!("azure_client", refusal(&canyon, who, &client, MANAGEMENT).await);
    let tenant = AzureAuth { tenant_id: CLIENT.to_owned(), ..azure_auth() };
    insta::assert_snapshot!("azure_tenant", refusal(&canyon, who, &tenant, MANAGEMENT).await);
    let scope = "https://other.example/.default";
    insta::assert_snapshot!("azure_scope", refusal(&canyon, who, &auth, scope).await);
}
