use super::*;
use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use canyon_api::nonce::{ANSWER_NONCE_HEADER, NONCE_HEADER};

/// The agent's error for this answer of Canyon to a poll.
async fn answered(status: u16, body: &str, has_retry_after: bool) -> ConnectionError {
    answered_as(status, body, has_retry_after, |request_id| Some(request_id.clone())).await
}

/// The same. `answers` makes the header that names the request from the poll's request id.
async fn answered_as(
    status: u16,
    body: &str,
    has_retry_after: bool,
    answers: fn(&HeaderValue) -> Option<HeaderValue>,
) -> ConnectionError {
    let mut headers = HeaderMap::new();
    if has_retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
    }
    let answer = (StatusCode::from_u16(status).unwrap(), headers, body.to_owned());
    let router = Router::new().fallback(move |asked: HeaderMap| async move {
        let request_id = answers(&asked[NONCE_HEADER]);
        (request_id.map(|id| [(ANSWER_NONCE_HEADER, id)]), answer).into_response()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move { axum::serve(listener, router).await });
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = Client::over(http, &url, "acme");
    let sign_in = SignIn::Token("t".into());
    let api = ApiConnection::new(client, &"east-1".parse().unwrap(), sign_in);
    let error = api.poll(1, &Poll::default()).await.unwrap_err();
    served.abort();
    error
}

#[tokio::test]
async fn only_canyons_own_refusal_is_permanent_or_about_the_body() {
    let canyons = |status| format!(r#"{{"error": "API-{status}", "message": "no"}}"#);
    for has_retry_after in [false, true] {
        let pause = has_retry_after.then_some(Duration::from_secs(7));
        for status in [400, 403, 409, 413, 422] {
            for gateways in [
                "<html>Forbidden</html>",
                "",
                r#"{"message": "Forbidden"}"#,
                r#"{"error": "Forbidden", "message": "Forbidden"}"#,
            ] {
                let error = answered(status, gateways, has_retry_after).await;
                assert!(!error.is_permanent() && !error.is_about_the_body(), "{error:?}");
                assert_eq!(error.pause(), pause, "{error:?}");
            }
            let error = answered(status, &canyons(status), has_retry_after).await;
            assert!(error.is_permanent(), "{error:?}");
            assert_eq!(error.pause(), pause, "{error:?}");
        }
        for status in [401, 404] {
            let error = answered(status, "", has_retry_after).await;
            assert!(!error.is_unknown_agent(), "a gateway knows no agents: {error:?}");
            assert!(answered(status, &canyons(status), has_retry_after).await.is_unknown_agent());
        }
    }
}

#[tokio::test]
async fn a_damaged_request_is_neither_a_permanent_error_nor_one_of_an_unknown_agent() {
    for (status, code) in [(400, "incomplete"), (408, "incomplete"), (401, "no_token")] {
        let canyons = format!(
            r#"{{"error": "API-{status}", "message": "no", "details": {{"code": "{code}"}}}}"#
        );
        let error = answered(status, &canyons, false).await;
        assert_eq!(error.status(), Some(status), "{error:?}");
        assert!(!error.is_permanent() && !error.is_about_the_body(), "{error:?}");
        assert!(!error.is_unknown_agent(), "{error:?}");
    }
}

#[tokio::test]
async fn a_success_that_does_not_name_the_request_is_an_error() {
    for foreign in ["{}", r#"{"status": "ok"}"#, "<html>Sign in</html>", ""] {
        let error = answered_as(200, foreign, false, |_| None).await;
        assert!(
            matches!(error, ConnectionError::Client(ClientError::NotCanyon { .. })),
            "{foreign}: {error:?}"
        );
    }
}

#[tokio::test]
async fn canyons_answer_to_another_request_is_an_error() {
    let rejected = r#"{"error": "API-403", "message": "agent `paris` was rejected", "details": {"code": "rejected"}}"#;
    let another: fn(&HeaderValue) -> Option<HeaderValue> =
        |_| Some(HeaderValue::from_static("of-another-request"));
    let error = answered(403, rejected, false).await;
    assert!(error.is_rejection() && error.is_permanent(), "{error:?}");
    for (status, body) in [(403, rejected), (200, "{}"), (200, r#"{"offers": []}"#)] {
        for answers in [another, |_| None] {
            let error = answered_as(status, body, false, answers).await;
            assert!(
                matches!(error, ConnectionError::Client(ClientError::NotCanyon { .. })),
                "{status}: {error:?}"
            );
        }
    }
}
