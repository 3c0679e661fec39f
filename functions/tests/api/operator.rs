//! The operator of an installation, whose token is a setting: it creates organizations, and reads none.

use crate::harness::{Api, OPERATOR};
use canyon_identity::bearer;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn the_operator_creates_an_organization_and_is_not_its_admin() {
    let api = Api::start().await;
    let (status, made) = api.send(Method::POST, "/orgs", Some(OPERATOR), None).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["created_by"], "00000000-0000-0000-0000-000000000000");
    let path = format!("/orgs/{}", made["id"].as_str().unwrap());
    let admin = made["admin_token"].as_str().unwrap();
    assert_eq!(api.send(Method::GET, &path, Some(admin), None).await.0, 200);
    let audit = api.send(Method::GET, &format!("{path}/audit-records"), Some(admin), None).await.1;
    let record = &audit["items"][0];
    assert_eq!(
        (&record["action"], &record["by_right"]),
        (&json!("organization.create"), &json!("operator"))
    );
    assert_eq!(api.send(Method::GET, &path, Some(OPERATOR), None).await.0, 404);
}

#[tokio::test]
async fn the_operator_reaches_nothing_of_any_organization() {
    let api = Api::start().await;
    api.furnish().await;
    let document = serde_json::to_value(canyon_functions::http::document()).unwrap();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.starts_with("/orgs/") {
            continue;
        }
        let nil = uuid::Uuid::nil().to_string();
        for org in ["our-org", "operator", nil.as_str(), "%00"] {
            let path = path.replace("{orgId}", org).replace(['{', '}'], "");
            for method in item.as_object().unwrap().keys() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
                let body = (method != Method::GET).then(|| b"{}".to_vec());
                let refused = api.send(method.clone(), &path, Some(OPERATOR), body).await;
                // Routes of runners accept no API token, and sign-in and sign-out need a form. Any reader may list the
                // ways to sign in: the operator finds none that others do not.
                let form = refused.0 == 415
                    && ["/oauth/token", "/oauth/revoke"].iter().any(|end| path.ends_with(end));
                let open = path.ends_with("/oauth/providers");
                let is_refused = form || open || matches!(refused.0, 401 | 404 | 405);
                assert!(is_refused, "{method} {path}: {refused:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[tokio::test]
async fn only_the_token_with_the_configured_hash_is_the_operators() {
    let api = Api::start().await;
    let mut other = OPERATOR.to_owned();
    other.replace_range(10..11, "X");
    let hash = bearer::hash(OPERATOR).0;
    for token in [other, hash.clone(), format!("cya_{hash}")] {
        assert_eq!(api.send(Method::POST, "/orgs", Some(&token), None).await.0, 401, "{token}");
    }
}
