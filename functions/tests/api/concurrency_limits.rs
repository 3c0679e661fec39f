//! Limits on the number of concurrent jobs.

use crate::harness::{Api, faults, local_runner};
use crate::job::{order, stored};
use crate::scoped_roles::{token, two_projects};
use canyon_domain::attempt::Limits;
use canyon_domain::concurrency::{ConcurrencySlot, LimitScope};
use canyon_domain::ports::Clock as _;
use canyon_domain::waiting::Hold;
use canyon_domain::{deadline, lifecycle};
use canyon_identity::bearer;
use canyon_store::concurrency::SlotClaim;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_limit_is_set_changed_listed_and_taken_away() {
    let api = Api::start().await;
    api.make("/runners", local_runner("laptop")).await;
    let admin = &api.ours.admin;
    for (scope, max) in [
        ("organization", 9),
        ("runner:laptop", 2),
        ("project:payments%2Feu", 1),
        ("checks:laptop", 8),
    ] {
        let path = format!("/concurrency-limits/{scope}");
        for max_jobs in [max, max + 1] {
            let body = json!({ "max_jobs": max_jobs });
            let (status, set) = api.call_as(admin, Method::PUT, &path, Some(&body)).await;
            assert_eq!((status, &set["max_jobs"]), (200, &json!(max_jobs)), "{set}");
            assert_eq!(set["held_by"], json!([]));
            assert_eq!(api.get(&path).await, (200, set));
        }
    }
    let (_, all) = api.get("/concurrency-limits").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 4, "{all}");
    assert_eq!(api.delete("/concurrency-limits/organization").await.0, 204);
    assert_eq!(api.delete("/concurrency-limits/organization").await.0, 404);
    assert_eq!(api.get("/concurrency-limits/organization").await.0, 404);
}

/// Writes an attempt of the deployment that holds this slot of the organization's limit, as the launcher does.
async fn hold(api: &Api, id: &str, number: u32) {
    let (table, org, now) = (&api.app.table, api.ours.uuid, api.clock.now());
    let mut deployment = stored(api, id).await;
    let limits = Limits { start: 300, run: 3_600, stop: 100, until: None };
    lifecycle::launch(&mut deployment, 1, bearer::hash("code"), limits, now).unwrap();
    deployment.version += 1;
    let step = DeploymentChange {
        deployment: &deployment,
        environment: EnvironmentChange::Keep,
        next: None,
        wake: Wake::None,
        record: None,
    };
    let place = ConcurrencySlot { scope: LimitScope::Organization, number };
    let taking = SlotClaim { slot: place, former_holder: None };
    assert_eq!(table.launch_deployment(org, &step, &[taking]).await.unwrap(), Saved::Yes);
}

/// Writes that the deployment waits for a slot of the organization's limit, as the launcher does.
async fn wait_for_a_place(api: &Api, id: &str) {
    let (table, org, now) = (&api.app.table, api.ours.uuid, api.clock.now());
    let limit = table.limit(org, &LimitScope::Organization).await.unwrap().unwrap();
    let mut deployment = stored(api, id).await;
    let hold = Hold::Limit(limit.scope.clone());
    deadline::deferred(&mut deployment, hold, limit.waiting_reason(), now);
    deployment.version += 1;
    let saved = table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

#[tokio::test]
async fn a_waiting_deployment_names_the_slot_holders_that_the_reader_may_read_and_counts_the_others()
 {
    let api = two_projects().await;
    api.make("/projects/shop/envs", json!({ "id": "side", "env_type_id": "dev" })).await;
    let (limit, body) = ("/concurrency-limits/organization", json!({ "max_jobs": 2 }));
    let set = api.call_as(&api.ours.admin, Method::PUT, limit, Some(&body)).await;
    assert_eq!(set.0, 200, "{}", set.1);
    let mut ids = Vec::new();
    for (project, env) in [("bank", "main"), ("shop", "side"), ("shop", "main")] {
        let mut body = order();
        (body["project_id"], body["env_id"]) = (json!(project), json!(env));
        ids.push(api.make("/deployments", body).await["id"].as_str().unwrap().to_owned());
    }
    let [bank, side, waiting] = ids.try_into().unwrap();
    hold(&api, &bank, 0).await;
    hold(&api, &side, 1).await;
    wait_for_a_place(&api, &waiting).await;

    let scoped =
        async |scope: Value| token(&api, json!({ "role": "none", "scoped_roles": [scope] })).await;
    let of_shop = scoped(json!({ "role": "viewer", "project_id": "shop" })).await;
    let of_main = scoped(json!({ "role": "viewer", "project_id": "shop", "env_id": "main" })).await;
    let why = "waiting for one of the 2 slots of the organization";
    for (reader, expected) in [
        (&api.ours.viewer, format!("{why} (held by {bank}, {side})")),
        (&of_shop, format!("{why} (held by {side} and 1 more)")),
        (&of_main, format!("{why} (held by 2 deployments)")),
    ] {
        let path = format!("/deployments/{waiting}");
        let (status, shown) = api.call_as(reader, Method::GET, &path, None).await;
        assert_eq!((status, &shown["waiting"]["reason"]), (200, &json!(expected)), "{shown}");
        assert_eq!(shown["waiting"]["code"], "concurrency_limit");
        assert_eq!(shown["status_message"], why, "in lists, too");
    }
}

#[tokio::test]
async fn a_limit_of_nothing_or_on_nothing_is_refused() {
    let api = Api::start().await;
    let admin = &api.ours.admin;
    let put = async |path: &str, max_jobs: i64| {
        let body = json!({ "max_jobs": max_jobs });
        api.call_as(admin, Method::PUT, path, Some(&body)).await
    };
    for max_jobs in [0, 1001] {
        let answer = put("/concurrency-limits/organization", max_jobs).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec!["max_jobs"]));
    }
    for scope in ["runner:none", "checks:none", "nothing", "project:..", "env:dev"] {
        let answer = put(&format!("/concurrency-limits/{scope}"), 1).await;
        assert_eq!(answer.0, 404, "{scope} {answer:?}");
    }
    let body = json!({ "max_jobs": 1 });
    for token in [&api.ours.viewer, &api.ours.deployer] {
        let path = "/concurrency-limits/organization";
        assert_eq!(api.call_as(token, Method::PUT, path, Some(&body)).await.0, 403);
        assert_eq!(api.call_as(token, Method::DELETE, path, None).await.0, 403);
    }
}
