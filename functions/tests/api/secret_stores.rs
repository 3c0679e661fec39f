//! Secret stores, the variables that refer to them, and the tokens with which jobs sign in to them.

use crate::harness::{Api, faults, message};
use reqwest::Method;
use serde_json::{Value, json};

fn vault() -> Value {
    json!({ "type": "vault", "url": "https://vault.example.com", "role": "shop" })
}

fn reference(store: &str, locator: &str) -> Value {
    json!({ "terraform": { "db": { "reference": { "store": store, "ref": locator } } } })
}

#[tokio::test]
async fn a_store_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    let body = json!({ "id": "team-vault", "description": "ours", "store_configuration": vault() });
    let made = api.make("/secret-stores", body.clone()).await;
    assert_eq!(made["store_configuration"], vault());
    let path = "/secret-stores/team-vault";
    assert_eq!(api.get(path).await, (200, made));
    let again = api.post("/secret-stores", body).await;
    assert!(again.0 == 409 && message(&again).contains("canyon update secret-store"), "{again:?}");

    let change =
        json!({ "description": "", "store_configuration": { "mount": "kv", "role": "all" } });
    let (status, changed) = api.patch(path, change).await;
    let mut expected = vault();
    expected["mount"] = "kv".into();
    expected["role"] = "all".into();
    assert_eq!((status, &changed["store_configuration"]), (200, &expected));
    assert_eq!(changed.get("description"), None);
    let reset = json!({ "store_configuration": { "mount": null } });
    let (_, changed) = api.patch(path, reset).await;
    assert_eq!(changed["store_configuration"].get("mount"), None);
    assert_eq!(api.get("/secret-stores").await, (200, json!({ "items": [changed] })));
    assert_eq!(api.delete(path).await.0, 204);
    assert_eq!(api.get(path).await.0, 404);
    let written: Vec<_> =
        api.audit().await.into_iter().filter(|line| line.starts_with("secret_store")).collect();
    assert_eq!(written.len(), 4, "{written:?}");
}

#[tokio::test]
async fn one_answer_names_every_fault_and_nothing_is_written() {
    let api = Api::start().await;
    let configuration =
        json!({ "type": "vault", "url": "http://vault.example.com", "token": "hvs.x" });
    let body = json!({ "id": "Vault", "store_configuration": configuration });
    let answer = api.post("/secret-stores", body).await;
    assert_eq!(answer.0, 400);
    let said = faults(&answer).join("\n");
    for path in
        ["id", "store_configuration.url", "store_configuration.role", "store_configuration.token"]
    {
        assert!(said.contains(path), "{path}: {said}");
    }
    assert!(!said.contains("hvs.x"), "{said}");
    assert_eq!(api.get("/secret-stores").await.1, json!({ "items": [] }));

    let made = json!({ "id": "team-vault", "store_configuration": vault() });
    let made = api.make("/secret-stores", made).await;
    let answer = api
        .patch("/secret-stores/team-vault", json!({ "store_configuration": { "url": 1 } }))
        .await;
    assert!(faults(&answer).join("").contains("store_configuration.url"), "{answer:?}");
    assert_eq!(api.get("/secret-stores/team-vault").await.1, made);

    let wrong = json!({
        "terraform": {
            "a": { "reference": { "store": "no-such-store", "ref": "shop/db" } },
            "b": { "reference": { "store": "team-vault", "ref": "shop/../db", "version": "x" } },
            "c": { "reference": { "store": "team-vault", "ref": "" }, "secret": false, "value": "abcdefg" },
        },
    });
    for (given, paths) in [
        (
            json!({ "terraform": { "c": wrong["terraform"]["c"] } }),
            &["c\"]", "c\"].secret", "c\"].reference.ref"][..],
        ),
        (
            json!({ "terraform": { "a": wrong["terraform"]["a"], "b": wrong["terraform"]["b"] } }),
            &["a\"].reference.store", "b\"].reference.ref", "b\"].reference.version"],
        ),
    ] {
        let answer = api.patch("/variables", given).await;
        assert_eq!(answer.0, 400, "{answer:?}");
        let said = faults(&answer).join("\n");
        for path in paths {
            assert!(said.contains(path), "{path}: {said}");
        }
    }
    assert_eq!(api.get("/variables").await.1["terraform"], json!({}));
}

#[tokio::test]
async fn a_store_that_a_variable_refers_to_stays_and_keeps_a_type_that_fits() {
    let api = Api::start().await;
    api.make("/secret-stores", json!({ "id": "team-vault", "store_configuration": vault() })).await;
    let (status, set) =
        api.patch("/variables", reference("team-vault", "shop/db_of_a#password")).await;
    assert_eq!(status, 200, "{set}");
    let shown = json!({ "store": "team-vault", "ref": "shop/db_of_a#password" });
    assert_eq!(
        (&set["terraform"]["db"]["reference"], &set["terraform"]["db"]["secret"]),
        (&shown, &json!(true))
    );
    assert_eq!(set["terraform"]["db"].get("value"), None);

    let other = json!({ "store_configuration": {
        "type": "azure-key-vault", "url": "https://t.vault.azure.net", "role": null,
    }});
    let refused = api.patch("/secret-stores/team-vault", other).await;
    assert!(
        refused.0 == 409 && message(&refused).contains("`terraform.db` of organization"),
        "{refused:?}"
    );
    let refused = api.delete("/secret-stores/team-vault").await;
    assert!(
        refused.0 == 409 && message(&refused).contains("`terraform.db` of organization"),
        "{refused:?}"
    );

    // A description changes the reference no more than it changes a value.
    let described = json!({ "terraform": { "db": { "description": "of the team" } } });
    let (_, set) = api.patch("/variables", described).await;
    assert_eq!(set["terraform"]["db"]["reference"], shown);
    let plain = json!({ "terraform": { "db": { "secret": false } } });
    assert_eq!(api.patch("/variables", plain).await.0, 400, "there is no value to show");
    let (_, set) = api
        .patch("/variables", json!({ "terraform": { "db": { "value": "abc", "secret": false } } }))
        .await;
    assert_eq!(set["terraform"]["db"].get("reference"), None);
    assert_eq!(api.delete("/secret-stores/team-vault").await.0, 204);
    let audited = api.audit().await.join("\n");
    assert!(audited.contains("secret_store.delete"), "{audited}");
}

#[tokio::test]
async fn only_admins_change_stores_and_no_organization_refers_to_those_of_others() {
    let api = Api::start().await;
    let body = json!({ "id": "team-vault", "store_configuration": vault() });
    api.make("/secret-stores", body.clone()).await;
    let paths = [(Method::POST, "/secret-stores"), (Method::DELETE, "/secret-stores/team-vault")];
    for (method, path) in paths {
        for token in [&api.ours.viewer, &api.ours.deployer] {
            let answer = api.call_as(token, method.clone(), path, Some(&body)).await;
            assert_eq!(answer.0, 403, "{method} {path} {answer:?}");
        }
    }
    let theirs = async |method: Method, path: &str, body: Option<&Value>| {
        let path = format!("/orgs/their-org{path}");
        let body = body.map(|body| body.to_string().into_bytes());
        api.send(method, &path, Some(&api.theirs.admin), body).await
    };
    let foreign = theirs(Method::GET, "/secret-stores/team-vault", None).await;
    assert_eq!(foreign.0, 404, "{foreign:?}");
    let body = reference("team-vault", "shop/db");
    let foreign = theirs(Method::PATCH, "/variables", Some(&body)).await;
    assert!(message(&foreign).contains("does not exist"), "{foreign:?}");
}
