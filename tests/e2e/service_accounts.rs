//! Signing in with the tokens of an independent OpenID provider: the npm package `oidc-provider`, which the OpenID
//! Foundation has certified.

use crate::harness::programs;
use crate::harness::server::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Client;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const CLIENT: &str = "agent-of-acme";
pub(crate) const AUDIENCE: &str = "https://canyon.example/acme";

fn script(name: &str) -> String {
    format!("{}/e2e/service_accounts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A running provider. Dropping it ends the process.
pub(crate) struct Provider {
    child: Child,
    pub(crate) url: String,
    http: Client,
    folder: TempDir,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Provider {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = programs::given("CANYON_TEST_AWS_PYTHON");
        let made = Command::new(python)
            .args(["-B", &script("certificate.py")])
            .arg(folder.path())
            .status();
        assert!(made.unwrap().success());
        let log = File::create(folder.path().join("log")).unwrap();
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs::given("CANYON_TEST_OIDC_PROVIDER"))
            .arg(script("provider.mjs"))
            .args(["issuer.pem", "issuer.key"].map(|name| folder.path().join(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let said = || fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(url.starts_with("https://"), "{}", said());
        let pem = fs::read(folder.path().join("issuer-ca.pem")).unwrap();
        let authority = reqwest::Certificate::from_pem(&pem).unwrap();
        let http = Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap();
        Self { child, url: url.trim().to_owned(), http, folder }
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("issuer-ca.pem")
    }

    /// A token about `client` for `audience`, signed with `alg`.
    pub(crate) async fn token(&self, client: &str, audience: &str, alg: &str) -> String {
        let basic = STANDARD.encode(format!("{client}:for-tests-alone"));
        let resource = format!("{audience}/{alg}").replace(':', "%3A").replace('/', "%2F");
        let request = self
            .http
            .post(format!("{}/token", self.url))
            .header("authorization", format!("Basic {basic}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("grant_type=client_credentials&resource={resource}"));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        let token = answer["access_token"].as_str();
        token.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// Canyon's answer to a token exchange.
async fn exchange(server: &Server, account: &str, token: &str) -> (u16, Value) {
    let url = format!("{}/orgs/{}/oauth/token", server.url(), server.org());
    let form = format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt\
         &service_account={account}&subject_token={token}"
    );
    let http = Client::builder().no_proxy().build().unwrap();
    let request = http.post(url).header("content-type", "application/x-www-form-urlencoded");
    let response = request.body(form).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

pub(crate) async fn serve(provider: &Provider) -> Server {
    let authority = provider.authority().to_str().unwrap().to_owned();
    Server::start_with_settings(vec![
        ("CANYON_PRIVATE_ISSUERS", format!("https://other.example.com,{}", provider.url)),
        ("CANYON_PRIVATE_ISSUERS_CA", authority),
    ])
    .await
}

/// Asserts that the whole log holds none of these tokens.
fn assert_not_logged(server: &Server, tokens: &[String]) {
    let log = fs::read_to_string(server.path("server.log")).unwrap();
    assert!(!log.is_empty());
    for token in tokens {
        // A signed token is worth nothing without its signature.
        let secret = token.rsplit('.').next().unwrap();
        assert!(!log.contains(secret), "{token} stands in the log");
    }
}

fn write(path: &Path, issuer: &str, role: &str) {
    let account = json!({
        "description": "acme's agents",
        "role": role,
        "trust_policies": [{
            "issuer": issuer,
            "audience": AUDIENCE,
            "bound_claims": { "sub": CLIENT },
        }],
    });
    fs::write(path, account.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_certified_provider_signs_in_and_ends_with_its_service_account() {
    let provider = Provider::start();
    let server = serve(&provider).await;
    write(&server.path("ci.yaml"), &provider.url, "viewer");
    server.canyon(&["create", "service-account", "ci", "--set-yaml=@ci.yaml"]).done();
    let mut tokens = Vec::new();
    for alg in ["RS256", "ES256", "EdDSA"] {
        let token = provider.token(CLIENT, AUDIENCE, alg).await;
        let (status, answer) = exchange(&server, "ci", &token).await;
        assert_eq!((status, &answer["expires_in"]), (200, &json!(900)), "{alg}: {answer}");
        tokens.extend([token, answer["access_token"].as_str().unwrap().to_owned()]);
    }
    let token = provider.token(CLIENT, AUDIENCE, "RS256").await;
    let (_, answer) = exchange(&server, "ci", &token).await;
    let ours = answer["access_token"].as_str().unwrap();
    let with = [("CANYON_TOKEN", ours)];
    server.canyon_with(&["list", "projects"], "", &with).done();
    let refused = server.canyon_with(&["create", "project", "shop"], "", &with);
    let words = "needs the role `admin` in project `shop`, and your token has `viewer` there";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    let audit = server.canyon(&["list", "audit"]);
    let sign_in = |line: &&str| line.contains("service_account.sign_in");
    let line = audit.done().lines().find(sign_in).unwrap_or_else(|| panic!("{}", audit.stdout));
    assert!(line.contains("service-accounts/ci") && line.contains("trust_policies[0]"), "{line}");
    server.canyon(&["update", "service-account", "ci", "--set", "description=others"]).done();
    let ended = server.canyon_with(&["list", "projects"], "", &with);
    assert!(ended.stderr.contains("valid token"), "{}", ended.stderr);
    let token = provider.token(CLIENT, AUDIENCE, "RS256").await;
    assert_eq!(exchange(&server, "ci", &token).await.0, 200, "the next token is accepted");
    server.canyon(&["delete", "service-account", "ci"]).done();
    let (status, answer) = exchange(&server, "ci", &token).await;
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")));
    tokens.extend([token, ours.to_owned()]);
    assert_not_logged(&server, &tokens);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_token_with_another_audience_or_subject_is_refused_with_the_reason() {
    let provider = Provider::start();
    let server = serve(&provider).await;
    write(&server.path("ci.yaml"), &provider.url, "admin");
    server.canyon(&["create", "service-account", "ci", "--set-yaml=@ci.yaml"]).done();
    let mut tokens = Vec::new();
    for (client, audience, reason) in [
        ("agent-of-acme-evil", AUDIENCE, "its claim `sub` is not as the policy binds it"),
        (CLIENT, "https://canyon.example/acme-evil", "its `aud` is not the audience of the policy"),
    ] {
        let token = provider.token(client, audience, "RS256").await;
        let (status, answer) = exchange(&server, "ci", &token).await;
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")));
        assert!(answer["message"].as_str().unwrap().contains(reason), "{answer}");
        tokens.push(token);
    }
    // A second provider that claims the same issuer: it does not have the keys of the trusted one.
    let impostor = Provider::start();
    let token = impostor.token(CLIENT, AUDIENCE, "RS256").await;
    let (status, answer) = exchange(&server, "ci", &token).await;
    assert_eq!(status, 400);
    assert!(answer["message"].as_str().unwrap().starts_with("the token is not taken"), "{answer}");
    assert!(server.log().contains("no policy trusts its issuer"), "the log says why");
    // Without the operator's setting, an address of an internal network is refused.
    write(&server.path("ci.yaml"), &impostor.url, "admin");
    let refused = server.canyon(&["create", "service-account", "other", "--set-yaml=@ci.yaml"]);
    assert!(refused.stderr.contains("trust_policies[0].issuer"), "{}", refused.stderr);
    tokens.push(token);
    assert_not_logged(&server, &tokens);
}
