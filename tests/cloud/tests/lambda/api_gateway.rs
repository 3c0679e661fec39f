//! API Gateway in front of a function.

use crate::puppet::{Puppet, program, puppet};
use canyon_cloud::api_gateway::{ApiConfig, ApiGateway, PayloadFormat, Routes, Throttle};
use futures::future::join_all;
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn before(puppet: &Puppet, change: impl FnOnce(&mut ApiConfig)) -> ApiGateway {
    let mut config = ApiConfig::default();
    change(&mut config);
    ApiGateway::start(config, puppet.function.clone()).await
}

/// Sends the puppet its instructions.
async fn order(api: &ApiGateway, orders: Value) -> Response {
    Client::new().post(api.url()).json(&orders).send().await.unwrap()
}

async fn message(response: Response) -> (u16, Value) {
    (response.status().as_u16(), response.json::<Value>().await.unwrap()["message"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_function_answers_in_both_formats_and_behind_a_stage() {
    let hello = program(env!("CARGO_BIN_EXE_hello"), |config| {
        *config = config.clone().with("AWS_LAMBDA_HTTP_IGNORE_STAGE_IN_PATH", "true");
    });
    for payload_format in [PayloadFormat::V1, PayloadFormat::V2] {
        let api = before(&hello, |config| config.payload_format = payload_format).await;
        let response = Client::new().get(api.url()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().contains_key("apigw-requestid"));
        assert_eq!(response.text().await.unwrap(), "hello");
        let response = Client::new().get(format!("{}/none", api.url())).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_format_2() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |config| config.stage = "prod".to_owned()).await;
    let request = Client::new()
        .put(format!("{}/a%20b/c?x=1&x=2%20&y=", api.url()))
        .header("Accept", "text/html")
        .header("accept", "text/plain")
        .header("cookie", "a=1; b=2")
        .header("user-agent", "test")
        .header("content-type", "text/plain")
        .body("hällo");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    let event = response.json::<Value>().await.unwrap()["event"].clone();
    assert_eq!(event["version"], "2.0");
    assert_eq!(event["routeKey"], "$default");
    assert_eq!(event["rawPath"], "/prod/a b/c");
    assert_eq!(event["rawQueryString"], "x=1&x=2%20&y=");
    assert_eq!(event["queryStringParameters"], json!({ "x": "1,2 ", "y": "" }));
    assert_eq!(event["cookies"], json!(["a=1", "b=2"]));
    assert_eq!(event["headers"]["accept"], "text/html,text/plain");
    assert_eq!(event["headers"]["x-forwarded-for"], "127.0.0.1");
    assert_eq!(event["body"], "hällo");
    assert_eq!(event["isBase64Encoded"], false);
    let context = &event["requestContext"];
    assert_eq!(context["stage"], "prod");
    assert_eq!(context["domainName"], "127.0.0.1");
    assert_eq!(
        context["http"],
        json!({ "method": "PUT", "path": "/prod/a b/c", "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1", "userAgent": "test" })
    );
    assert!(context["timeEpoch"].is_u64() && context["requestId"].is_string());

    let root = api.url();
    let elsewhere = root.strip_suffix("/prod").unwrap();
    let response = Client::new().get(format!("{elsewhere}/production")).send().await.unwrap();
    assert_eq!(message(response).await, (404, json!("Not Found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_of_format_1() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |config| config.payload_format = PayloadFormat::V1).await;
    let orders = json!({ "answer": { "statusCode": 201, "body": "made",
        "headers": { "x-one": "1" }, "multiValueHeaders": { "x-one": ["1"], "x-many": ["a", "b"] },
    }});
    let response = order(&api, orders).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let all = |name: &str| response.headers().get_all(name).iter().cloned().collect::<Vec<_>>();
    assert_eq!(all("x-many"), ["a", "b"]);
    assert_eq!(all("x-one"), ["1"]);
    assert_eq!(response.text().await.unwrap(), "made");

    // In a complete answer, the body is the event.
    let orders = json!({ "echo": 201 });
    let request = Client::new().post(format!("{}/x?a=1&a=2", api.url())).json(&orders);
    let response = request.header("x-two", "1").header("x-two", "2").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let event: Value = response.json().await.unwrap();
    assert_eq!((&event["version"], &event["path"]), (&json!("1.0"), &json!("/x")));
    assert_eq!(event["httpMethod"], "POST");
    assert_eq!(event["headers"]["x-two"], "2");
    assert_eq!(event["multiValueHeaders"]["x-two"], json!(["1", "2"]));
    assert_eq!(event["queryStringParameters"], json!({ "a": "2" }));
    assert_eq!(event["multiValueQueryStringParameters"], json!({ "a": ["1", "2"] }));
    assert_eq!(event["requestContext"]["identity"]["sourceIp"], "127.0.0.1");
    // Without a status, format 1.0 rejects the answer.
    assert_eq!(message(order(&api, json!({})).await).await.0, 500);

    let api = before(&puppet, |_| {}).await;
    let echoed = order(&api, json!({})).await.json::<Value>().await.unwrap();
    assert_eq!(echoed["event"]["version"], "2.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_takes_the_most_specific_route_and_its_function_answers() {
    let named = |name: &str| puppet(|config| config.name = name.to_owned());
    let (main, keys) = (named("main"), named("keys"));
    let routes = || {
        let with = |key: &str, puppet: &Puppet| (key.to_owned(), puppet.function.clone());
        [
            with("ANY /.well-known/{proxy+}", &keys),
            with("$default", &main),
            with("GET /.well-known/one", &main),
            with("ANY /.well-known/deep/{rest+}", &keys),
        ]
    };
    let (children, deep) = ("ANY /.well-known/{proxy+}", "ANY /.well-known/deep/{rest+}");
    let cases = [
        (Method::GET, "/", "main", "$default", Value::Null),
        (Method::GET, "/.well-known", "main", "$default", Value::Null),
        (Method::GET, "/other/.well-known/a", "main", "$default", Value::Null),
        (Method::GET, "/.well-known/a", "keys", children, json!({ "proxy": "a" })),
        (Method::POST, "/.well-known/a%20b/c", "keys", children, json!({ "proxy": "a b/c" })),
        (Method::GET, "/.well-known/", "keys", children, Value::Null),
        (Method::GET, "/.well-known/deep/a", "keys", deep, json!({ "rest": "a" })),
        (Method::GET, "/.well-known/one", "main", "GET /.well-known/one", Value::Null),
        (Method::PUT, "/.well-known/one", "keys", children, json!({ "proxy": "one" })),
    ];
    for (payload_format, stage) in [(PayloadFormat::V2, "$default"), (PayloadFormat::V1, "prod")] {
        let stage = stage.to_owned();
        let config = ApiConfig { payload_format, stage, ..ApiConfig::default() };
        let api = ApiGateway::start(config, Routes::new(routes())).await;
        for (method, path, function, key, caught) in &cases {
            let request = Client::new().request(method.clone(), format!("{}{path}", api.url()));
            // In a complete answer, in both formats, the body is the event.
            let answer = request.json(&json!({ "echo": 200 })).send().await.unwrap();
            let called = answer.headers()["x-function"].to_str().unwrap().to_owned();
            assert_eq!(called, *function, "{method} {path}");
            let event: Value = answer.json().await.unwrap();
            assert_eq!(event["pathParameters"], *caught, "{method} {path}");
            let (name, expected) = match payload_format {
                PayloadFormat::V2 => ("routeKey", *key),
                PayloadFormat::V1 => ("resource", key.split(' ').next_back().unwrap()),
            };
            assert_eq!(event[name], expected, "{method} {path}");
        }
    }
    let [first, ..] = routes();
    let api = ApiGateway::start(ApiConfig::default(), Routes::new([first])).await;
    let elsewhere = Client::new().get(format!("{}/other", api.url())).send().await.unwrap();
    assert_eq!(message(elsewhere).await, (404, json!("Not Found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_not_text_travel_in_base64() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |_| {}).await;
    let event = async |kind: &str, body: &'static [u8]| {
        let request = Client::new().post(api.url()).header("content-type", kind).body(body);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        (answer["event"]["body"].clone(), answer["event"]["isBase64Encoded"].clone())
    };
    assert_eq!(event("application/json; charset=utf-8", b"[]").await, (json!("[]"), json!(false)));
    assert_eq!(event("application/octet-stream", b"[]").await, (json!("W10="), json!(true)));
    assert_eq!(event("application/json", b"\xff").await, (json!("/w=="), json!(true)));
    assert_eq!(event("application/json", b"").await, (Value::Null, json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_becomes_a_response() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |_| {}).await;
    let response = order(
        &api,
        json!({ "answer": {
            "statusCode": 418,
            "headers": { "X-One": "1", "content-type": "image/png", "content-length": "999" },
            "multiValueHeaders": { "x-many": ["a", "b"] },
            "cookies": ["c=1; Secure", "d=2"],
            "body": "/wA=",
            "isBase64Encoded": true,
        }}),
    )
    .await;
    assert_eq!(response.status().as_u16(), 418);
    let all = |name: &str| -> Vec<String> {
        let values = response.headers().get_all(name).iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(all("x-one"), ["1"]);
    assert!(all("x-many").is_empty(), "format 2.0 does not know multiValueHeaders");
    assert_eq!(all("set-cookie"), ["c=1; Secure", "d=2"]);
    assert_eq!(all("content-type"), ["image/png"]);
    assert_eq!(response.bytes().await.unwrap().as_ref(), b"\xff\x00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_function_is_an_internal_error() {
    let puppet = puppet(|config| config.timeout = Duration::from_secs(2));
    let api = before(&puppet, |_| {}).await;
    for orders in [
        json!({ "fail": "oops" }),
        json!({ "exit": 1 }),
        json!({ "sleep": 60_000 }),
        json!({ "big": 6_291_556 }),
        json!({ "answer": { "statusCode": "many" } }),
        json!({ "answer": { "statusCode": 200, "body": {} } }),
        json!({ "answer": { "statusCode": 200, "body": "!", "isBase64Encoded": true } }),
        json!({ "answer": { "statusCode": 200, "headers": { "x": [] } } }),
    ] {
        let got = message(order(&api, orders.clone()).await).await;
        assert_eq!(got, (500, json!("Internal Server Error")), "{orders}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_stops_waiting_at_its_timeout_and_the_function_continues() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |config| {
        config.integration_timeout = Duration::from_millis(300);
    })
    .await;
    let response = order(&api, json!({ "sleep": 4_000 })).await;
    assert_eq!(message(response).await, (503, json!("Service Unavailable")));
    assert!(puppet.function.reports().is_empty());
    let done = || puppet.function.reports().len() == 1;
    crate::puppet::until("the end of the invocation", done).await;
    assert_eq!(puppet.function.reports()[0].error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_requests_are_refused() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |_| {}).await;
    let send = async |size: usize, kind: &str| {
        let request = Client::new().post(api.url()).header("content-type", kind);
        request.body(vec![b'a'; size]).send().await.unwrap()
    };
    let refused = (413, json!("Request Entity Too Large"));
    // More than API Gateway accepts.
    assert_eq!(message(send(10 * 1024 * 1024 + 1, "text/plain").await).await, refused);
    // More than Lambda accepts, once it is encoded.
    assert_eq!(message(send(5 * 1024 * 1024, "image/png").await).await, refused);
    assert!(puppet.function.reports().is_empty(), "nothing of that reached the function");

    let long = "a".repeat(10_240);
    let response = Client::new().get(api.url()).header("x", long).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn throttles_of_the_gateway_and_of_the_function_differ() {
    let puppet = puppet(|_| {});
    let throttle = Throttle { rate: 0.001, burst: 2 };
    let api = before(&puppet, |config| config.throttle = Some(throttle)).await;
    assert_eq!(order(&api, json!({})).await.status(), StatusCode::OK);
    puppet.function.limit_concurrency(0);
    let response = order(&api, json!({})).await;
    assert_eq!(message(response).await, (503, json!("Service Unavailable")));
    assert_eq!(message(order(&api, json!({})).await).await, (429, json!("Too Many Requests")));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_long_polls_run_at_once() {
    let puppet = puppet(|_| {});
    let api = before(&puppet, |_| {}).await;
    let began = Instant::now();
    let polls = join_all((0..30).map(|_| order(&api, json!({ "sleep": 3_000 })))).await;
    assert!(polls.iter().all(|response| response.status() == StatusCode::OK), "{polls:?}");
    // One after the other, they would take 90 seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(puppet.function.warm_processes().len(), 30);
}
