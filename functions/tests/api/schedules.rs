//! Schedules: what a request may say, who may write one, and what becomes of each due time.

use crate::harness::{Answer, Api, faults, message};
use crate::job::{CODE, Job, environment, furnished, run, stored};
use canyon_domain::schedule::Schedule;
use canyon_functions::app::announcements::NoBus;
use canyon_store::outcome::{Created, Deleted};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const PATH: &str = "/projects/shop/envs/main/schedules";
const HOUR: Duration = Duration::from_hours(1);

fn hourly(changes: &Value) -> Value {
    let mut body = json!({
        "id": "nightly", "kind": "deploy", "cron": "@hourly",
        "spec": { "module": { "source": "inline", "source_code": CODE } },
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

async fn with_schedule(changes: &Value) -> Api {
    let api = furnished().await;
    api.make(PATH, hourly(changes)).await;
    api
}

pub(crate) async fn pass(api: &Api) -> usize {
    api.app.run_due_schedules(&NoBus).await.unwrap()
}

async fn schedule(api: &Api) -> Value {
    let (status, found) = api.get(&format!("{PATH}/nightly")).await;
    assert_eq!(status, 200, "{found}");
    found
}

async fn as_stored(api: &Api) -> Schedule {
    let (env, id) = (environment(api).await.uuid, "nightly".parse().unwrap());
    api.app.table.schedule(api.ours.uuid, env, &id).await.unwrap().unwrap()
}

async fn put(api: &Api, token: &str, body: &Value) -> Answer {
    api.call_as(token, Method::PUT, &format!("{PATH}/nightly"), Some(body)).await
}

async fn deployments(api: &Api) -> usize {
    api.get("/deployments?per_page=100").await.1["items"].as_array().unwrap().len()
}

/// What became of each due time, newest first.
async fn history(api: &Api) -> Vec<String> {
    let schedule = schedule(api).await;
    let text = |run: &Value| match run["skipped"].as_str() {
        Some(reason) => reason.to_owned(),
        None => {
            run["deployment_id"].as_str().map_or_else(|| run.to_string(), |_| "deployed".into())
        }
    };
    schedule["history"].as_array().unwrap().iter().map(text).collect()
}

async fn finish(api: &Api, id: &str) {
    Job::of(api, id.to_owned()).await.succeed(api).await;
}

async fn last_deployment(api: &Api) -> String {
    schedule(api).await["last"]["deployment_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_schedule_is_created_read_listed_replaced_and_deleted_with_audit_records() {
    let api = furnished().await;
    let made = api.make(PATH, hourly(&json!({ "timezone": "europe/berlin" }))).await;
    let expected = json!(["2026-01-15T13:00:00Z", "2026-01-15T14:00:00Z", "2026-01-15T15:00:00Z"]);
    assert_eq!(made["next_due_at"], expected);
    assert_eq!(
        (&made["timezone"], &made["enabled"], &made["on_missed"], &made["history"]),
        (&json!("Europe/Berlin"), &json!(true), &json!("skip"), &json!([]))
    );
    assert_eq!(made["spec"]["module"]["source_code"], CODE);
    assert_eq!(schedule(&api).await, made);
    assert_eq!(api.get(PATH).await.1["items"], json!([made]));
    let again = api.post(PATH, hourly(&json!({}))).await;
    assert_eq!(again.0, 409);
    assert!(message(&again).contains("has a schedule `nightly` already"), "{again:?}");
    let daily = json!({ "kind": "destroy", "cron": "@daily" });
    let (status, without_zone) = put(&api, &api.ours.deployer, &daily).await;
    assert_eq!((status, &without_zone["timezone"]), (200, &json!("UTC")));

    let body =
        json!({ "kind": "destroy", "at": "2026-02-01T04:00:00+01:00", "on_missed": "run_once" });
    let (status, replaced) = put(&api, &api.ours.deployer, &body).await;
    assert_eq!((status, &replaced["next_due_at"]), (200, &json!(["2026-02-01T03:00:00Z"])));
    assert_eq!((replaced.get("cron"), replaced.get("spec")), (None, None), "it replaces all");
    assert_ne!(replaced["created_by"], made["created_by"]);
    let off = json!({ "kind": "destroy", "every_seconds": 300, "enabled": false });
    let (_, off) = put(&api, &api.ours.admin, &off).await;
    assert_eq!((&off["next_due_at"], &off["every_seconds"]), (&json!([]), &json!(300)));
    assert_eq!(api.delete(&format!("{PATH}/nightly")).await.0, 204);
    assert_eq!(api.delete(&format!("{PATH}/nightly")).await.0, 404);
    let (status, _) = put(&api, &api.ours.admin, &daily).await;
    assert_eq!(status, 404, "only a schedule that exists is replaced");
    let audit = api.audit().await;
    let subject = "projects/shop/envs/main/schedules/nightly";
    let expected = ["delete", "replace", "replace", "replace", "create"];
    assert_eq!(audit[..5], expected.map(|action| format!("schedule.{action} {subject}")));
}

#[tokio::test]
async fn every_fault_of_a_body_is_named_and_nothing_is_written() {
    let api = furnished().await;
    let mut wrong = Vec::new();
    for (changes, paths) in [
        (
            json!({ "id": "Nightly", "kind": "action", "on_missed": "never" }),
            &["id", "on_missed", "spec", "kind"][..],
        ),
        (json!({ "cron": "0 0 0 * * *" }), &["cron"]),
        (json!({ "cron": "0 0 31 2 *" }), &["cron"]),
        (json!({ "cron": "*/4 * * * *" }), &["cron"]),
        (json!({ "cron": "*/14 * * * *", "kind": "drift", "spec": null }), &["cron"]),
        (json!({ "timezone": "Mars/Olympus" }), &["timezone"]),
        (json!({ "cron": null }), &[""]),
        (json!({ "at": "2026-02-01T00:00:00Z" }), &[""]),
        (json!({ "cron": null, "at": "2026-01-15T11:59:59Z" }), &["at"]),
        (json!({ "cron": null, "at": "tomorrow" }), &["at"]),
        (json!({ "cron": null, "every_seconds": 299 }), &["every_seconds"]),
        (json!({ "reconcile": true }), &["reconcile"]),
        (json!({ "kind": "destroy" }), &["spec"]),
        (json!({ "spec": [] }), &["spec"]),
        (json!({ "spec": { "mode": "destroy" } }), &["spec.mode"]),
        (
            json!({ "spec": { "project_id": "shop", "module": 1 } }),
            &["spec.project_id", "spec.module"],
        ),
        (json!({ "spec": { "modul": {} } }), &["spec.modul"]),
        (
            json!({ "spec": { "module": { "source": "inline", "source_code": CODE }, "secret_inputs": { "a": "long enough" } } }),
            &["spec.secret_inputs"],
        ),
        (
            json!({ "timezone": "x", "spec": { "targets": [""], "module": { "source": "inline", "source_code": CODE } } }),
            &["spec.targets[0]", "timezone"],
        ),
        (json!({ "window_seconds": 5 }), &["window_seconds"]),
    ] {
        let answer = api.post(PATH, hourly(&changes)).await;
        if (answer.0, faults(&answer)) != (400, paths.to_vec()) {
            wrong.push(format!("{changes}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(api.get(PATH).await.1["items"], json!([]));
}

#[tokio::test]
async fn viewers_read_deployers_write_and_others_see_nothing() {
    let api = with_schedule(&json!({})).await;
    let (viewer, deployer, theirs) =
        (api.ours.viewer.clone(), api.ours.deployer.clone(), api.theirs.admin.clone());
    let one = format!("{PATH}/nightly");
    let body = json!({ "kind": "destroy", "cron": "@daily" });
    let create = json!({ "id": "weekly", "kind": "destroy", "cron": "@weekly" });
    for (token, read, write) in [(&viewer, 200, 403), (&theirs, 404, 404)] {
        assert_eq!(api.call_as(token, Method::GET, PATH, None).await.0, read);
        assert_eq!(api.call_as(token, Method::GET, &one, None).await.0, read);
        assert_eq!(put(&api, token, &body).await.0, write);
        assert_eq!(api.call_as(token, Method::POST, PATH, Some(&create)).await.0, write);
        assert_eq!(api.call_as(token, Method::DELETE, &one, None).await.0, write);
    }
    assert_eq!(api.call_as(&deployer, Method::POST, PATH, Some(&create)).await.0, 201);
    assert_eq!(put(&api, &deployer, &body).await.0, 200);
    assert_eq!(api.call_as(&deployer, Method::DELETE, &one, None).await.0, 204);
    for path in ["/projects/shop/envs/none/schedules", "/projects/none/envs/main/schedules"] {
        assert_eq!(api.get(path).await.0, 404);
    }
}

#[tokio::test]
async fn an_environment_has_at_most_twenty_schedules() {
    let api = furnished().await;
    for n in 0..20 {
        api.make(PATH, hourly(&json!({ "id": format!("at-{n}") }))).await;
    }
    let answer = api.post(PATH, hourly(&json!({ "id": "more" }))).await;
    assert_eq!(answer.0, 409);
    assert!(message(&answer).contains("has 20 schedules"), "{answer:?}");
}

#[tokio::test]
async fn a_due_time_is_one_deployment_in_the_authors_name_however_many_passes_take_it() {
    let api = with_schedule(&json!({})).await;
    assert_eq!(pass(&api).await, 0);
    api.clock.advance(HOUR);
    let (one, other) = tokio::join!(pass(&api), pass(&api));
    assert_eq!((one + other, deployments(&api).await), (1, 1));
    assert_eq!(pass(&api).await, 0);
    let found = schedule(&api).await;
    assert_eq!(found["last"]["due_at"], "2026-01-15T13:00:00Z");
    assert_eq!(found["next_due_at"][0], "2026-01-15T14:00:00Z");
    let id = last_deployment(&api).await;
    let deployment = stored(&api, &id).await;
    assert_eq!(deployment.created_by.0.to_string(), found["created_by"].as_str().unwrap());
    assert_eq!(history(&api).await, ["deployed"]);
}

#[tokio::test]
async fn a_process_that_ends_between_the_request_and_the_next_due_time_has_run_once() {
    for (outage, on_missed) in [(0, "skip"), (90, "skip"), (90, "run_once")] {
        let api = with_schedule(&json!({ "on_missed": on_missed })).await;
        api.clock.advance(HOUR);
        let before = as_stored(&api).await;
        assert_eq!(pass(&api).await, 1);
        let id = last_deployment(&api).await;
        // As if the process had ended: the schedule is as it was before.
        let after = as_stored(&api).await;
        let record = |n: u128| canyon_domain::audit::AuditRecord {
            id: uuid::Uuid::from_u128(n),
            at: before.created_at,
            by: before.author.id,
            action: "test".into(),
            subject: "test".into(),
            by_right: "test".into(),
            details: Vec::new(),
        };
        let (table, org) = (&api.app.table, api.ours.uuid);
        assert_eq!(table.delete_schedule(org, &after, &record(1)).await.unwrap(), Deleted::Yes);
        let again = table.create_schedule(org, &before, &record(2)).await.unwrap();
        assert_eq!(again, Created::Yes);
        finish(&api, &id).await;
        api.clock.advance(Duration::from_mins(outage));
        assert_eq!(pass(&api).await, 1);
        assert_eq!((deployments(&api).await, last_deployment(&api).await), (1, id), "{on_missed}");
    }
}

#[tokio::test]
async fn while_the_deployment_before_is_not_over_a_due_time_is_skipped() {
    let api = with_schedule(&json!({})).await;
    api.clock.advance(HOUR);
    pass(&api).await;
    let first = last_deployment(&api).await;
    for _ in 0..2 {
        api.clock.advance(HOUR);
        pass(&api).await;
    }
    let expected = ["previous_still_running", "previous_still_running", "deployed"];
    assert_eq!(
        (history(&api).await, deployments(&api).await),
        (expected.map(str::to_owned).to_vec(), 1)
    );
    finish(&api, &first).await;
    api.clock.advance(HOUR);
    pass(&api).await;
    assert_eq!((history(&api).await[0].as_str(), deployments(&api).await), ("deployed", 2));
}

#[tokio::test]
async fn missed_times_are_skipped_or_run_once() {
    for (on_missed, expected, count) in [("skip", "missed", 0), ("run_once", "deployed", 1)] {
        let api = with_schedule(&json!({ "on_missed": on_missed })).await;
        api.clock.advance(HOUR * 30 + Duration::from_mins(30));
        assert_eq!(pass(&api).await, 1);
        assert_eq!(pass(&api).await, 0);
        assert_eq!(
            (history(&api).await, deployments(&api).await),
            (vec![expected.to_owned()], count)
        );
        assert_eq!(schedule(&api).await["next_due_at"][0], "2026-01-16T19:00:00Z");
    }
}

#[tokio::test]
async fn a_single_time_runs_and_ends_the_schedule() {
    let api = with_schedule(&json!({ "cron": null, "at": "2026-01-15T13:00:00+00:00" })).await;
    api.clock.advance(HOUR);
    assert_eq!(pass(&api).await, 1);
    let found = schedule(&api).await;
    assert_eq!((&found["enabled"], &found["next_due_at"]), (&json!(false), &json!([])));
    finish(&api, &last_deployment(&api).await).await;
    api.clock.advance(HOUR * 100);
    assert_eq!((pass(&api).await, deployments(&api).await), (0, 1));
}

#[tokio::test]
async fn without_a_spec_a_deployment_repeats_what_was_deployed_and_a_destruction_destroys_it() {
    let api = furnished().await;
    api.make(PATH, json!({ "id": "nightly", "kind": "deploy", "cron": "@hourly" })).await;
    api.clock.advance(HOUR);
    pass(&api).await;
    let reason = "nothing is deployed to environment `main`, so there is nothing to deploy again";
    assert_eq!(history(&api).await, [reason]);
    let body = json!({
        "project_id": "shop", "env_id": "main", "mode": "deploy",
        "module": { "source": "inline", "source_code": CODE },
    });
    let (first, _) = run(&api, body).await;
    api.clock.advance(HOUR);
    pass(&api).await;
    let again = stored(&api, &last_deployment(&api).await).await;
    assert_eq!(again.rollback_to.unwrap().to_string(), first);
    finish(&api, &again.id.to_string()).await;
    put(&api, &api.ours.deployer, &json!({ "kind": "destroy", "cron": "@hourly" })).await;
    api.clock.advance(HOUR);
    pass(&api).await;
    assert_eq!(stored(&api, &last_deployment(&api).await).await.mode.as_str(), "destroy");
}

#[tokio::test]
async fn a_run_reads_what_its_author_might_read() {
    let api = furnished().await;
    let token = api
        .make(
            "/tokens",
            json!({
                "description": "ci", "role": "none",
                "scoped_roles": [{ "role": "deployer", "project_id": "shop", "env_id": "main" }],
            }),
        )
        .await;
    let token = token["secret"].as_str().unwrap().to_owned();
    let made = api.call_as(&token, Method::POST, PATH, Some(&hourly(&json!({})))).await;
    assert_eq!(made.0, 201, "{made:?}");
    api.clock.advance(HOUR);
    pass(&api).await;
    let reads = stored(&api, &last_deployment(&api).await).await.reads_in.unwrap();
    assert!(reads.iter().all(|role| role.env.as_ref().is_some_and(|env| env.as_str() == "main")));
}

#[tokio::test]
async fn the_schedules_of_an_environment_go_with_it() {
    let api = with_schedule(&json!({})).await;
    let kept = as_stored(&api).await;
    assert_eq!(api.delete("/projects/shop/envs/main").await.0, 204);
    let (table, org) = (&api.app.table, api.ours.uuid);
    assert_eq!(table.all_schedules(org, kept.env_uuid).await.unwrap(), []);
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    assert_eq!(api.get(PATH).await.1["items"], json!([]));
    // One that was written while the environment was deleted deletes itself.
    let record = canyon_domain::audit::AuditRecord {
        id: uuid::Uuid::from_u128(1),
        at: kept.created_at,
        by: kept.author.id,
        action: "test".into(),
        subject: "test".into(),
        by_right: "test".into(),
        details: Vec::new(),
    };
    assert_eq!(table.create_schedule(org, &kept, &record).await.unwrap(), Created::Yes);
    assert_eq!(api.get(PATH).await.1["items"], json!([]));
    api.clock.advance(HOUR);
    assert_eq!((pass(&api).await, deployments(&api).await), (1, 0));
    let left = table.all_schedules(org, kept.env_uuid).await.unwrap();
    assert_eq!((left[0].due_at, pass(&api).await), (None, 0), "the table removes it by itself");
}
