//! Event sources: administrators create, read, change and delete them; each scope has at most one.

use crate::harness::{Api, faults, message, settled};
use reqwest::Method;
use serde_json::{Value, json};

const ACCOUNT: &str = "123456789012";

fn named(id: &str, more: &Value) -> Value {
    let mut body = json!({ "id": id, "account": ACCOUNT });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn an_event_source_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    api.make("/projects", json!({ "id": "payments/eu/api" })).await;
    let body = named("acme-ci", &json!({ "source": "com.acme.ci", "project": "payments" }));
    let made = api.make("/event-sources", body).await;
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "account": "123456789012",
      "created_at": "[time]",
      "id": "acme-ci",
      "org_id": "our-org",
      "project": "payments",
      "role": "deployer",
      "source": "com.acme.ci",
      "updated_at": "[time]",
      "uuid": "[uuid]"
    }
    "#);
    assert_eq!(api.get("/event-sources/acme-ci").await, (200, made.clone()));
    let rule = "arn:aws:events:eu-west-1:123456789012:rule/canyon/deploys";
    let narrowing = json!({ "source": "", "project": null, "rule": rule });
    let (status, changed) = api.patch("/event-sources/acme-ci", narrowing).await;
    assert_eq!(status, 200, "{changed}");
    let parts = ["account", "source", "rule", "project", "uuid"].map(|name| changed.get(name));
    let expected = [json!(ACCOUNT), json!(rule), made["uuid"].clone()];
    assert_eq!(parts, [Some(&expected[0]), None, Some(&expected[1]), None, Some(&expected[2])]);
    assert_ne!(changed["updated_at"], made["updated_at"]);
    let (status, other) = api.patch("/event-sources/acme-ci", json!({ "rule": "deploys" })).await;
    assert_eq!((status, &other["rule"]), (200, &json!("deploys")));
    assert_eq!(api.get("/event-sources").await, (200, json!({ "items": [other] })));
    assert_eq!(api.delete("/event-sources/acme-ci").await, (204, json!(null)));
    for (method, body) in
        [(Method::GET, None), (Method::DELETE, None), (Method::PATCH, Some(json!({})))]
    {
        let token = &api.ours.admin;
        let answer = api.call_as(token, method, "/event-sources/acme-ci", body.as_ref()).await;
        assert_eq!((answer.0, message(&answer)), (404, "there is no event source `acme-ci`"));
    }
    let records = api.audit().await;
    let written = ["delete", "update", "update", "create"];
    let written = written.map(|verb| format!("event_source.{verb} event-sources/acme-ci"));
    assert_eq!(records[..4], written);
}

#[tokio::test]
async fn a_faulty_field_is_named_and_nothing_but_a_deployer_is_made() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/event-sources", named("ci", &json!({}))).await;
    let before = api.audit().await;
    let cases = [
        (json!({ "account": "12345678901" }), "account"),
        (json!({ "account": "1234-5678-90" }), "account"),
        (json!({ "source": "aws.events" }), "source"),
        (json!({ "source": "a\nb" }), "source"),
        (json!({ "rule": "arn:aws:lambda:x" }), "rule"),
        (json!({ "rule": "a b" }), "rule"),
        (json!({ "project": "Shop" }), "project"),
        (json!({ "project": "sho" }), "project"),
        (json!({ "role": "admin" }), "role"),
        (json!({ "role": "viewer" }), "role"),
        (json!({ "role": "" }), "role"),
        (json!({ "roles": "deployer" }), "roles"),
        (json!({ "account": 123_456_789_012_u64 }), "account"),
    ];
    for (changes, field) in cases {
        let refused = api.post("/event-sources", named("other", &changes)).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{changes}: {}", refused.1);
        let refused = api.patch("/event-sources/ci", changes.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{changes}: {}", refused.1);
    }
    let both = json!({ "id": "A", "account": "x", "role": "admin" });
    let refused = api.post("/event-sources", both).await;
    assert_eq!(faults(&refused), ["id", "account", "role"]);
    assert_eq!(faults(&api.patch("/event-sources/ci", json!({ "id": "x" })).await), ["id"]);
    assert_eq!(api.audit().await, before);
}

#[tokio::test]
async fn two_that_cover_the_same_are_refused_and_the_first_is_named() {
    let api = Api::start().await;
    api.furnish().await;
    let scopes = [
        json!({}),
        json!({ "source": "com.acme.ci" }),
        json!({ "rule": "deploys" }),
        json!({ "project": "shop" }),
        json!({ "source": "com.acme.ci", "rule": "deploys", "project": "shop" }),
    ];
    for (n, scope) in scopes.iter().enumerate() {
        api.make("/event-sources", named(&format!("ci-{n}"), scope)).await;
    }
    let refused = api.post("/event-sources", named("again", &scopes[4])).await;
    assert_eq!(
        (refused.0, message(&refused)),
        (
            409,
            "event source `ci-4` speaks for account `123456789012`, source `com.acme.ci`, rule `deploys`, project `shop` already; narrow one of them, or delete it: canyon delete event-source ci-4"
        )
    );
    assert_eq!(refused.1["details"]["event_source"], json!("ci-4"));
    let changed = api.patch("/event-sources/ci-4", json!({ "rule": "", "project": "" })).await;
    assert_eq!((changed.0, &changed.1["details"]["event_source"]), (409, &json!("ci-1")));
    let same_id = api.post("/event-sources", named("ci-0", &json!({ "source": "x" }))).await;
    assert_eq!(same_id.0, 409);
    assert!(message(&same_id).contains("exists already"), "{same_id:?}");
    assert_eq!(api.patch("/event-sources/ci-0", json!({})).await.0, 200, "its own is no rival");
    assert_eq!(api.delete("/event-sources/ci-4").await.0, 204);
    api.make("/event-sources", named("again", &scopes[4])).await;
}

#[tokio::test]
async fn only_admins_change_them_and_no_organization_sees_those_of_others() {
    let api = Api::start().await;
    api.make("/event-sources", named("ci", &json!({}))).await;
    let before = api.audit().await;
    for token in [&api.ours.viewer, &api.ours.deployer] {
        for (method, path, body) in [
            (Method::POST, "/event-sources", Some(named("own", &json!({ "source": "x" })))),
            (Method::PATCH, "/event-sources/ci", Some(json!({ "source": "x" }))),
            (Method::DELETE, "/event-sources/ci", None),
        ] {
            assert_eq!(api.call_as(token, method, path, body.as_ref()).await.0, 403, "{path}");
        }
        for path in ["/event-sources", "/event-sources/ci"] {
            assert_eq!(api.call_as(token, Method::GET, path, None).await.0, 200, "{path}");
        }
    }
    let body = json!({ "source": "x" }).to_string().into_bytes();
    for (method, body) in [(Method::GET, None), (Method::DELETE, None), (Method::PATCH, Some(body))]
    {
        for org in ["our-org", "their-org"] {
            let path = format!("/orgs/{org}/event-sources/ci");
            let token = Some(api.theirs.admin.as_str());
            let answer = api.send(method.clone(), &path, token, body.clone()).await;
            assert_eq!(answer.0, 404, "{method} {path}");
        }
    }
    let theirs = "/orgs/their-org/event-sources";
    let listed = api.send(Method::GET, theirs, Some(&api.theirs.admin), None).await;
    assert_eq!(listed, (200, json!({ "items": [] })));
    let same = named("ci", &json!({})).to_string().into_bytes();
    let made = api.send(Method::POST, theirs, Some(&api.theirs.admin), Some(same)).await;
    assert_eq!(made.0, 201, "organizations may know the same account: {made:?}");
    assert_eq!(api.audit().await, before);
}
