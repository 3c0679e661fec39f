//! What follows from drift: events about what is new, and deployments that undo it.

use crate::container_world::{begin_accepted, succeeds};
use crate::drift::{change, checked, deployed, drift};
use crate::job::{furnished, order, stored};
use crate::schedules::{PATH, pass};
use canyon_domain::drift::DriftNews;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn only_another_set_of_addresses_and_actions_is_news() {
    let api = deployed().await;
    let first = [change("a.b", &["size"]), change("c.d", &["size"])];
    let id = checked(&api, &first).await;
    let before = drift(&api).await;
    let news = async |id: &str| stored(&api, id).await.drift.unwrap().news;
    assert_eq!(news(&id).await, Some(DriftNews::Detected));
    api.clock.advance(Duration::from_mins(1));
    let again = checked(&api, &[change("c.d", &["tags"]), change("a.b", &["size"])]).await;
    let after = drift(&api).await;
    assert_eq!(news(&again).await, None, "the same addresses differ in the same way");
    assert_eq!(after["since"], before["since"], "it has differed all the time");
    assert_ne!(after["checked_at"], before["checked_at"]);
    assert_eq!(after["deployment_id"], json!(again));
    let mut replaced = first.clone();
    replaced[0]["action"] = json!("replace");
    let other = checked(&api, &replaced).await;
    assert_eq!(news(&other).await, Some(DriftNews::Detected));
}

#[tokio::test]
async fn a_schedule_begins_a_check_for_drift_and_undoes_what_it_finds_twice_a_day() {
    let api = furnished().await;
    let mut last = succeeds(&api, order()).await;
    let schedule =
        json!({ "id": "nightly", "kind": "drift", "every_seconds": 900, "reconcile": true });
    api.make(PATH, schedule).await;
    let change =
        json!({ "address": "a.b", "action": "update", "kind": "outside", "attributes": ["x"] });
    let drift = json!({ "num_resources": 1, "num_drifted": 1, "changes": [change] });
    let found = json!({ "status": "success", "phase": "plan", "drift": drift });
    for round in 1..=3 {
        api.clock.advance(Duration::from_mins(16));
        assert_eq!(pass(&api).await, 1);
        let shown = api.get("/projects/shop/envs/main/drift").await.1;
        let check = shown["checking"].as_str().unwrap().to_owned();
        let (job, _) = begin_accepted(&api, &check).await;
        assert_eq!(job.result(&api, found.clone()).await.0, 204);
        let waiting = api.get("/deployments?status=queued").await.1["items"].clone();
        let suspended =
            &api.get("/projects/shop/envs/main/drift").await.1["reconcile_suspended_until"];
        if round == 3 {
            assert_eq!((waiting, suspended.is_string()), (json!([]), true), "it came back twice");
            continue;
        }
        assert_eq!(waiting[0]["rollback_to_deployment_id"], last.as_str(), "{round} {waiting}");
        assert_eq!(waiting[0]["mode"], "rollback");
        let id = waiting[0]["id"].as_str().unwrap();
        let (job, _) = begin_accepted(&api, id).await;
        assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
        job.succeed(&api).await;
        id.clone_into(&mut last);
    }
    let records = api.audit().await;
    let undone = records.iter().filter(|record| record.starts_with("drift.reconcile "));
    assert_eq!(undone.count(), 2);
}

#[tokio::test]
async fn what_undoes_drift_waits_for_the_same_approval() {
    let api = furnished().await;
    succeeds(&api, order()).await;
    let rule = json!({ "required": "always" });
    assert_eq!(api.patch("/env-types/dev", json!({ "approval": rule })).await.0, 200);
    let schedule =
        json!({ "id": "nightly", "kind": "drift", "every_seconds": 900, "reconcile": true });
    api.make(PATH, schedule).await;
    api.clock.advance(Duration::from_mins(16));
    assert_eq!(pass(&api).await, 1);
    let shown = api.get("/projects/shop/envs/main/drift").await.1;
    let (job, _) = begin_accepted(&api, shown["checking"].as_str().unwrap()).await;
    let change = json!({ "address": "a.b", "action": "update", "kind": "outside" });
    let drift = json!({ "num_resources": 1, "num_drifted": 1, "changes": [change] });
    let found = json!({ "status": "success", "phase": "plan", "drift": drift });
    assert_eq!(job.result(&api, found).await.0, 204);
    let waiting = api.get("/deployments?status=queued").await.1["items"].clone();
    let id = waiting[0]["id"].as_str().unwrap_or_else(|| panic!("no deployment: {waiting}"));
    let (_, of_job) = begin_accepted(&api, id).await;
    assert_eq!(of_job["plan"]["do"], "review", "{of_job}");
}
