//! The issuers' documents, served by the API (on a laptop) and by a separate function (on AWS).

use crate::harness::Api;
use axum::Router;
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::state_storage::StateStorage;
use canyon_functions::http::{self, HttpSettings};
use reqwest::{Client, Method};
use serde_json::Value;

const DOCUMENTS: [&str; 4] = [
    "/.well-known/openid-configuration",
    "/.well-known/jwks",
    "/jobs/.well-known/openid-configuration",
    "/jobs/.well-known/jwks",
];

/// Serves the router until the test ends.
async fn served(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn status(http: &Client, method: Method, url: String) -> (u16, Value) {
    let answer = http.request(method, url).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn the_issuers_function_serves_the_four_documents_of_a_laptop_and_nothing_else_of_the_api() {
    let api = Api::start().await;
    let settings = HttpSettings { on_lambda: true, ..HttpSettings::default() };
    let apart = served(http::issuer_router(api.issuers.clone(), &settings)).await;
    let get = async |url: &str, path: &str| {
        let answer = api.http.get(format!("{url}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{url}{path}");
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let headers = ["etag", "cache-control", "content-type"].map(header);
        assert!(answer.headers().contains_key("x-request-id"), "{path}");
        (headers, answer.text().await.unwrap())
    };
    for path in DOCUMENTS {
        let (headers, body) = get(&apart, path).await;
        assert_eq!((headers.clone(), body), get(&api.url, path).await, "{path}");
        let head = api.http.head(format!("{apart}{path}")).send().await.unwrap();
        assert_eq!(
            (head.status().as_u16(), head.headers()["etag"].to_str().unwrap()),
            (200, &*headers[0])
        );
        assert!(head.text().await.unwrap().is_empty(), "{path}");
        let known = api.http.get(format!("{apart}{path}")).header("if-none-match", &headers[0]);
        assert_eq!(known.send().await.unwrap().status(), 304, "{path}");
        let (code, said) = status(&api.http, Method::PUT, format!("{apart}{path}")).await;
        assert_eq!((code, &said["error"]), (405, &"API-405".into()), "{path}");
    }
    let document = serde_json::to_value(http::document()).unwrap();
    let others = document["paths"].as_object().unwrap().keys();
    let others: Vec<_> = others.filter(|path| !DOCUMENTS.contains(&path.as_str())).collect();
    assert!(others.len() > 30, "{others:?}");
    for path in others.into_iter().map(String::as_str).chain(["/.well-known/other", "/"]) {
        let path = path.replace(['{', '}'], "");
        for method in [Method::GET, Method::POST] {
            let (code, said) = status(&api.http, method, format!("{apart}{path}")).await;
            assert_eq!((code, &said["error"]), (404, &"API-404".into()), "{path}: {said}");
        }
    }
}

#[tokio::test]
async fn an_api_without_the_issuers_describes_their_documents_and_publishes_none() {
    let api = Api::start().await;
    let alone = served(http::router(api.app.clone(), None, &HttpSettings::default())).await;
    for path in DOCUMENTS {
        for method in [Method::GET, Method::POST] {
            let (code, said) = status(&api.http, method, format!("{alone}{path}")).await;
            assert_eq!((code, &said["error"]), (404, &"API-404".into()), "{path}: {said}");
        }
    }
    assert_eq!(status(&api.http, Method::GET, format!("{alone}/health")).await.0, 200);
    let document = api.http.get(format!("{alone}/openapi.json")).bearer_auth(&api.ours.viewer);
    let document: Value = document.send().await.unwrap().json().await.unwrap();
    for path in DOCUMENTS {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
}

#[tokio::test]
async fn the_document_describes_runners_and_their_state_by_the_properties_that_the_api_reads() {
    let api = Api::start().await;
    let document = api.http.get(format!("{}/openapi.json", api.url)).bearer_auth(&api.ours.viewer);
    let document: Value = document.send().await.unwrap().json().await.unwrap();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["RunnerConfiguration"], RunnerConfiguration::schema());
    assert_eq!(schemas["StateStorageConfiguration"], StateStorage::schema());
    for body in ["Runner", "RunnerCreateBody"] {
        let parts = &schemas[body]["properties"];
        for (part, schema) in [
            ("runner_configuration", "#/components/schemas/RunnerConfiguration"),
            ("state_storage_configuration", "#/components/schemas/StateStorageConfiguration"),
        ] {
            assert_eq!(parts[part]["$ref"], schema, "{body}: {}", parts[part]);
        }
    }
}
