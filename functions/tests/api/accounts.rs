//! Accounts: identities at clouds that resource definitions name.

use crate::harness::{Api, faults, message};
use reqwest::Method;
use serde_json::{Value, json};

const ACCOUNTS: &str = "/resources/accounts";
const DEFS: &str = "/resources/defs";

fn role() -> Value {
    json!({ "aws_role": "arn:aws:iam::123456789012:role/deploy" })
}

fn account(id: &str) -> Value {
    json!({ "id": id, "type": "aws-role", "credentials": role() })
}

fn definition(id: &str, resource_type: &str, values: &Value) -> Value {
    json!({
        "id": id, "name": id, "type": resource_type, "driver_type": "humanitec/echo",
        "driver_inputs": { "values": values },
    })
}

#[tokio::test]
async fn an_account_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    let mut body = account("myAccount");
    body["name"] = "ours".into();
    let made = api.make(ACCOUNTS, body.clone()).await;
    assert_eq!((&made["type"], &made["credentials"]), (&json!("aws-role"), &role()));
    let path = "/resources/accounts/myAccount";
    assert_eq!(api.get(path).await, (200, made));
    assert_eq!(api.get("/resources/accounts/myaccount").await.0, 404, "another id");
    let again = api.post(ACCOUNTS, body).await;
    assert!(again.0 == 409 && message(&again).contains("canyon update account"), "{again:?}");

    let change = json!({ "name": "", "credentials": { "session_name": "canyon" } });
    let (status, changed) = api.patch(path, change).await;
    let mut expected = role();
    expected["session_name"] = "canyon".into();
    assert_eq!((status, &changed["credentials"]), (200, &expected), "{changed}");
    assert_eq!(changed.get("name"), None);
    let reset = json!({ "credentials": { "session_name": null }, "type": "aws-role" });
    let (status, changed) = api.patch(path, reset).await;
    assert_eq!((status, &changed["credentials"]), (200, &role()), "{changed}");
    assert_eq!(api.get(ACCOUNTS).await, (200, json!({ "items": [changed] })));
    assert_eq!(api.delete(path).await.0, 204);
    assert_eq!(api.get(path).await.0, 404);
    let written: Vec<_> =
        api.audit().await.into_iter().filter(|line| line.starts_with("account.")).collect();
    assert_eq!(written.len(), 4, "{written:?}");
}

#[tokio::test]
async fn one_answer_names_every_fault_and_nothing_is_written() {
    let api = Api::start().await;
    let credentials = json!({ "aws_role": "deploy", "external_id": "x", "secret": "hunter2" });
    let body = json!({
        "id": "-", "name": "a\nb", "type": "aws-role", "credentials": credentials,
    });
    let answer = api.post(ACCOUNTS, body).await;
    assert_eq!(answer.0, 400);
    let said = faults(&answer).join("\n");
    for path in
        ["id", "name", "credentials.aws_role", "credentials.external_id", "credentials.secret"]
    {
        assert!(said.contains(path), "{path}: {said}");
    }
    let said = answer.1.to_string();
    assert!(said.contains("AWS compares no external id"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(api.get(ACCOUNTS).await.1, json!({ "items": [] }));

    let made = api.make(ACCOUNTS, account("ours")).await;
    for (change, path) in [
        (json!({ "type": "gcp-identity" }), "type"),
        (json!({ "credentials": { "aws_role": null } }), "credentials.aws_role"),
        (json!({ "credentials": { "type": "gcp-identity" } }), "credentials.type"),
        (json!({ "credentials": "x" }), "credentials"),
    ] {
        let answer = api.patch("/resources/accounts/ours", change).await;
        assert_eq!(answer.0, 400, "{answer:?}");
        assert!(faults(&answer).join("").contains(path), "{path}: {answer:?}");
    }
    assert_eq!(api.get("/resources/accounts/ours").await.1, made);
}

#[tokio::test]
async fn a_type_with_stored_keys_is_refused_with_the_type_to_use_instead() {
    let api = Api::start().await;
    for (given, instead) in [
        ("aws", "`aws-role`"),
        ("gcp", "`gcp-identity`"),
        ("azure", "`azure-identity`"),
        ("username-password", "`aws-role`, `gcp-identity`, `azure-identity`"),
    ] {
        let credentials = json!({ "aws_secret_access_key": "hunter2" });
        let body = json!({ "id": "ours", "type": given, "credentials": credentials });
        let answer = api.post(ACCOUNTS, body).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec!["type"]), "{answer:?}");
        let said = answer.1.to_string();
        assert!(said.contains(instead), "{given}: {said}");
        assert!(said.contains("Canyon stores no"), "{given}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn an_account_that_a_definition_names_stays_until_the_definition_names_it_no_more() {
    let api = Api::start().await;
    for id in ["first", "other"] {
        api.make(ACCOUNTS, account(id)).await;
    }
    let named = json!({ "cluster": { "account": "our-org/first", "name": "c" } });
    api.make(DEFS, definition("config-runner", "config", &named)).await;
    let elsewhere = json!({ "account": "the-org-it-was-written-for/other" });
    api.make(DEFS, definition("of-another", "s3", &elsewhere)).await;

    let refused = api.delete("/resources/accounts/first").await;
    assert!(
        refused.0 == 409 && message(&refused).contains("`config-runner` names account `first`"),
        "{refused:?}"
    );
    let bare = json!({ "driver_inputs": { "values": { "cluster": { "account": "first" } } } });
    assert_eq!(api.patch(&format!("{DEFS}/config-runner"), bare).await.0, 200);
    assert_eq!(api.delete("/resources/accounts/first").await.0, 409);
    assert_eq!(api.delete("/resources/accounts/other").await.0, 409);
    assert_eq!(api.delete(&format!("{DEFS}/config-runner")).await.0, 204);
    assert_eq!(api.delete("/resources/accounts/first").await.0, 204);
}

#[tokio::test]
async fn an_organization_has_at_most_a_hundred_accounts() {
    let api = Api::start().await;
    for n in 0..100 {
        api.make(ACCOUNTS, account(&format!("account-{n}"))).await;
    }
    let refused = api.post(ACCOUNTS, account("one-more")).await;
    assert!(refused.0 == 409 && message(&refused).contains("at most 100"), "{refused:?}");
}

#[tokio::test]
async fn only_admins_change_accounts_and_no_organization_sees_those_of_others() {
    let api = Api::start().await;
    let body = account("ours");
    api.make(ACCOUNTS, body.clone()).await;
    let path = "/resources/accounts/ours";
    for (method, path) in [(Method::POST, ACCOUNTS), (Method::PATCH, path), (Method::DELETE, path)]
    {
        for token in [&api.ours.viewer, &api.ours.deployer] {
            let answer = api.call_as(token, method.clone(), path, Some(&body)).await;
            assert_eq!(answer.0, 403, "{method} {path} {answer:?}");
        }
    }
    assert_eq!(api.call_as(&api.ours.viewer, Method::GET, path, None).await.0, 200);
    let theirs = format!("/orgs/their-org{path}");
    let foreign = api.send(Method::GET, &theirs, Some(&api.theirs.admin), None).await;
    assert_eq!(foreign.0, 404, "{foreign:?}");
}
