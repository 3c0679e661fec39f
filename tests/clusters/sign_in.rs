//! Pods sign in with the tokens of their cluster: the real API server signs, and Canyon verifies with its keys,
//! configured or fetched.

use crate::harness::bed::{Bed, Namespace, bed};
use crate::harness::server::{HOSTS_FILE, Server, Variables};
use canyon_api::client::Client;
use serde_json::{Value, json};
use std::fs;
use tokio::net::{TcpListener, TcpStream};

const ISSUER: &str = "https://kubernetes.default.svc";
const AUDIENCE: &str = "canyon-acme";

/// A namespace with a service account `agent`, and others.
fn namespace() -> Namespace {
    let namespace = Namespace(Bed::unique("canyon"));
    bed().kubectl(&["create", "namespace", &namespace.0], "");
    for account in ["agent", "other"] {
        bed().kubectl(&["-n", &namespace.0, "create", "serviceaccount", account], "");
    }
    namespace
}

/// The token in the volume of a pod's projected token.
fn token(namespace: &Namespace, account: &str, audience: &str) -> String {
    let asked = ["-n", &namespace.0, "create", "token", account, "--audience", audience];
    bed().kubectl(&asked, "").trim().to_owned()
}

async fn trust(client: &Client, namespace: &Namespace, jwks: Option<Value>) {
    let mut policy = json!({
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "bound_claims": { "sub": format!("system:serviceaccount:{}:agent", namespace.0) },
    });
    if let Some(jwks) = jwks {
        policy["jwks"] = jwks;
    }
    let account = json!({ "id": "agent", "role": "agent", "trust_policies": [policy] });
    client.create(&["service-accounts"], &account).await.unwrap();
}

async fn exchange(server: &Server, token: &str) -> (u16, Value) {
    let form = format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt\
         &service_account=agent&subject_token={token}"
    );
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = server.client();
    let request = http
        .post(format!("{}/orgs/{}/oauth/token", client.url(), server.org()))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn judged(server: &Server, namespace: &Namespace) {
    let good = token(namespace, "agent", AUDIENCE);
    let (status, answer) = exchange(server, &good).await;
    assert_eq!((status, &answer["expires_in"]), (200, &json!(900)), "{answer}\n{}", server.log());
    let elsewhere = self::namespace();
    for (token, reason) in [
        (token(namespace, "other", AUDIENCE), "claim `sub`"),
        (token(&elsewhere, "agent", AUDIENCE), "claim `sub`"),
        (token(namespace, "agent", ISSUER), "`aud`"),
    ] {
        let (status, answer) = exchange(server, &token).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(reason), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_token_signs_in_by_keys_that_the_policy_holds() {
    let (server, namespace) = (Server::start_with(Variables::new()).await, namespace());
    let jwks = bed().kubectl(&["get", "--raw", "/openid/v1/jwks"], "");
    trust(&server.client(), &namespace, Some(serde_json::from_str(&jwks).unwrap())).await;
    judged(&server, &namespace).await;
}

/// A role binding that is deleted with its test.
struct Binding(String);

impl Drop for Binding {
    fn drop(&mut self) {
        let _ = bed().try_kubectl(&["delete", "clusterrolebinding", &self.0, "--wait=false"], "");
    }
}

/// Forwards connections from `from` to the API server, which advertises an address for its keys where it does not
/// listen in this cluster.
async fn pass_on(from: &str) {
    let listener = TcpListener::bind(from).await.unwrap();
    let to = format!("{}:443", bed().get("SERVER").trim_start_matches("https://"));
    tokio::spawn(async move {
        while let Ok((mut here, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                let mut there = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_token_signs_in_by_keys_that_canyon_fetches_from_its_cluster() {
    let binding = Binding(Bed::unique("canyon-discovery"));
    let role = "--clusterrole=system:service-account-issuer-discovery";
    let everybody = "--group=system:unauthenticated";
    bed().kubectl(&["create", "clusterrolebinding", &binding.0, role, everybody], "");
    // The API server's discovery document names its own address for its keys; in a cluster its host name leads to it.
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    let api_server = bed().get("SERVER").trim_start_matches("https://");
    let host = ISSUER.trim_start_matches("https://");
    fs::write(&hosts, format!("127.0.0.1 localhost\n{api_server} {host}\n")).unwrap();
    let document = bed().kubectl(&["get", "--raw", "/.well-known/openid-configuration"], "");
    let document: Value = serde_json::from_str(&document).unwrap();
    let keys = document["jwks_uri"].as_str().unwrap().trim_end_matches("/openid/v1/jwks");
    pass_on(keys.trim_start_matches("https://")).await;
    let server = Server::start_with(Variables::from([
        (HOSTS_FILE.to_owned(), hosts.to_str().unwrap().to_owned()),
        ("CANYON_PRIVATE_ISSUERS".to_owned(), format!("{ISSUER},{keys}")),
        ("CANYON_PRIVATE_ISSUERS_CA".to_owned(), bed().get("CA_FILE").to_owned()),
    ]))
    .await;
    let namespace = namespace();
    trust(&server.client(), &namespace, None).await;
    judged(&server, &namespace).await;
}
