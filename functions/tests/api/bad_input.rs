//! Malformed and hostile requests: each gets a clear 4xx, and nothing is written.

use crate::harness::{Api, faults, local_runner, message};
use reqwest::Method;
use serde_json::{Value, json};

/// Malformed ids, although the last ones resemble ids.
const NOT_IDS: [&str; 14] = [
    "",
    "a",
    "..",
    "../etc",
    "a..b",
    "/shop",
    "shop/",
    "a\0b",
    "Shop",
    "shop ",
    "sh\u{43e}p",
    "shop\u{200b}",
    "\u{ff53}hop",
    "sho\u{307}p",
];

#[tokio::test]
async fn what_is_not_an_id_is_refused_in_a_body_with_its_field() {
    let api = Api::start().await;
    api.furnish().await;
    let before = api.audit().await;
    for id in NOT_IDS.into_iter().map(str::to_owned).chain(["a".repeat(201)]) {
        let mut runner = local_runner("x");
        runner["id"] = json!(id);
        for (path, body, field) in [
            ("/env-types", json!({ "id": id }), "id"),
            ("/projects", json!({ "id": id }), "id"),
            ("/projects/shop/envs", json!({ "id": id, "env_type_id": "dev" }), "id"),
            ("/projects/shop/envs", json!({ "id": "ok", "env_type_id": id }), "env_type_id"),
            ("/runners", runner, "id"),
            ("/runner-rules", json!({ "runner_id": id }), "runner_id"),
        ] {
            let refused = api.post(path, body).await;
            assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{path} {id:?}");
        }
    }
    assert_eq!(api.audit().await, before);
}

#[tokio::test]
async fn what_is_not_an_id_names_nothing_in_a_path() {
    let api = Api::start().await;
    api.furnish().await;
    for id in [
        "..%2Fetc",
        "a%00b",
        "Shared",
        "shared%20",
        "sh%D0%B0red",
        "shared%E2%80%8B",
        "%FF",
        "%2F",
        "shop%2F..%2Fshop",
        "shop%2F",
        "a",
    ] {
        for path in [
            format!("/runners/{id}"),
            format!("/projects/{id}"),
            format!("/env-types/{id}"),
            format!("/projects/{id}/envs"),
            format!("/projects/shop/envs/{id}"),
            format!("/runner-rules/{id}"),
        ] {
            let (status, answer) = api.get(&path).await;
            assert_eq!((status, &answer["error"]), (404, &json!("API-404")), "{path}");
        }
        let path = format!("/orgs/{id}/runners");
        assert_eq!(
            api.send(Method::GET, &path, Some(&api.ours.admin), None).await.0,
            404,
            "{path}"
        );
    }
}

#[tokio::test]
async fn unknown_and_mistyped_fields_are_named() {
    let api = Api::start().await;
    api.furnish().await;
    let before = api.audit().await;
    let cases: [(&str, Value, &str); 8] = [
        ("/projects", json!({ "id": "ok", "displayname": "x" }), "displayname"),
        ("/projects", json!({ "id": 7 }), "id"),
        ("/projects", json!({ "id": "ok", "display_name": "x" }), "display_name"),
        ("/projects", json!({ "id": "ok", "display_name": "a\u{7}b" }), "display_name"),
        ("/env-types", json!({ "id": ["dev"] }), "id"),
        (
            "/projects/shop/envs",
            json!({ "id": "ok", "env_type_id": "dev", "runner_id": "shared" }),
            "runner_id",
        ),
        ("/runner-rules", json!({ "runner_id": "shared", "priority": 1 }), "priority"),
        ("/tokens", json!({ "role": "viewer", "operator": true }), "operator"),
    ];
    for (path, body, field) in cases {
        let refused = api.post(path, body.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{path} {body}");
    }
    for body in
        ["", "null", "[]", "[\"ok\", null]", "\"x\"", "{", "{}", "{\"id\":\"ok\"}{}", "\u{feff}{}"]
    {
        let path = format!("/orgs/{}/projects", api.ours.id);
        let body = Some(body.as_bytes().to_vec());
        let (status, _) = api.send(Method::POST, &path, Some(&api.ours.admin), body.clone()).await;
        assert_eq!(status, 400, "{body:?}");
    }
    assert_eq!(api.audit().await, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_too_deep_or_no_json_is_refused() {
    let api = Api::start().await;
    let path = format!("/orgs/{}/runners", api.ours.id);
    let post = async |body: Vec<u8>| {
        api.send(Method::POST, &path, Some(&api.ours.admin), Some(body)).await
    };
    let mut large = local_runner("large");
    large["description"] = json!("x".repeat(300 * 1024));
    let refused = post(large.to_string().into_bytes()).await;
    assert_eq!((refused.0, &refused.1["error"]), (413, &json!("API-413")));

    let deep = format!("{}{}", "{\"a\":".repeat(1_000), "1");
    let body = format!(
        r#"{{"id":"deep","runner_configuration":{deep}{},"state_storage_configuration":{{}}}}"#,
        "}".repeat(1_000)
    );
    assert_eq!(post(body.into_bytes()).await.0, 400);

    // Within the parser's limit, but nested deeper than a definition may be.
    let mut nested = json!({});
    for _ in 0..100 {
        nested = json!({ "a": nested });
    }
    let mut runner = local_runner("nested");
    runner["runner_configuration"]["job"] = nested;
    let refused = post(runner.to_string().into_bytes()).await;
    assert!(refused.0 == 400 && message(&refused).contains("64"), "{refused:?}");

    let response = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("{}{path}", api.url))
        .bearer_auth(&api.ours.admin)
        .header("content-type", "application/yaml")
        .body("id: x")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 415);
    assert_eq!(api.get("/runners").await.1, json!({ "items": [] }));
}

#[tokio::test]
async fn a_query_that_cannot_be_meant_is_refused() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    for path in
        ["/runners?per_page=0", "/runners?per_page=101", "/envs?per_page=x", "/projects?page=x"]
    {
        assert_eq!(api.get(path).await.0, 400, "{path}");
    }
    assert_eq!(api.delete("/projects/shop/envs/main?force=yes").await.0, 400);
    assert_eq!(api.act("/projects/shop/envs/main/actions/refresh_runner?dry_run=1").await.0, 400);
    assert_eq!(api.get("/projects/shop/envs/main").await.0, 200);
}

#[tokio::test]
async fn a_path_or_method_that_there_is_not_is_answered_in_the_same_form() {
    let api = Api::start().await;
    assert_eq!(api.get("/nothing").await.1["error"], "API-404");
    assert_eq!(api.delete("/runners").await.1["error"], "API-405");
}
