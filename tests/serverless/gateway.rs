//! The functions `api` and `issuer` behind API Gateway: both payload formats, stages, bodies, limits.

use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::hints;
use canyon_cloud::api_gateway::{ApiConfig, ApiGateway, PayloadFormat, Routes};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::{Duration, Instant};

const ORIGIN: &str = "https://console.acme.com";

async fn gateway(routes: impl Into<Routes>, format: PayloadFormat, stage: &str) -> ApiGateway {
    let config =
        ApiConfig { payload_format: format, stage: stage.to_owned(), ..ApiConfig::default() };
    ApiGateway::start(config, routes).await
}

/// A request of an administrator, to a path in the organization.
fn request(server: &Server, api: &ApiGateway, method: Method, path: &str) -> RequestBuilder {
    let url = format!("{}/orgs/{}{path}", api.url(), server.org());
    Client::new().request(method, url).bearer_auth(server.token())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_formats_and_a_named_stage_serve_the_same_api() {
    let server = Server::start().await;
    for (format, stage) in [
        (PayloadFormat::V2, "$default"),
        (PayloadFormat::V2, "prod"),
        (PayloadFormat::V1, "$default"),
        (PayloadFormat::V1, "prod"),
    ] {
        let api = gateway(server.cloud().routes(), format, stage).await;
        let case = format!("{format:?}, stage {stage}");
        let id = format!("type-{}", uuid::Uuid::new_v4().simple());
        let made = request(&server, &api, Method::POST, "/env-types").json(&json!({ "id": id }));
        let made = made.send().await.unwrap();
        assert_eq!(made.status(), 201, "{case}");
        let listed = request(&server, &api, Method::GET, "/env-types?per_page=100");
        let listed: Value = listed.send().await.unwrap().json().await.unwrap();
        let ids = listed["items"].as_array().unwrap().iter().map(|one| &one["id"]);
        assert!(ids.into_iter().any(|one| *one == id), "{case}: {listed}");

        // Bytes that are no text are encoded in base64, in both directions.
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let path = format!("/archives/{}", hex::encode(Sha256::digest(&bytes)));
        let put =
            request(&server, &api, Method::PUT, &path).header("content-type", "application/gzip");
        let put = put.body(bytes).send().await.unwrap();
        assert!(put.status().is_success(), "{case}: {put:?}");
        let head = request(&server, &api, Method::HEAD, &path).send().await.unwrap();
        assert!(head.status().is_success(), "{case}: {head:?}");
        for issuer in ["", "/jobs"] {
            let url = format!("{}{issuer}/.well-known/jwks", api.url());
            let keys = Client::new().get(url).send().await.unwrap();
            assert!(keys.headers()["cache-control"].to_str().unwrap().contains("max-age=300"));
            let keys: Value = keys.json().await.unwrap();
            assert_eq!(keys["keys"][0]["kty"], "RSA", "{case}: {keys}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_has_the_keys_gets_304_and_the_log_has_the_gateways_id() {
    let server = Server::start().await;
    let http = Client::builder().no_proxy().build().unwrap();
    for path in ["/.well-known/jwks", "/jobs/.well-known/openid-configuration"] {
        let url = format!("{}{path}", server.url());
        let first = http.get(&url).send().await.unwrap();
        let tag = first.headers()["etag"].clone();
        let id = first.headers()["apigw-requestid"].to_str().unwrap().to_owned();
        assert_eq!(first.headers()["x-request-id"], id.as_str());
        let log = server.cloud().function("issuer").log();
        let line = log.lines().find(|line| line.contains(&id)).expect("it is in the log");
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["span"]["path"], path, "{line}");
        let known = http.get(&url).header("if-none-match", &tag).send().await.unwrap();
        assert_eq!((known.status().as_u16(), &known.headers()["etag"]), (304, &tag), "{path}");
        assert!(known.bytes().await.unwrap().is_empty(), "{path}");
        let head = http.head(&url).send().await.unwrap();
        assert_eq!((head.status().as_u16(), &head.headers()["etag"]), (200, &tag), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_compressed_and_a_request_has_one_id_everywhere() {
    let server = Server::start().await;
    let function = server.cloud().function("api");
    let api = gateway(function.clone(), PayloadFormat::V2, "$default").await;
    let document = Client::new().get(format!("{}/openapi.json", api.url()));
    let document = document.bearer_auth(server.token()).header("accept-encoding", "gzip");
    let document = document.send().await.unwrap();
    assert_eq!(document.headers()["content-encoding"], "gzip");
    let bytes = document.bytes().await.unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]), "it is gzip");

    let answer = request(&server, &api, Method::GET, "/runners/absent").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    let gateways = answer.headers()["apigw-requestid"].to_str().unwrap().to_owned();
    assert_eq!(answer.headers()["x-request-id"], gateways.as_str());
    let body: Value = answer.json().await.unwrap();
    let log = function.log();
    let line = log.lines().find(|line| line.contains(&gateways)).expect("it is in the log");
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["request_id"], gateways.as_str());
    assert!(body.to_string().contains(&gateways), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_named_pages_may_call_it_from_a_browser() {
    let server = Server::start().await;
    let function = server.cloud().function("api");
    let mut environment = function.config().environment.clone();
    environment.insert("CANYON_CORS_ORIGINS".to_owned(), ORIGIN.to_owned());
    function.update(environment).await;
    let api = gateway(function.clone(), PayloadFormat::V2, "$default").await;
    for (origin, is_allowed) in [(ORIGIN, true), ("https://evil.example", false)] {
        let preflight = request(&server, &api, Method::OPTIONS, "/deployments")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type")
            .send()
            .await
            .unwrap();
        assert!(preflight.status().is_success(), "{preflight:?}");
        let allowed = preflight.headers().get("access-control-allow-origin");
        assert_eq!(allowed.is_some(), is_allowed, "{origin}: {allowed:?}");
        let read = request(&server, &api, Method::GET, "/runners").header("origin", origin);
        let read = read.send().await.unwrap();
        let allowed = read.headers().get("access-control-allow-origin");
        assert_eq!(allowed.is_some(), is_allowed, "{origin}: {allowed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_requests_are_refused() {
    let server = Server::start().await;
    let api = gateway(server.cloud().function("api").clone(), PayloadFormat::V2, "$default").await;
    // 5 MB are 6.7 MB in base64, more than Lambda accepts; 11 MB are more than API Gateway accepts.
    for megabytes in [5, 11] {
        let bytes = vec![b'\xff'; megabytes << 20];
        let path = format!("/archives/{}", hex::encode(Sha256::digest(&bytes)));
        let put =
            request(&server, &api, Method::PUT, &path).header("content-type", "application/gzip");
        let put = put.body(bytes).send().await.unwrap();
        assert_eq!(put.status(), 413, "{megabytes} MB");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_wait_is_answered_before_the_gateway_gives_up() {
    let site = Site::new().await;
    let server = &site.server;
    let function = server.cloud().function("api");
    let (id, pid) = hints::applying(&site, 1).await;
    let path = format!("/deployments/{id}/actions/wait-for-complete?timeout_in_seconds=25");
    let api = gateway(function.clone(), PayloadFormat::V2, "$default").await;
    let began = Instant::now();
    let wait = request(server, &api, Method::GET, &path).send().await.unwrap();
    assert_eq!(wait.status(), 408, "{wait:?}");
    assert!(began.elapsed() < Duration::from_secs(29), "{:?}", began.elapsed());

    // A gateway with a shorter timeout answers by itself, and the next request succeeds.
    let config = ApiConfig { integration_timeout: Duration::from_secs(1), ..ApiConfig::default() };
    let hasty = ApiGateway::start(config, function.clone()).await;
    let cut = request(server, &hasty, Method::GET, &path).send().await.unwrap();
    assert_eq!(cut.status(), 503, "{cut:?}");
    assert_eq!(site.client.deployment(&id).await.unwrap().status, "running");
    hints::kill(pid);
}
