//! Access control: no route without a token, no write below its role, no object of another organization.

use crate::harness::{Api, local_runner};
use reqwest::Method;
use serde_json::{Value, json};

/// Operations of the document, as (method, path with ids filled in, whether anyone may call it).
pub(crate) fn operations() -> Vec<(Method, String, bool)> {
    let document = serde_json::to_value(canyon_functions::http::document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let filled: Vec<_> = path
            .split('/')
            .map(|segment| match segment {
                "{orgId}" => "our-org",
                "{ruleId}" | "{tokenId}" | "{deploymentId}" => {
                    "01234567-89ab-4def-8123-456789abcdef"
                }
                parameter if parameter.starts_with('{') => "some-id",
                other => other,
            })
            .collect();
        for (method, operation) in item.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            let known = [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE];
            if known.contains(&method) {
                found.push((method, filled.join("/"), operation["security"] == json!([{}])));
            }
        }
    }
    found
}

#[tokio::test]
async fn every_route_but_the_open_ones_refuses_a_request_without_a_good_token() {
    let api = Api::start().await;
    let mut revoked = api.ours.admin.clone();
    revoked.replace_range(10..14, "AAAA");
    let bad = [
        None,
        Some(""),
        Some("x"),
        Some("cya_"),
        Some(revoked.as_str()),
        Some("eyJhbGciOiJub25lIn0.e30."),
    ];
    let operations = operations();
    let open: Vec<_> =
        operations.iter().filter(|(_, _, open)| *open).map(|(_, path, _)| path.as_str()).collect();
    let known = [
        "/.well-known/jwks",
        "/.well-known/openid-configuration",
        "/health",
        "/jobs/.well-known/jwks",
        "/jobs/.well-known/openid-configuration",
        // What a person reads before signing in, and two forms that have the token in them.
        "/orgs/our-org/oauth/providers",
        "/orgs/our-org/oauth/revoke",
        "/orgs/our-org/oauth/token",
    ];
    assert_eq!(open, known);
    assert!(operations.len() > 30, "{}", operations.len());
    for (method, path, _) in operations.iter().filter(|(_, _, open)| !open) {
        for token in bad {
            let (status, body) = api.send(method.clone(), path, token, None).await;
            assert_eq!(status, 401, "{method} {path} {token:?}");
            assert_eq!(body["error"], "API-401", "{method} {path}");
        }
    }
    assert_eq!(api.send(Method::GET, "/health", None, None).await.0, 200);
}

#[tokio::test]
async fn a_viewer_and_a_deployer_read_the_inventory_and_change_nothing() {
    let api = Api::start().await;
    let (refresh, rule) = (
        "/projects/shop/envs/main/actions/refresh_runner",
        "/runner-rules/01234567-89ab-4def-8123-456789abcdef",
    );
    let name = json!({ "display_name": "Other" });
    let id = json!({ "id": "new" });
    let writes: [(Method, &str, Option<Value>); 17] = [
        (Method::POST, "/env-types", Some(id.clone())),
        (Method::PATCH, "/env-types/dev", Some(name.clone())),
        (Method::DELETE, "/env-types/dev", None),
        (Method::POST, "/projects", Some(id)),
        (Method::PATCH, "/projects/shop", Some(name.clone())),
        (Method::DELETE, "/projects/shop", None),
        // The rights of an administrator of a type depend on the type in the body.
        (Method::POST, "/projects/shop/envs", Some(json!({ "id": "new", "env_type_id": "dev" }))),
        (Method::PATCH, "/projects/shop/envs/main", Some(name)),
        (Method::DELETE, "/projects/shop/envs/main?force=true", None),
        (Method::POST, refresh, None),
        (Method::POST, "/runners", Some(local_runner("new"))),
        (Method::PATCH, "/runners/shared", Some(json!({}))),
        (Method::DELETE, "/runners/shared", None),
        (Method::POST, "/runner-rules", Some(json!({ "runner_id": "shared" }))),
        (Method::DELETE, rule, None),
        (Method::POST, "/tokens", Some(json!({ "role": "admin" }))),
        (Method::GET, "/audit-records", None),
    ];
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let before = api.audit().await;
    for token in [&api.ours.viewer, &api.ours.deployer] {
        for (method, path, body) in &writes {
            let (status, answer) = api.call_as(token, method.clone(), path, body.as_ref()).await;
            assert_eq!(status, 403, "{method} {path}: {answer}");
        }
        for path in ["", "/env-types", "/projects", "/envs", "/runners/shared", "/runner-rules"] {
            assert_eq!(api.call_as(token, Method::GET, path, None).await.0, 200, "{path}");
        }
    }
    assert_eq!(api.audit().await, before);
}

#[tokio::test]
async fn objects_of_other_organizations_are_answered_like_absent_ones() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let rules = api.get("/runner-rules").await.1;
    let rule = format!("/runner-rules/{}", rules["items"][0]["id"].as_str().unwrap());
    let paths =
        ["/projects/shop", "/env-types/dev", "/projects/shop/envs/main", "/runners/shared", &rule];
    for path in paths {
        assert_eq!(api.get(path).await.0, 200, "{path}");
        for method in [Method::GET, Method::DELETE] {
            // Below the other organization's name, our ids do not exist.
            let theirs = format!("/orgs/their-org{path}");
            let foreign = api.send(method.clone(), &theirs, Some(&api.theirs.admin), None).await;
            assert_eq!(foreign.0, 404, "{method} {path}");
            // Below our name, every object is absent: the answer is the same whether it exists or not.
            let ours = format!("/orgs/our-org{path}");
            let there = api.send(method.clone(), &ours, Some(&api.theirs.admin), None).await;
            let ours = format!("/orgs/our-org{path}-absent");
            let absent = api.send(method, &ours, Some(&api.theirs.admin), None).await;
            assert_eq!((there.0, &there), (404, &absent), "{path}");
        }
    }
    let unknown =
        api.send(Method::GET, "/orgs/no-such-org/runners", Some(&api.ours.admin), None).await;
    let theirs =
        api.send(Method::GET, "/orgs/their-org/runners", Some(&api.ours.admin), None).await;
    assert_eq!(unknown.1["message"], "there is no organization `no-such-org`");
    assert_eq!(theirs.1["message"], "there is no organization `their-org`");
    assert_eq!((unknown.0, theirs.0), (404, 404));
}

#[tokio::test]
async fn every_accepted_change_has_one_record_with_its_author() {
    let api = Api::start().await;
    let before = api.audit().await.len();
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api.patch("/projects/shop", json!({ "display_name": "Shop" })).await;
    api.patch("/env-types/dev", json!({ "display_name": "Dev" })).await;
    api.patch("/projects/shop/envs/main", json!({ "display_name": "Main" })).await;
    api.patch("/runners/shared", json!({ "description": "for all" })).await;
    let token = api.make("/tokens", json!({ "role": "viewer" })).await;
    let token = token["id"].as_str().unwrap();
    api.delete(&format!("/tokens/{token}")).await;
    api.delete("/projects/shop/envs/main").await;
    let audit = api.audit().await;
    let rule = api.get("/runner-rules").await.1["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        audit[..audit.len() - before],
        [
            "environment.delete projects/shop/envs/main".to_owned(),
            format!("token.delete tokens/{token}"),
            format!("token.create tokens/{token}"),
            "runner.update runners/shared".to_owned(),
            "environment.update projects/shop/envs/main".to_owned(),
            "env_type.update env-types/dev".to_owned(),
            "project.update projects/shop".to_owned(),
            "environment.create projects/shop/envs/main".to_owned(),
            format!("runner_rule.create runner-rules/{rule}"),
            "runner.create runners/shared".to_owned(),
            "env_type.create env-types/dev".to_owned(),
            "project.create projects/shop".to_owned(),
        ]
    );
    let newest = &api.get("/audit-records?per_page=1").await.1["items"][0];
    assert_eq!(newest["by_right"], "admin");
}
