//! Tokens of GitHub App installations.
//!
//! The app signs a statement with its key, and GitHub gives a token for one installation, which expires after an hour
//! (<https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app>).

use super::NoToken;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::causes::Causes;
use canyon_domain::failure::shortened_to;
use canyon_domain::git_credentials::repository_prefix::RepositoryPrefix;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// GitHub refuses a statement that is valid for more than ten minutes, and one from the future.
const LIFE: SignedDuration = SignedDuration::from_mins(9);
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// How long one request may take. The runner does not report before it has the token, because it must mask it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request is made that GitHub does not answer, or answers with 5xx.
const TRIES: u32 = 2;
/// The most characters of GitHub's message that are kept.
const LONGEST: usize = 200;

#[derive(Deserialize)]
struct Answer {
    token: Option<SecretString>,
    message: Option<String>,
}

/// A token that may read the repositories of an installation.
pub(super) async fn token(
    repositories: &RepositoryPrefix,
    app_id: &str,
    installation_id: u64,
    key: &str,
) -> Result<SecretString, NoToken> {
    let statement = statement(app_id, key, Timestamp::now()).map_err(refused)?;
    let url = format!("{}/app/installations/{installation_id}/access_tokens", api(repositories));
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .user_agent(concat!("canyon/", env!("CARGO_PKG_VERSION")))
        // A redirect could carry the statement to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| refused(format!("TLS cannot be used: {}", Causes(&error))))?;
    let mut tried = 0;
    loop {
        tried += 1;
        let request = client.post(&url).bearer_auth(&statement);
        let request = request.header("Accept", "application/vnd.github+json");
        let answer = request.json(&json!({ "permissions": { "contents": "read" } })).send().await;
        let is_last = tried == TRIES;
        match answer {
            Ok(answer) if answer.status().is_server_error() && !is_last => {}
            Ok(answer) => return read(&url, answer).await,
            Err(error) if is_last => {
                let reason = format!("`{url}` does not answer: {}", Causes(&error.without_url()));
                return Err(NoToken { reason, unreachable: true });
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_secs(1) * tried).await;
    }
}

fn refused(reason: String) -> NoToken {
    NoToken { reason, unreachable: false }
}

async fn read(url: &str, answer: reqwest::Response) -> Result<SecretString, NoToken> {
    let status = answer.status();
    let missing = |reason| NoToken { reason, unreachable: status.is_server_error() };
    let body: Option<Answer> = answer.json().await.ok();
    match body {
        Some(Answer { token: Some(token), .. }) if status.is_success() => Ok(token),
        Some(Answer { message: Some(message), .. }) => {
            let message = shortened_to(&message, LONGEST);
            Err(missing(format!("`{url}` answers {}: {message}", status.as_u16())))
        }
        Some(_) | None => {
            Err(missing(format!("`{url}` answers {} without a token", status.as_u16())))
        }
    }
}

/// The address of the API: github.com has its own host, GitHub Enterprise Server a path.
fn api(repositories: &RepositoryPrefix) -> String {
    if repositories.host() == "github.com" {
        return "https://api.github.com".to_owned();
    }
    let host = repositories.host();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("https://{host}:{}/api/v3", repositories.port())
}

/// A JSON Web Token by which the app proves who it is.
fn statement(app_id: &str, key: &str, now: Timestamp) -> Result<String, String> {
    let unusable =
        || "the app's private key cannot be used; set it again as GitHub gave it".to_owned();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| unusable())?;
    let key = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(unusable()),
    };
    let key = key.map_err(|_| unusable())?;
    let header = json!({ "alg": "RS256", "typ": "JWT" });
    let claims = json!({
        "iss": app_id,
        "iat": (now - CLOCK_SKEW).as_second(),
        "exp": (now + LIFE).as_second(),
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| unusable())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_of_an_own_server_is_below_its_host() {
        for (address, expected) in [
            ("https://github.com/acme", "https://api.github.com"),
            ("https://git.example.com:8443/acme", "https://git.example.com:8443/api/v3"),
            ("https://[2001:db8::1]", "https://[2001:db8::1]:443/api/v3"),
        ] {
            assert_eq!(api(&address.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_key_that_is_none_is_refused_without_its_text() {
        let error =
            statement("1", "-----BEGIN RSA PRIVATE KEY-----\nhunter2", Timestamp::UNIX_EPOCH);
        assert!(!error.unwrap_err().contains("hunter2"));
    }
}
