//! How long an organization keeps what it stores: the setting, the estimate, and what readers of a removed log learn.

use crate::harness::{Api, faults, message};
use crate::job::{Job, furnished, piece, stored};
use canyon_domain::logs_removal::LogsRemoval;
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

async fn put(api: &Api, token: &str, body: &Value) -> (u16, Value) {
    api.call_as(token, Method::PUT, "/retention", Some(body)).await
}

#[tokio::test]
async fn the_retention_is_set_changed_read_and_deleted_with_a_record_of_what_changed() {
    let api = Api::start().await;
    let admin = api.ours.admin.clone();
    let absent = api.get("/retention").await;
    assert_eq!(absent.0, 404);
    assert!(message(&absent).contains("kept for ever"), "{absent:?}");
    assert_eq!(api.delete("/retention").await.0, 404);
    let body = json!({ "deployments_days": 365, "logs_days": 90 });
    let (status, set) = put(&api, &admin, &body).await;
    assert_eq!(
        (status, &set["deployments_days"], &set["logs_days"]),
        (200, &json!(365), &json!(90))
    );
    assert_eq!(set.get("audit_days"), None, "{set}");
    assert_eq!(api.get("/retention").await, (200, set.clone()));
    assert_eq!(put(&api, &admin, &body).await, (200, set), "the same again changes nothing");
    let (status, changed) = put(&api, &admin, &json!({ "logs_days": 30, "audit_days": 730 })).await;
    assert_eq!((status, changed.get("deployments_days")), (200, None), "it replaces all");
    assert_eq!(api.delete("/retention").await.0, 204);
    assert_eq!(api.get("/retention").await.0, 404);

    let (_, page) = api.get("/audit-records?action=retention.*").await;
    let details: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|one| &one["details"]).collect();
    let expected = [
        json!(["logs_days: 30 -> for ever", "audit_days: 730 -> for ever"]),
        json!([
            "deployments_days: 365 -> for ever",
            "logs_days: 90 -> 30",
            "audit_days: for ever -> 730"
        ]),
        json!(["deployments_days: for ever -> 365", "logs_days: for ever -> 90"]),
    ];
    assert_eq!(details, expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn every_wrong_number_of_days_is_named_and_nothing_is_written() {
    let api = Api::start().await;
    let admin = api.ours.admin.clone();
    for (body, paths) in [
        (json!({}), vec![""]),
        (
            json!({ "deployments_days": 29, "logs_days": 3651, "audit_days": 29 }),
            vec!["deployments_days", "logs_days", "audit_days", "logs_days"],
        ),
        (json!({ "deployments_days": 30, "logs_days": 31 }), vec!["logs_days"]),
        (json!({ "logs_days": "30" }), vec!["logs_days"]),
        (json!({ "logs_days": -1 }), vec!["logs_days"]),
        (json!({ "logs": 1 }), vec!["logs"]),
    ] {
        let refused = put(&api, &admin, &body).await;
        assert_eq!((refused.0, faults(&refused)), (400, paths), "{body}: {}", refused.1);
    }
    assert_eq!(api.get("/retention").await.0, 404);
    let query = "deployments_days=x&logs_days=0&audit_days=1&days=3";
    let refused = api.get(&format!("/usage?{query}")).await;
    assert_eq!(refused.0, 400);
    assert_eq!(faults(&refused), ["days", "deployments_days", "logs_days", "audit_days"]);
}

#[tokio::test]
async fn viewers_read_administrators_change_and_other_organizations_see_nothing() {
    let api = Api::start().await;
    let body = json!({ "logs_days": 7 });
    for token in [&api.ours.viewer, &api.ours.deployer] {
        assert_eq!(put(&api, token, &body).await.0, 403);
        assert_eq!(api.call_as(token, Method::DELETE, "/retention", None).await.0, 403);
    }
    assert_eq!(put(&api, &api.theirs.admin, &body).await.0, 404);
    assert_eq!(put(&api, &api.ours.admin, &body).await.0, 200);
    for path in ["/retention", "/usage"] {
        assert_eq!(api.call_as(&api.ours.viewer, Method::GET, path, None).await.0, 200);
        assert_eq!(api.call_as(&api.theirs.admin, Method::GET, path, None).await.0, 404);
    }
    let path = format!("/orgs/{}/retention", api.theirs.id);
    let theirs = api.send(Method::GET, &path, Some(&api.theirs.admin), None).await;
    assert_eq!(theirs.0, 404, "theirs has none: {theirs:?}");
}

#[tokio::test]
async fn usage_counts_what_is_stored_and_estimates_any_retention_without_what_environments_need() {
    let api = furnished().await;
    for log in ["first run\n", "second\n"] {
        let job = Job::start(&api).await;
        job.report(&api, "plan", json!([piece(0, log.as_bytes())])).await;
        job.succeed(&api).await;
    }
    let (status, now) = api.get("/usage").await;
    assert_eq!(status, 200, "{now}");
    for (name, count) in [("deployments", 2), ("environments", 1), ("logs", 2)] {
        let of = &now[name];
        assert_eq!(
            (&of["count"], &of["at_least"]),
            (&json!(count), &json!(false)),
            "{name}: {now}"
        );
        assert_eq!(of["removable"], 0, "{name}: without a retention nothing is removed");
        assert!(of["oldest_at"].is_string(), "{name}: {now}");
    }
    let bytes = now["logs"]["bytes"].as_u64().unwrap();
    assert!(bytes >= 17, "{now}");
    assert!(now["audit_records"]["count"].as_u64().unwrap() >= 4, "{now}");
    assert_eq!(now["retention"], json!({}));

    api.clock.advance(DAY * 40);
    let (_, estimate) = api.get("/usage?deployments_days=30&audit_days=60").await;
    assert_eq!(estimate["retention"], json!({ "deployments_days": 30, "audit_days": 60 }));
    assert_eq!(estimate["deployments"]["removable"], 1, "the last success stays: {estimate}");
    assert_eq!(estimate["logs"]["removable"], 1, "{estimate}");
    let removable = estimate["logs"]["removable_bytes"].as_u64().unwrap();
    assert!((10..bytes).contains(&removable), "{estimate}");
    assert_eq!(estimate["audit_records"]["removable"], 0, "{estimate}");

    let set = json!({ "logs_days": 40, "audit_days": 30 });
    assert_eq!(put(&api, &api.ours.admin, &set).await.0, 200);
    let (_, current) = api.get("/usage").await;
    assert_eq!(current["retention"], set, "without parameters the current one");
    assert_eq!(
        (&current["deployments"]["removable"], &current["logs"]["removable"]),
        (&json!(0), &json!(1))
    );
    let records = &current["audit_records"];
    assert_eq!(
        records["removable"].as_u64().unwrap() + 1,
        records["count"].as_u64().unwrap(),
        "all but the record of the setting: {current}"
    );
}

#[tokio::test]
async fn a_removed_log_says_by_which_retention_it_was_removed() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    job.report(&api, "plan", json!([piece(0, b"first run\n")])).await;
    job.succeed(&api).await;
    let id = job.deployment().to_string();
    let mut deployment = stored(&api, &id).await;
    let at = api.clock.now();
    deployment.logs_removed = Some(LogsRemoval { at, days: 90, pending: true });
    deployment.version += 1;
    let saved = api.app.table.save_deployment(api.ours.uuid, &deployment, Wake::None).await;
    assert_eq!(saved.unwrap(), Saved::Yes);
    for path in ["logs", "logs?stream=events"] {
        let refused = api.get(&format!("/deployments/{id}/{path}")).await;
        assert_eq!(refused.0, 404, "{path}: {refused:?}");
        let said = message(&refused);
        assert!(said.contains("was removed") && said.contains("retention of 90 days"), "{said}");
    }
    let (_, shown) = api.get(&format!("/deployments/{id}")).await;
    assert_eq!(shown["logs_removed_at"], json!(at), "{shown}");
}
