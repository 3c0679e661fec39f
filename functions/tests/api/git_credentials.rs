//! Git credentials: what a job gets, what a caller sees, and what becomes of them.

use crate::harness::{Answer, Api, faults, message};
use crate::job::{Job, deploy, furnished, launch};
use reqwest::Method;
use serde_json::{Value, json};

const OF_ALL: &str = "/git-credentials";
const OF_SHOP: &str = "/projects/shop/git-credentials";
const TOKEN: &str = "correct-horse-battery";
/// Made by `ssh-keygen -t ed25519` for tests.
const KEY: &str = include_str!("../../../crates/domain/src/git_credentials/testdata/ed25519");
const HOSTS: &str = "git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

async fn claim(api: &Api, format: u32) -> (String, Answer) {
    let id = deploy(api).await;
    let code = launch(api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": format });
    (id, api.call_as(&code, Method::POST, &path, Some(&body)).await)
}

/// The credentials of a new deployment's job.
async fn of_job(api: &Api) -> Value {
    let (id, (status, claimed)) = claim(api, 6).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    Job { id, number: 1, token }.succeed(api).await;
    claimed["job"]["git_credentials"].clone()
}

async fn set(api: &Api, path: &str, credentials: Value) -> Value {
    let (status, changed) = api.patch(path, json!({ "credentials": credentials })).await;
    assert_eq!(status, 200, "{changed}");
    changed
}

#[tokio::test]
async fn a_job_gets_the_nearest_credential_of_each_address_and_no_answer_shows_a_secret() {
    let api = furnished().await;
    let token = |token: &str| json!({ "token": token });
    let both = json!({ "https://git.example.com": token(TOKEN), "https://git.example.com/net/": token(TOKEN) });
    let changed = set(&api, OF_ALL, both).await;
    assert_eq!(changed["scope"], "organization");
    let shown = &changed["credentials"]["https://git.example.com/net"];
    assert_eq!((&shown["type"], &shown["username"]), (&json!("token"), &json!("x-access-token")));
    let of_shop = json!({
        "https://git.example.com/net": { "token": "of-the-project", "username": "robot", "description": "of the team" },
        "ssh://git@git.example.com": { "ssh_key": KEY, "known_hosts": HOSTS },
    });
    let changed = set(&api, OF_SHOP, of_shop).await;
    let key = &changed["credentials"]["ssh://git.example.com"];
    assert!(key["fingerprint"].as_str().unwrap().starts_with("SHA256:"), "{changed}");

    let job = of_job(&api).await;
    let expected = json!([
        { "repositories": "https://git.example.com", "from": "organization",
          "secret": { "type": "token", "username": "x-access-token", "token": TOKEN } },
        { "repositories": "https://git.example.com/net", "from": "project:shop",
          "secret": { "type": "token", "username": "robot", "token": "of-the-project" } },
        { "repositories": "ssh://git.example.com", "from": "project:shop",
          "secret": { "type": "ssh_key", "private_key": KEY, "known_hosts": HOSTS } },
    ]);
    assert_eq!(job, expected);

    let records = api.get("/audit-records").await.1.to_string();
    assert!(records.contains("set ssh://git.example.com (ssh_key)"), "{records}");
    for shown in [api.get(OF_ALL).await.1, api.get(OF_SHOP).await.1, changed, records.into()] {
        let shown = shown.to_string();
        for secret in [TOKEN, "of-the-project", "BEGIN OPENSSH"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_change_without_a_secret_keeps_it_and_null_removes_the_credential() {
    let api = furnished().await;
    set(&api, OF_SHOP, json!({ "https://h": { "token": TOKEN } })).await;
    let changed = set(&api, OF_SHOP, json!({ "https://h": { "description": "of CI" } })).await;
    assert_eq!(changed["credentials"]["https://h"]["description"], "of CI");
    assert_eq!(of_job(&api).await[0]["secret"]["token"], TOKEN);
    set(&api, OF_SHOP, json!({ "https://h": { "token": "another-token" } })).await;
    assert_eq!(of_job(&api).await[0]["secret"]["token"], "another-token");
    for _ in 0..2 {
        let changed = set(&api, OF_SHOP, json!({ "https://h": null })).await;
        assert_eq!(changed["credentials"], json!({}));
    }
    assert_eq!(of_job(&api).await, Value::Null);
}

#[tokio::test]
async fn one_answer_names_every_fault_and_nothing_is_written() {
    let api = furnished().await;
    let body = json!({ "credentials": {
        "https://a": { "token": TOKEN },
        "https://u:p@h": { "token": TOKEN },
        "ssh://b": { "ssh_key": "no key" },
    }});
    let refused = api.patch(OF_ALL, body).await;
    assert_eq!(refused.0, 400, "{refused:?}");
    let expected = [
        "credentials[\"...\"]",
        "credentials[\"ssh://b\"].known_hosts",
        "credentials[\"ssh://b\"].ssh_key",
    ];
    assert_eq!(faults(&refused), expected);
    let body = json!({ "credentials": {
        "https://git.example.com": { "cloud_identity": "aws" },
        "https://git-codecommit.eu-west-1.amazonaws.com": { "cloud_identity": "azure" },
        "https://dev.azure.com/acme": { "cloud_identity": "azure", "token": TOKEN },
        "ssh://dev.azure.com": { "cloud_identity": "azure" },
    }});
    let expected = [
        "credentials[\"https://dev.azure.com/acme\"]",
        "credentials[\"https://git-codecommit.eu-west-1.amazonaws.com\"].cloud_identity",
        "credentials[\"https://git.example.com\"].cloud_identity",
        "credentials[\"ssh://dev.azure.com\"].cloud_identity",
    ];
    assert_eq!(faults(&api.patch(OF_ALL, body).await), expected);
    let refused = api.patch(OF_ALL, json!({ "credentials": { "https://a": {} } })).await;
    assert_eq!(faults(&refused), ["credentials[\"https://a\"]"]);
    for body in [
        json!({}),
        json!({ "credentials": {} }),
        json!({ "credentials": { "https://a": { "tokn": 1 } } }),
        json!({ "credentials": { "https://a": { "cloud_identity": "gcp" } } }),
    ] {
        assert_eq!(api.patch(OF_ALL, body).await.0, 400);
    }
    let many = (0..21).map(|n| (format!("https://h{n}"), json!({ "token": TOKEN })));
    let many = many.collect::<serde_json::Map<_, _>>();
    let refused = api.patch(OF_ALL, json!({ "credentials": many })).await;
    assert!(refused.0 == 409 && message(&refused).contains("21 git credentials"), "{refused:?}");
    assert_eq!(api.get(OF_ALL).await.1["credentials"], json!({}));
    let missing = "/projects/none/git-credentials";
    assert_eq!(api.get(missing).await.0, 404);
    let body = json!({ "credentials": { "https://a": { "token": TOKEN } } });
    assert_eq!(api.patch(missing, body).await.0, 404);
}

#[tokio::test]
async fn variables_and_git_credentials_of_a_scope_do_not_overwrite_each_other() {
    let api = furnished().await;
    set(&api, OF_SHOP, json!({ "https://h": { "token": TOKEN } })).await;
    let variables = "/projects/shop/variables";
    let body = json!({ "terraform": { "a": { "value": "x" } } });
    assert_eq!(api.patch(variables, body).await.0, 200);
    set(&api, OF_SHOP, json!({ "https://i": { "token": TOKEN } })).await;
    let (_, found) = api.get(OF_SHOP).await;
    assert_eq!(found["credentials"].as_object().unwrap().len(), 2);
    assert_eq!(api.get(variables).await.1["terraform"]["a"]["value"], "x");
}

#[tokio::test]
async fn credentials_go_with_their_project_and_come_back_with_no_other_of_its_name() {
    let api = furnished().await;
    api.make("/projects", json!({ "id": "web" })).await;
    set(&api, "/projects/web/git-credentials", json!({ "https://h": { "token": TOKEN } })).await;
    assert_eq!(api.delete("/projects/web").await.0, 204);
    api.make("/projects", json!({ "id": "web" })).await;
    assert_eq!(api.get("/projects/web/git-credentials").await.1["credentials"], json!({}));
}

#[tokio::test]
async fn a_runner_that_knows_no_git_credentials_gets_no_job_that_has_some() {
    let api = furnished().await;
    set(&api, OF_ALL, json!({ "https://h": { "token": TOKEN } })).await;
    let (_, refused) = claim(&api, 5).await;
    let is_named = message(&refused).contains("format 6 of jobs, and it knows 5");
    assert!(refused.0 == 409 && is_named, "{refused:?}");
}

#[tokio::test]
async fn the_identity_of_a_job_replaces_a_kept_token_and_a_runner_of_an_earlier_version_gets_no_such_job()
 {
    let api = furnished().await;
    let address = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos";
    set(&api, OF_SHOP, json!({ address: { "token": TOKEN } })).await;
    let changed = set(&api, OF_SHOP, json!({ address: { "cloud_identity": "aws" } })).await;
    let shown = &changed["credentials"][address];
    assert_eq!(
        (&shown["type"], &shown["cloud_identity"]),
        (&json!("cloud_identity"), &json!("aws"))
    );
    assert!(shown.get("username").is_none(), "{shown}");
    let records = api.get("/audit-records").await.1.to_string();
    assert!(records.contains(&format!("set {address} (cloud_identity)")), "{records}");

    let (_, refused) = claim(&api, 9).await;
    let is_named = message(&refused).contains("format 10 of jobs, and it knows 9");
    assert!(refused.0 == 409 && is_named, "{refused:?}");
    let (id, (status, claimed)) = claim(&api, 10).await;
    assert_eq!(status, 200, "{claimed}");
    let expected = json!([{
        "repositories": address, "from": "project:shop",
        "secret": { "type": "cloud_identity", "cloud": "aws" },
    }]);
    assert_eq!(claimed["job"]["git_credentials"], expected);
    let token = claimed["token"].as_str().unwrap().to_owned();
    Job { id, number: 1, token }.succeed(&api).await;
}

#[tokio::test]
async fn only_where_jobs_run_on_the_same_machine_a_credential_may_be_for_a_private_address() {
    let body = json!({ "credentials": { "https://10.0.0.5": { "token": TOKEN } } });
    for (serves_local_runners, expected) in [(true, 200), (false, 400)] {
        let api = Api::start_with(serves_local_runners).await;
        let answer = api.patch(OF_ALL, body.clone()).await;
        assert_eq!(answer.0, expected, "{answer:?}");
        if expected == 400 {
            assert_eq!(faults(&answer), ["credentials[\"https://10.0.0.5\"]"]);
        }
    }
}
