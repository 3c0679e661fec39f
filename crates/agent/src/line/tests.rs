use super::*;
use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::IntoResponse as _;

/// What an agent makes of this answer of Canyon's to its poll.
async fn answered(status: u16, body: &str, asks_to_come_again: bool) -> LineError {
    told(status, body, asks_to_come_again, |word| Some(word.clone())).await
}

/// The same, with the word that `answers` makes of the poll's.
async fn told(
    status: u16,
    body: &str,
    asks_to_come_again: bool,
    answers: fn(&HeaderValue) -> Option<HeaderValue>,
) -> LineError {
    let mut headers = HeaderMap::new();
    if asks_to_come_again {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
    }
    let answer = (StatusCode::from_u16(status).unwrap(), headers, body.to_owned());
    let router = Router::new().fallback(move |asked: HeaderMap| async move {
        let word = answers(&asked[ASK]);
        (word.map(|word| [(ANSWER_TO, word)]), answer).into_response()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move { axum::serve(listener, router).await });
    let (org, agent) = ("acme".parse().unwrap(), "east-1".parse().unwrap());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let line = Line::new(http, &url, &org, &agent, SignIn::Token("t".into()), Arc::default());
    let error = line.poll(1, &Poll::default()).await.unwrap_err();
    served.abort();
    error
}

#[tokio::test]
async fn only_what_canyon_says_itself_is_lasting_or_against_what_was_sent() {
    let canyons = |status| format!(r#"{{"error": "API-{status}", "message": "no"}}"#);
    for comes_again in [false, true] {
        let pause = comes_again.then_some(Duration::from_secs(7));
        for status in [400, 403, 409, 413, 422] {
            for gateways in [
                "<html>Forbidden</html>",
                "",
                r#"{"message": "Forbidden"}"#,
                r#"{"error": "Forbidden", "message": "Forbidden"}"#,
            ] {
                let error = answered(status, gateways, comes_again).await;
                assert!(!error.is_lasting() && !error.is_about_the_body(), "{error:?}");
                assert_eq!(error.pause(), pause, "{error:?}");
            }
            let error = answered(status, &canyons(status), comes_again).await;
            assert!(error.is_lasting(), "{error:?}");
            assert_eq!(error.pause(), pause, "{error:?}");
        }
        for status in [401, 404] {
            let error = answered(status, "", comes_again).await;
            assert!(!error.is_stranger(), "it knows of no agents: {error:?}");
            assert!(answered(status, &canyons(status), comes_again).await.is_stranger());
        }
    }
}

#[tokio::test]
async fn what_came_otherwise_than_it_was_sent_is_neither_lasting_nor_a_strangers() {
    for (status, code) in [(400, "incomplete"), (408, "incomplete"), (401, "no_token")] {
        let canyons = format!(
            r#"{{"error": "API-{status}", "message": "no", "details": {{"code": "{code}"}}}}"#
        );
        let error = answered(status, &canyons, false).await;
        assert!(matches!(error, LineError::Refused { .. }), "{error:?}");
        assert!(!error.is_lasting() && !error.is_about_the_body(), "{error:?}");
        assert!(!error.is_stranger(), "{error:?}");
    }
}

#[tokio::test]
async fn a_success_that_does_not_name_the_request_takes_no_report_and_offers_no_work() {
    for foreign in ["{}", r#"{"status": "ok"}"#, "<html>Sign in</html>", ""] {
        let error = told(200, foreign, false, |_| None).await;
        assert!(matches!(error, LineError::Unreadable { .. }), "{foreign}: {error:?}");
    }
}

#[tokio::test]
async fn what_canyon_answers_another_request_is_no_answer_at_all() {
    let rejected = r#"{"error": "API-403", "message": "agent `paris` was rejected", "details": {"code": "rejected"}}"#;
    let another: fn(&HeaderValue) -> Option<HeaderValue> =
        |_| Some(HeaderValue::from_static("of-another-request"));
    let error = answered(403, rejected, false).await;
    assert!(error.is_rejection() && error.is_lasting(), "{error:?}");
    for (status, body) in [(403, rejected), (200, "{}"), (200, r#"{"offers": []}"#)] {
        for answers in [another, |_| None] {
            let error = told(status, body, false, answers).await;
            assert!(matches!(error, LineError::Unreadable { .. }), "{status}: {error:?}");
        }
    }
}
