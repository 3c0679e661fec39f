//! Malformed requests get the same answers whichever server accepts the connection: `canyon local` itself, or API
//! Gateway in front of the functions.

use crate::harness::server::Server;
use reqwest::{Method, Response};
use serde_json::Value;

struct Edge {
    server: Server,
    http: reqwest::Client,
}

impl Edge {
    async fn new() -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { server: Server::start().await, http }
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Response {
        let request = self.http.request(method, format!("{}{path}", self.server.url()));
        let request = request.bearer_auth(self.server.token());
        request.header("content-type", "application/json").body(body).send().await.unwrap()
    }

    /// The status of an answer, which must be in Canyon's own form.
    async fn refusal(&self, method: Method, path: &str, body: Vec<u8>) -> u16 {
        let answer = self.send(method.clone(), path, body).await;
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"], format!("API-{status}"), "{method} {path}: {body}");
        assert!(body["message"].is_string() && body["request_id"].is_string(), "{body}");
        status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_gets_the_same_refusal_from_each_wiring() {
    let edge = Edge::new().await;
    let projects = format!("/orgs/{}/projects", edge.server.org());
    for (method, path, status) in [
        (Method::GET, "/", 404),
        (Method::GET, "/no/such/path", 404),
        (Method::POST, "/health", 405),
        (Method::POST, "/.well-known/jwks", 405),
        (Method::GET, "/.well-known/", 404),
        (Method::GET, "/.well-known/other", 404),
        (Method::GET, "/jobs/.well-known/jwks/other", 404),
        (Method::OPTIONS, projects.as_str(), 405),
        (Method::TRACE, projects.as_str(), 405),
    ] {
        assert_eq!(edge.refusal(method.clone(), path, Vec::new()).await, status, "{method} {path}");
    }
    let large = vec![b' '; 257 * 1024];
    assert_eq!(edge.refusal(Method::POST, &projects, large).await, 413);
    assert_eq!(edge.refusal(Method::POST, &projects, b"{".to_vec()).await, 400);
    // The server still answers, on this connection or another.
    assert_eq!(edge.send(Method::GET, "/health", Vec::new()).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_request_is_answered_as_a_get_without_its_body() {
    let edge = Edge::new().await;
    let answer = edge.send(Method::HEAD, "/health", Vec::new()).await;
    assert_eq!((answer.status().as_u16(), answer.bytes().await.unwrap().len()), (200, 0));
    let unknown = edge.send(Method::HEAD, "/no/such/path", Vec::new()).await;
    assert_eq!((unknown.status().as_u16(), unknown.bytes().await.unwrap().len()), (404, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_too_long_are_refused_and_long_ones_of_tokens_are_not() {
    let edge = Edge::new().await;
    let url = format!("{}/health", edge.server.url());
    for (length, expected) in [(8 * 1024, 200..=200), (64 * 1024, 400..=431)] {
        let request = edge.http.get(&url).header("x-long", "x".repeat(length));
        let status = request.send().await.unwrap().status().as_u16();
        assert!(expected.contains(&status), "{length}: {status}");
    }
}
