//! A console in a browser calls the API from another origin.

use crate::harness::Api;
use crate::job::{Raw, raw};
use canyon_functions::http::HttpSettings;
use reqwest::Method;

const CONSOLE: &str = "https://console.example.org";

async fn with_console() -> Api {
    let allowed_origins = vec![CONSOLE.parse().unwrap(), "http://localhost:5173".parse().unwrap()];
    let mut api = Api::start().await;
    api.serve_again(|app| app, &HttpSettings { allowed_origins, ..HttpSettings::default() }).await;
    api
}

/// The preflight request of a browser before a request to another origin. It has no token.
async fn preflight(api: &Api, origin: &str, method: &str, headers: &str) -> Raw {
    let url = format!("{}/orgs/our-org/deployments", api.url);
    let request = api.http.request(Method::OPTIONS, url).header("origin", origin);
    let request = request.header("access-control-request-method", method);
    raw(request.header("access-control-request-headers", headers)).await
}

fn header<'a>(answer: &'a Raw, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

fn listed(answer: &Raw, name: &str) -> Vec<String> {
    let mut items: Vec<_> = header(answer, name).unwrap_or_default().split(',').collect();
    items.sort_unstable();
    items.into_iter().map(|item| item.trim().to_ascii_lowercase()).collect()
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_call_with_the_methods_and_headers_of_the_api() {
    let api = with_console().await;
    for origin in [CONSOLE, "http://localhost:5173"] {
        let answer = preflight(&api, origin, "POST", "authorization,idempotency-key").await;
        assert_eq!(answer.status, 200);
        assert_eq!(header(&answer, "access-control-allow-origin"), Some(origin));
        let methods = listed(&answer, "access-control-allow-methods");
        assert_eq!(methods, ["delete", "get", "patch", "post", "put"]);
        let headers = listed(&answer, "access-control-allow-headers");
        assert_eq!(headers, ["authorization", "content-type", "decryptkey", "idempotency-key"]);
        assert_eq!(header(&answer, "access-control-allow-credentials"), None);
        assert!(header(&answer, "vary").unwrap().contains("origin"));
    }
    let request = api.http.get(format!("{}/orgs/our-org/projects", api.url));
    let answer = raw(request.bearer_auth(&api.ours.viewer).header("origin", CONSOLE)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(header(&answer, "access-control-allow-origin"), Some(CONSOLE));
    assert_eq!(
        listed(&answer, "access-control-expose-headers"),
        ["canyon-log-complete", "canyon-next-offset", "content-disposition", "x-request-id"]
    );
    // A page can also read a refusal.
    let request = api.http.get(format!("{}/orgs/our-org/projects", api.url));
    let refused = raw(request.header("origin", CONSOLE)).await;
    assert_eq!(refused.status, 401);
    assert_eq!(header(&refused, "access-control-allow-origin"), Some(CONSOLE));
}

#[tokio::test]
async fn a_page_of_another_origin_may_not_and_without_a_setting_none_may() {
    let api = with_console().await;
    let others = [
        "https://console.example.org.evil.example",
        "http://console.example.org",
        "https://console.example.org:8443",
        "null",
    ];
    for origin in others {
        let answer = preflight(&api, origin, "POST", "authorization").await;
        assert_eq!(header(&answer, "access-control-allow-origin"), None, "{origin}");
        // A cache must not serve this answer to the console.
        assert!(header(&answer, "vary").unwrap().contains("origin"));
    }
    let closed = Api::start().await;
    let answer = preflight(&closed, CONSOLE, "POST", "authorization").await;
    assert_eq!(answer.status, 405);
    assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")));
}
