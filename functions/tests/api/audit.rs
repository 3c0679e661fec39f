//! The audit list: its filters, and what its records tell of a deployment.

use crate::harness::{Api, faults, local_runner};
use crate::job::{Job, deploy, furnished, order};
use serde_json::{Value, json};
use std::time::Duration;

async fn items(api: &Api, query: &str) -> Vec<Value> {
    let (status, page) = api.get(&format!("/audit-records?per_page=100&{query}")).await;
    assert_eq!(status, 200, "{query}: {page}");
    page["items"].as_array().unwrap().clone()
}

/// The records that match, newest first: `action subject`.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let text = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
    let line = |record: &Value| format!("{} {}", text(record, "action"), text(record, "subject"));
    items(api, query).await.iter().map(line).collect()
}

#[tokio::test]
async fn records_are_listed_by_action_author_subject_and_time() {
    let api = Api::start().await;
    api.furnish().await;
    api.clock.advance(Duration::from_hours(24 * 40));
    api.make("/projects", json!({ "id": "shopping" })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api.clock.advance(Duration::from_secs(10));
    api.make("/runners", local_runner("other")).await;
    let newest = &items(&api, "").await[0];
    let (at, by) = (newest["at"].as_str().unwrap(), newest["by"].as_str().unwrap());
    let (runner, project) = ("runner.create runners/other", "project.create projects/shopping");
    let environment = "environment.create projects/shop/envs/main";
    for (query, expected) in [
        ("action=runner", vec![runner, "runner.create runners/shared"]),
        ("action=runner.*", vec![runner, "runner.create runners/shared"]),
        ("action=runner.create&subject=runners/other", vec![runner]),
        ("action=runner.delete", vec![]),
        ("subject=projects/shop", vec![environment, "project.create projects/shop"]),
        ("subject=projects/shop/envs/main", vec![environment]),
        (&format!("since={at}"), vec![runner]),
        (&format!("until={at}&since=2026-02-01T00:00:00Z"), vec![environment, project]),
        (&format!("until={at}&action=runner"), vec!["runner.create runners/shared"]),
        (&format!("by={by}&since={at}"), vec![runner]),
        (&format!("by={}", uuid::Uuid::nil()), vec![]),
    ] {
        assert_eq!(listed(&api, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn every_wrong_filter_is_named_with_what_it_takes() {
    let api = Api::start().await;
    let query = "kind=x&action=Runner&by=me&subject=/projects&since=yesterday&until=1";
    let refused = api.get(&format!("/audit-records?{query}")).await;
    assert_eq!(refused.0, 400);
    assert_eq!(faults(&refused), ["kind", "action", "by", "subject", "since", "until"]);
    let text = refused.1.to_string();
    for name in ["action", "by", "subject", "since", "until", "per_page", "page"] {
        assert!(text.contains(&format!("`{name}`")), "{name}: {text}");
    }
    let query = "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z";
    let refused = api.get(&format!("/audit-records?{query}")).await;
    assert_eq!(refused.0, 400);
    assert_eq!(faults(&refused), ["until"]);
}

#[tokio::test]
async fn a_record_of_a_grant_names_the_roles() {
    let api = Api::start().await;
    api.furnish().await;
    let scoped = json!({ "role": "deployer", "project_id": "shop" });
    api.make("/tokens", json!({ "role": "viewer", "scoped_roles": [scoped] })).await;
    let details = async |action: &str| items(&api, action).await[0]["details"].clone();
    let of_token = json!(["role: viewer", "role: deployer in project shop"]);
    assert_eq!(details("action=token.create").await, of_token);
}

#[tokio::test]
async fn the_records_of_plan_deploy_destroy_and_rollback_differ() {
    let api = furnished().await;
    let deployed = Job::start(&api).await;
    deployed.succeed(&api).await;
    let mut plan = order();
    plan["plan_only"] = true.into();
    let target = json!({ "project_id": "shop", "env_id": "main" });
    let with = |more: Value| {
        let mut order = target.clone();
        order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        order
    };
    let id = deployed.id.clone();
    let rollback = json!({ "mode": "rollback", "rollback_to_deployment_id": id });
    for (order, expected) in [
        (plan, vec!["mode: plan".to_owned()]),
        (with(json!({ "mode": "destroy" })), vec!["mode: destroy".to_owned()]),
        (
            with(json!({ "mode": "destroy", "plan_only": true })),
            vec!["mode: plan".to_owned(), "of a destroy run".to_owned()],
        ),
        (with(rollback), vec!["mode: rollback".to_owned(), format!("repeats deployment {id}")]),
    ] {
        let made = api.make("/deployments", order.clone()).await;
        let made = made["id"].as_str().unwrap();
        let subject = format!("projects/shop/envs/main/deployments/{made}");
        assert_eq!(api.act(&format!("/deployments/{made}/actions/cancel")).await.0, 202);
        let records = items(&api, &format!("subject={subject}")).await;
        let actions: Vec<_> = records.iter().map(|record| record["action"].clone()).collect();
        assert_eq!(actions, ["deployment.cancel", "deployment.create"]);
        for record in records {
            assert_eq!(record["details"], json!(expected), "{order}");
        }
    }
    let ended = items(&api, "action=deployment.succeeded").await;
    assert_eq!(ended[0]["details"], json!(["mode: deploy"]));
    let started = deploy(&api).await;
    let subject = format!("subject=projects/shop/envs/main/deployments/{started}");
    assert_eq!(items(&api, &subject).await[0]["details"], json!(["mode: deploy"]));
}
