//! The tokens at a real API server, which authenticates them with a webhook, as in each cloud.

use crate::harness::{Canyon, application, azure_auth, gcp_auth, provider, runner};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_identity::federation::AccessToken;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// The cluster of the tests (scripts/cluster), which calls our strict servers while this value
/// lives.
struct Cluster {
    settings: HashMap<String, String>,
    authenticator: PathBuf,
}

impl Cluster {
    fn with(canyon: &Canyon) -> Self {
        let variable = "CANYON_TEST_CLUSTER";
        let folder = std::env::var_os(variable).unwrap_or_else(|| {
            panic!("{variable} is not set: run scripts/test, or scripts/cluster up and set it")
        });
        let text = std::fs::read_to_string(PathBuf::from(folder).join("env")).unwrap();
        let settings: HashMap<_, _> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let address = canyon.strict.address("authenticator").strip_prefix("http://").unwrap();
        let authenticator = PathBuf::from(&settings["AUTHENTICATORS"])
            .join(format!("federation-{}", uuid::Uuid::now_v7()));
        std::fs::write(&authenticator, address).unwrap();
        Self { settings, authenticator }
    }

    fn state(&self) -> Value {
        let known = |name: &str| self.settings[name].clone();
        json!({
            "server": known("SERVER"), "ca_file": known("CA_FILE"), "ca_key_file": known("CA_KEY_FILE"),
        })
    }

    /// The user that the API server finds for the token.
    async fn user(&self, token: &AccessToken) -> Value {
        let authority = std::fs::read(&self.settings["CA_FILE"]).unwrap();
        let authority = reqwest::Certificate::from_pem(&authority).unwrap();
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap();
        let server = &self.settings["SERVER"];
        let answer = http
            .post(format!("{server}/apis/authentication.k8s.io/v1/selfsubjectreviews"))
            .bearer_auth(token.secret.expose_secret())
            .json(&json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" }))
            .send()
            .await
            .unwrap();
        let answer: Value = answer.json().await.unwrap();
        answer["status"]["userInfo"]["username"].clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.authenticator);
    }
}

#[tokio::test]
async fn the_api_server_authenticates_the_account_and_the_application() {
    let (canyon, who) = (Canyon::start().await, runner());
    let cluster = Cluster::with(&canyon);
    canyon
        .set(json!({
            "gcp": provider(&canyon.url, who),
            "azure": application(&canyon.url, who),
            "api_server": cluster.state(),
        }))
        .await;
    let gke = canyon.federation.gcp(who, &gcp_auth()).await.unwrap();
    assert_eq!(cluster.user(&gke).await, gcp_auth().gcp_service_account);
    let server = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";
    let aks = canyon.federation.azure(who, &azure_auth(), server).await.unwrap();
    assert_eq!(cluster.user(&aks).await, "33333333-3333-4333-8333-333333333333");
    // A token for the Resource Manager is not valid for clusters.
    let management = "https://management.azure.com/.default";
    let other = canyon.federation.azure(who, &azure_auth(), management).await.unwrap();
    assert_eq!(cluster.user(&other).await, Value::Null);
}

/// The administrator who defines a runner chooses the server that receives the token, and its
/// audience.
#[tokio::test]
async fn a_token_for_a_server_names_it_and_is_reused_for_no_other_server() {
    let (canyon, who) = (Canyon::start().await, runner());
    let signed = async |server: Option<&str>| {
        let (federation, audience) = (&canyon.federation, "canyon");
        let token = match server {
            Some(server) => federation.assertion_for_server(who, audience, server).await,
            None => federation.assertion(who, audience).await,
        };
        let token = token.unwrap().expose_secret().to_owned();
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice::<Value>(&claims).unwrap()
    };
    // Tokens are cached by statement, so each of these is requested twice.
    for server in [Some("https://a.example.com"), Some("https://b.example.com"), None].repeat(2) {
        let claims = signed(server).await;
        assert_eq!(claims.get("server").and_then(Value::as_str), server, "{claims}");
        assert_eq!((&claims["aud"], &claims["sub"]), (&json!("canyon"), &json!(who.subject())));
    }
}
