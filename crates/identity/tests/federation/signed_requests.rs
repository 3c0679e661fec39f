//! Requests that Canyon signs, to a real server on loopback.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::Issuer;
use canyon_identity::signed_request::{BODY_CLAIM, SignedRequests};
use canyon_identity::system::System;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const ISSUER: &str = "https://canyon.example.com";
const BODY: &str = "{\"type\":\"plan.check\"}";

type Received = Arc<Mutex<Vec<(String, String)>>>;

/// Notes the path and the token of each request. The path says how it answers.
async fn serve(State(received): State<Received>, uri: Uri, headers: HeaderMap) -> Response {
    let token = headers["authorization"].to_str().unwrap().to_owned();
    received.lock().unwrap().push((uri.path().to_owned(), token));
    match uri.path() {
        "/moved" => Redirect::temporary("/good").into_response(),
        "/down" => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

struct World {
    url: String,
    issuer: Arc<Issuer>,
    received: Received,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signer = Arc::new(FileSigner::new(&folder.path().join("issuer.pk8")));
        let issuer = Issuer::new(ISSUER, signer, vec![], Arc::new(System), Arc::new(System));
        let received = Received::default();
        let router = Router::new().fallback(serve).with_state(received.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, issuer: Arc::new(issuer), received, _folder: folder }
    }

    async fn post(&self, url: &str, allows_loopback: bool) -> Result<(), String> {
        let requests = SignedRequests::new(self.issuer.clone(), allows_loopback);
        let subject = "org:1:plan-check:security".to_owned();
        requests.post(url, subject, BODY.as_bytes().to_vec()).await
    }

    fn paths(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

#[tokio::test]
async fn another_implementation_verifies_the_token_and_the_digest_of_the_body() {
    let world = World::new().await;
    let url = format!("{}/good", world.url);
    world.post(&url, true).await.unwrap();
    let (_, token) = world.received.lock().unwrap()[0].clone();
    let token = token.strip_prefix("Bearer ").unwrap();
    let keys: JwkSet = serde_json::from_value(world.issuer.jwks().await.unwrap()).unwrap();
    let kid = decode_header(token).unwrap().kid.unwrap();
    let key = DecodingKey::from_jwk(keys.find(&kid).unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&[&url]);
    validation.set_issuer(&[ISSUER]);
    let claims = decode::<Value>(token, &key, &validation).unwrap().claims;
    assert_eq!(claims["sub"], "org:1:plan-check:security");
    // printf '{"type":"plan.check"}' | sha256sum
    assert_eq!(
        claims[BODY_CLAIM],
        "ab25163a3fb45e2318a1afd1a05f297baaf517c3667b4b615d9da60d030ef6ae"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_every_status_but_2xx_is_a_reason() {
    let world = World::new().await;
    for (path, reason) in [("/moved", "it answered 307"), ("/down", "it answered 503")] {
        let said = world.post(&format!("{}{path}", world.url), true).await;
        assert_eq!(said, Err(reason.to_owned()));
    }
    assert_eq!(world.paths(), ["/moved", "/down"]);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let said = world.post(&address, true).await.unwrap_err();
    assert!(said.starts_with("no answer: "), "{said}");
}

#[tokio::test]
async fn nothing_is_sent_to_an_address_that_is_not_public() {
    let world = World::new().await;
    let port = world.url.rsplit(':').next().unwrap();
    for url in
        [world.url.clone(), format!("http://localhost:{port}"), format!("https://localhost:{port}")]
    {
        assert!(world.post(&url, false).await.is_err(), "{url}");
    }
    for url in ["https://10.0.0.1", "https://169.254.169.254/latest", "http://10.0.0.1"] {
        assert!(world.post(url, true).await.is_err(), "{url}");
    }
    assert_eq!(world.paths(), [""; 0]);
}
