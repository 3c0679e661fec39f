//! Signing in as a service account: real files, real programs, and a small server in Canyon's place.

#![expect(clippy::unwrap_used, reason = "a test may panic when its own setup fails")]

use axum::extract::{Query, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use canyon_agent::settings::identity::SourceSettings;
use canyon_agent::sign_in::exchange::Exchange;
use canyon_agent::sign_in::source::Source;
use canyon_api::nonce::{ANSWER_NONCE_HEADER, NONCE_HEADER};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Canyon {
    forms: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    life: Arc<Mutex<u64>>,
    down: Arc<Mutex<bool>>,
    /// It answers 429, with so many seconds to wait.
    busy: Arc<Mutex<Option<u64>>>,
    /// The network delivers the answers to other agents' requests.
    crossed: Arc<Mutex<bool>>,
}

async fn exchange(
    State(canyon): State<Canyon>,
    asked: HeaderMap,
    Form(form): Form<BTreeMap<String, String>>,
) -> (StatusCode, HeaderMap, Json<Value>) {
    let mut forms = canyon.forms.lock().unwrap();
    forms.push(form);
    let mut headers = HeaderMap::new();
    let is_crossed = *canyon.crossed.lock().unwrap();
    let nonce = if is_crossed { "another".parse().unwrap() } else { asked[NONCE_HEADER].clone() };
    headers.insert(ANSWER_NONCE_HEADER, nonce);
    if let Some(seconds) = *canyon.busy.lock().unwrap() {
        headers.insert(RETRY_AFTER, seconds.into());
        let body = json!({"error": "temporarily_unavailable", "error_description": "often", "message": "often", "request_id": "1"});
        return (StatusCode::TOO_MANY_REQUESTS, headers, Json(body));
    }
    if *canyon.down.lock().unwrap() {
        let body = json!({"error": "invalid_grant", "error_description": "no", "message": "no", "request_id": "1"});
        return (StatusCode::BAD_REQUEST, headers, Json(body));
    }
    let body = json!({
        "access_token": format!("cya_{}", forms.len()),
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "token_type": "Bearer",
        "expires_in": *canyon.life.lock().unwrap(),
    });
    (StatusCode::OK, headers, Json(body))
}

async fn metadata(
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> (StatusCode, String) {
    if headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
        return (StatusCode::FORBIDDEN, "no".to_owned());
    }
    (StatusCode::OK, format!("a.{}.{}", query["audience"], query["format"]))
}

async fn start(canyon: Canyon) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/orgs/acme/oauth/token", post(exchange))
        .route("/computeMetadata/v1/instance/service-accounts/default/identity", get(metadata))
        .with_state(canyon);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn exchange_of(url: &str, source: &SourceSettings) -> Exchange {
    let http = canyon_agent::connection::http_client(None).unwrap();
    let source = Source::of(source).unwrap();
    Exchange::new(http, url, &"acme".parse().unwrap(), "agents".parse().unwrap(), source)
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("helper");
    fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn concurrent_requests_share_one_exchange_and_the_token_is_renewed_before_it_expires() {
    let canyon = Canyon::default();
    *canyon.life.lock().unwrap() = 900;
    let url = start(canyon.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "h.c.s\n").unwrap();
    let exchange = Arc::new(exchange_of(&url, &SourceSettings::File(file.clone())));
    let ask = || {
        let exchange = exchange.clone();
        tokio::spawn(async move { exchange.token().await.unwrap().expose_secret().to_owned() })
    };
    let asked: Vec<_> = (0..20).map(|_| ask()).collect();
    for token in asked {
        assert_eq!(token.await.unwrap(), "cya_1");
    }
    let forms = canyon.forms.lock().unwrap().clone();
    assert_eq!(forms.len(), 1);
    assert_eq!(forms[0]["grant_type"], "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(forms[0]["subject_token_type"], "urn:ietf:params:oauth:token-type:jwt");
    assert_eq!((&*forms[0]["subject_token"], &*forms[0]["service_account"]), ("h.c.s", "agents"));
    // Canyon has revoked the token: the next exchange uses the file's present content.
    fs::write(&file, "h.c2.s").unwrap();
    exchange.forget(&"cya_0".into());
    assert_eq!(ask().await.unwrap(), "cya_1", "the refused token was another one");
    exchange.forget(&"cya_1".into());
    *canyon.life.lock().unwrap() = 0;
    assert_eq!(ask().await.unwrap(), "cya_2");
    assert_eq!(canyon.forms.lock().unwrap()[1]["subject_token"], "h.c2.s");
    // That token expires at once, so it is renewed.
    assert_eq!(ask().await.unwrap(), "cya_3");
}

#[tokio::test]
async fn a_token_in_an_answer_to_another_agents_request_is_not_used() {
    let canyon = Canyon::default();
    *canyon.life.lock().unwrap() = 900;
    *canyon.crossed.lock().unwrap() = true;
    let url = start(canyon.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "h.c.s\n").unwrap();
    let exchange = exchange_of(&url, &SourceSettings::File(file));
    let refused = exchange.token().await.unwrap_err().to_string();
    assert!(refused.contains("answers another request"), "{refused}");
}

#[tokio::test]
async fn a_failed_exchange_names_account_and_source_and_is_not_repeated_at_once() {
    let canyon = Canyon::default();
    *canyon.down.lock().unwrap() = true;
    let url = start(canyon.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "header.s3cr3t.signature").unwrap();
    let exchange = exchange_of(&url, &SourceSettings::File(file.clone()));
    for _ in 0..5 {
        let error = exchange.token().await.unwrap_err().to_string();
        assert!(error.contains("`agents`") && error.contains("token`: no"), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
    }
    assert_eq!(canyon.forms.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_busy_canyon_is_asked_for_a_token_after_its_pause() {
    let canyon = Canyon::default();
    *canyon.busy.lock().unwrap() = Some(6);
    *canyon.life.lock().unwrap() = 900;
    let url = start(canyon.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "h.c.s").unwrap();
    let exchange = exchange_of(&url, &SourceSettings::File(file));
    assert!(exchange.token().await.is_err());
    *canyon.busy.lock().unwrap() = None;
    // The agent's own backoff would have retried by now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = exchange.token().await.unwrap_err().to_string();
    assert!(error.ends_with("often"), "{error}");
    assert_eq!(canyon.forms.lock().unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(5_200)).await;
    assert_eq!(exchange.token().await.unwrap().expose_secret(), "cya_2");
}

#[tokio::test]
async fn a_source_gives_a_token_or_an_error_that_names_the_source() {
    let url = start(Canyon::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let of = |source: SourceSettings| async move {
        let token = Source::of(&source).unwrap().token().await;
        token.map(|token| token.expose_secret().to_owned()).map_err(|error| error.to_string())
    };
    let host = url.trim_start_matches("http://").to_owned();
    assert_eq!(of(SourceSettings::Gcp(host, "canyon".to_owned())).await.unwrap(), "a.canyon.full");
    let helper = script(folder.path(), r#"printf '%s.%s.%s\n' "$1" "$2" "$#""#);
    let arguments = vec!["a".to_owned(), "$(id)".to_owned()];
    let error = of(SourceSettings::Helper(helper.clone(), arguments)).await.unwrap_err();
    assert!(error.contains("gave something that is not a JWT"), "without a shell: {error}");
    let arguments = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(of(SourceSettings::Helper(helper, arguments)).await.unwrap(), "a.b.2");
    let helper = script(folder.path(), r#"echo '{"token": "a.b.json", "expires": 1}'"#);
    assert_eq!(of(SourceSettings::Helper(helper, Vec::new())).await.unwrap(), "a.b.json");
    for (text, expected) in [
        ("echo denied >&2; exit 3", "denied"),
        ("yes a.b.c", "it printed more than a token"),
        ("cat /dev/zero >&2 & yes", "it printed more than a token"),
        ("echo s3cr3t", "gave something that is not a JWT"),
        (r#"echo '{"tokens": "s3cr3t"}'"#, "it printed JSON, but no text `token`"),
        (r#"echo '{"token": "s3cr3t"'"#, "it printed JSON, but no text `token`"),
    ] {
        let helper = script(folder.path(), text);
        let error = of(SourceSettings::Helper(helper, Vec::new())).await.unwrap_err();
        assert!(error.contains(expected) && !error.contains("s3cr3t"), "{text}: {error}");
    }
    let missing = folder.path().join("missing");
    for source in
        [SourceSettings::File(missing.clone()), SourceSettings::Helper(missing.clone(), Vec::new())]
    {
        let error = of(source).await.unwrap_err();
        assert!(error.contains(missing.to_str().unwrap()), "{error}");
    }
}
