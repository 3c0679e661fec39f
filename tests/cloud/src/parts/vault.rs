//! `HashiCorp` Vault: real sign-in with tokens of an issuer, and real policies.

use super::{Part, free_port};
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// A server that is unsealed and has the engine `kv` version 2 at `secret/`.
#[derive(Debug)]
pub struct Vault {
    part: Part,
    url: String,
    root: String,
}

impl Vault {
    /// Starts the program that `CANYON_TEST_VAULT` names, and unseals it.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let arguments = vec![address.clone()];
        let mut part = Part::start("Vault", "CANYON_TEST_VAULT", |_| arguments, &[]).await;
        let url = format!("http://{address}");
        // It answers 501 until it has keys.
        part.until_answers(&format!("{url}/v1/sys/health"), StatusCode::NOT_IMPLEMENTED).await;
        let mut vault = Self { part, url, root: String::new() };
        let keys = json!({ "secret_shares": 1, "secret_threshold": 1 });
        let keys = vault.call(Method::PUT, "sys/init", &keys).await;
        vault.call(Method::PUT, "sys/unseal", &json!({ "key": keys["keys"][0] })).await;
        vault.root = keys["root_token"].as_str().unwrap_or_default().to_owned();
        vault.part.until_answers(&format!("{}/v1/sys/health", vault.url), StatusCode::OK).await;
        let engine = json!({ "type": "kv", "options": { "version": "2" } });
        vault.call(Method::POST, "sys/mounts/secret", &engine).await;
        vault
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A call of its API as its administrator, with the path below `/v1/`. Waits while the server still prepares what
    /// was mounted.
    ///
    /// # Panics
    /// If the answer is no success.
    pub async fn call(&self, method: Method, path: &str, body: &Value) -> Value {
        let client = reqwest::Client::new();
        for tried in 0.. {
            let request = client.request(method.clone(), format!("{}/v1/{path}", self.url));
            let request = request.header("x-vault-token", &self.root).json(body);
            let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
            let status = answer.status();
            let text = answer.text().await.unwrap_or_default();
            if status.is_success() {
                return serde_json::from_str(&text).unwrap_or(Value::Null);
            }
            let prepares = text.contains("Upgrading from non-versioned") && tried < 100;
            assert!(prepares, "{method} {path}: {status} {text}\n{}", self.part.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        unreachable!("the loop returns or panics")
    }
}
