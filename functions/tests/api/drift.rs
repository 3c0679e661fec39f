//! Checks for drift: who may begin one and when, what is recorded of its result, and what its readers see.

use crate::container_world::begin_accepted;
use crate::harness::{Answer, Api, faults, message};
use crate::job::{Job, deploy, environment, everything, furnished, order, stored};
use canyon_domain::drift::{DriftNews, DriftStatus, MAX_ATTRIBUTES, MAX_CHANGES};
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use reqwest::Method;
use serde_json::{Value, json};

const DRIFT: &str = "/projects/shop/envs/main/drift";
const CHECK: &str = "/projects/shop/envs/main/drift/actions/check";
const ENV: &str = "/projects/shop/envs/main";

/// An API whose environment `main` has a deployment that has succeeded.
pub(crate) async fn deployed() -> Api {
    let api = furnished().await;
    let job = Job::start(&api).await;
    job.succeed(&api).await;
    api
}

/// A resource that differs in these attributes.
pub(crate) fn change(address: &str, attributes: &[&str]) -> Value {
    json!({ "address": address, "action": "update", "kind": "outside", "attributes": attributes })
}

/// The result of a check that has found these changes.
fn found(changes: &[Value]) -> Value {
    let drift = json!({ "num_resources": 9, "num_drifted": changes.len(), "changes": changes });
    json!({ "status": "success", "phase": "plan", "drift": drift })
}

/// Begins a check whose runner has claimed its job.
async fn begun(api: &Api) -> Job {
    let (status, check) = api.act(CHECK).await;
    assert_eq!(status, 201, "{check}");
    begin_accepted(api, check["id"].as_str().unwrap()).await.0
}

/// Checks the environment, and finds these changes. Returns the check's id.
pub(crate) async fn checked(api: &Api, changes: &[Value]) -> String {
    let job = begun(api).await;
    assert_eq!(job.result(api, found(changes)).await.0, 204);
    job.id
}

pub(crate) async fn drift(api: &Api) -> Value {
    let (status, drift) = api.get(DRIFT).await;
    assert_eq!(status, 200, "{drift}");
    drift
}

async fn listed(api: &Api, path: &str) -> Vec<String> {
    let (status, page) = api.get(path).await;
    assert_eq!(status, 200, "{path}: {page}");
    let ids = page["items"].as_array().unwrap().iter();
    let id = |item: &Value| item["id"].as_str().or(item["env_id"].as_str()).unwrap().to_owned();
    ids.map(id).collect()
}

#[tokio::test]
async fn a_check_is_refused_while_a_deployment_runs_or_waits_and_if_nothing_was_deployed() {
    let api = furnished().await;
    let nothing = api.act(CHECK).await;
    assert!(nothing.0 == 409 && message(&nothing).contains("deployed"), "{nothing:?}");
    assert!(environment(&api).await.drift.is_none(), "a refused check leaves nothing");
    Job::start(&api).await.succeed(&api).await;
    let first = deploy(&api).await;
    let refused_for = async |id: &str| {
        let refused = api.act(CHECK).await;
        let said = format!("deployment {id} runs or waits in this environment, and comes first");
        assert!(refused.0 == 409 && message(&refused).starts_with(&said), "{refused:?}");
    };
    refused_for(&first).await;
    let running = Job::of(&api, first.clone()).await;
    let second = deploy(&api).await;
    refused_for(&first).await;
    running.succeed(&api).await;
    refused_for(&second).await;
    Job::of(&api, second).await.succeed(&api).await;
    assert_eq!(api.act(CHECK).await.0, 201);
}

#[tokio::test]
async fn a_viewer_reads_drift_and_begins_no_check_and_another_organization_finds_nothing() {
    let api = deployed().await;
    let before = everything(&api).await;
    let viewer = &api.ours.viewer;
    let refused = api.call_as(viewer, Method::POST, CHECK, None).await;
    assert_eq!(refused.0, 403, "{refused:?}");
    assert_eq!(api.call_as(viewer, Method::GET, DRIFT, None).await.0, 200);
    assert_eq!(api.call_as(viewer, Method::GET, "/drift", None).await.0, 200);
    let theirs = &api.theirs.admin;
    for (method, path) in [(Method::GET, DRIFT), (Method::POST, CHECK)] {
        let path = format!("/orgs/{}{path}", api.theirs.id);
        assert_eq!(api.send(method, &path, Some(theirs), None).await.0, 404, "{path}");
    }
    let path = format!("/orgs/{}/drift", api.theirs.id);
    let (status, page) = api.send(Method::GET, &path, Some(theirs), None).await;
    assert_eq!((status, &page["items"]), (200, &json!([])));
    assert_eq!(everything(&api).await, before);
    let unknown = api.act("/projects/shop/envs/other/drift/actions/check").await;
    assert_eq!(unknown.0, 404, "{unknown:?}");
}

#[tokio::test]
async fn asking_twice_gives_the_open_check_which_is_beside_the_queue() {
    let api = deployed().await;
    let first = api.act(CHECK).await;
    let again = api.act(CHECK).await;
    assert_eq!((first.0, again.0), (201, 201));
    assert_eq!(first.1["id"], again.1["id"]);
    assert_eq!((&first.1["mode"], &first.1["plan_only"]), (&json!("drift"), &json!(true)));
    let shown = drift(&api).await;
    assert_eq!((&shown["checking"], &shown["status"]), (&first.1["id"], &json!("unknown")));
    let known = environment(&api).await;
    assert!(known.queue.is_idle(), "a deployment does not wait for a check");
    // Its job has what was deployed last, and keeps no plan.
    let (_, job) = begin_accepted(&api, first.1["id"].as_str().unwrap()).await;
    assert_eq!((&job["mode"], &job["plan"]), (&json!("drift"), &Value::Null), "{job}");
    assert_eq!(job["bundle"]["module"]["source_code"], order()["module"]["source_code"], "{job}");
}

#[tokio::test]
async fn what_a_check_has_found_is_recorded_and_what_is_ignored_is_counted_apart() {
    let api = deployed().await;
    let rules = json!({ "drift_ignore": [
        { "address": "module.cdn.*" },
        { "address": "aws_instance.*", "attributes": ["tags", "tags_all"] },
    ] });
    assert_eq!(api.patch(ENV, rules.clone()).await.0, 200);
    let changes = [
        change("module.cdn.aws_s3_bucket.logs", &["acl"]),
        change("aws_instance.web", &["tags"]),
        change("aws_instance.api", &["tags", "user_data"]),
        json!({ "address": "aws_iam_role.ci", "action": "create", "kind": "configuration" }),
    ];
    let check = checked(&api, &changes).await;
    let shown = drift(&api).await;
    let counts = ["num_resources", "num_drifted", "num_ignored"].map(|name| shown[name].clone());
    assert_eq!((&shown["status"], counts), (&json!("drifted"), [json!(9), json!(2), json!(2)]));
    assert_eq!((&shown["deployment_id"], &shown["checking"]), (&json!(check), &Value::Null));
    let ignored: Vec<_> = shown["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["ignored"].as_bool().unwrap_or_default())
        .collect();
    assert_eq!((ignored, &shown["truncated"]), (vec![true, true, false, false], &json!(false)));
    assert_eq!(shown["history"][0]["num_drifted"], 2, "{shown}");
    let of_environment = api.get(ENV).await.1;
    assert_eq!(of_environment["drift_ignore"], rules["drift_ignore"]);
    assert_eq!(of_environment["drift"]["num_drifted"], 2);
    let news = |found: canyon_domain::deployment::Deployment| found.drift.unwrap().news;
    assert_eq!(news(stored(&api, &check).await), Some(DriftNews::Detected));

    // All that differs is ignored: it is shown, and the environment is in sync.
    let check = checked(&api, &changes[..2]).await;
    let shown = drift(&api).await;
    let counts = [&shown["num_drifted"], &shown["num_ignored"]];
    assert_eq!((&shown["status"], counts), (&json!("in_sync"), [&json!(0), &json!(2)]));
    assert_eq!(shown["changes"].as_array().map(Vec::len), Some(2));
    assert_eq!(news(stored(&api, &check).await), Some(DriftNews::Resolved));

    // A deployment puts an end to all of it.
    checked(&api, &changes).await;
    let deployment = Job::start(&api).await;
    deployment.succeed(&api).await;
    let known = stored(&api, &deployment.id).await.drift.unwrap();
    assert_eq!((known.news, known.num_resources), (Some(DriftNews::Resolved), 9));
    let shown = drift(&api).await;
    assert_eq!((&shown["status"], &shown["changes"]), (&json!("in_sync"), &json!([])));
    assert_eq!(shown["history"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn a_failed_check_keeps_what_the_check_before_has_found() {
    let api = deployed().await;
    let check = checked(&api, &[change("a.b", &["size"])]).await;
    let job = begun(&api).await;
    let failure = json!({ "class": "user", "message": "no credentials" });
    let failed = json!({ "status": "failure", "phase": "plan", "failure": failure });
    assert_eq!(job.result(&api, failed).await.0, 204);
    let shown = drift(&api).await;
    assert_eq!((&shown["status"], &shown["num_drifted"]), (&json!("failed"), &json!(1)));
    assert_eq!(
        (&shown["deployment_id"], &shown["changes"][0]["address"]),
        (&json!(check), &json!("a.b"))
    );
    assert_eq!(shown["history"][0]["message"], "no credentials", "{shown}");
}

#[tokio::test]
async fn the_result_of_a_check_that_a_deployment_overtook_counts_for_nothing() {
    let api = deployed().await;
    checked(&api, &[change("a.b", &["size"])]).await;
    let check = begun(&api).await;
    let running = Job::start(&api).await;
    assert_eq!(environment(&api).await.drift.unwrap().checking, None);
    let late = check.result(&api, found(&[change("c.d", &["size"])])).await;
    assert_eq!(late.0, 204, "{late:?}");
    let known = environment(&api).await;
    assert_eq!(known.queue.head(), Some(running.deployment()), "the deployment has the turn");
    let known = known.drift.unwrap();
    assert_eq!((known.status, known.found.num_drifted), (DriftStatus::Drifted, 1));
    assert_ne!(known.check, Some(check.deployment()));
    assert_eq!(stored(&api, &check.id).await.drift.unwrap().news, None, "no event");
    assert_eq!(drift(&api).await["changes"][0]["address"], "a.b");

    // Its job is stopped, and the runner reports nothing but that.
    running.succeed(&api).await;
    let check = begun(&api).await;
    let mut stopped = stored(&api, &check.id).await;
    assert!(lifecycle::overtake(&mut stopped, api.clock.now()));
    stopped.version += 1;
    let wake = canyon_store::deployment_item::Wake::None;
    api.app.table.save_deployment(api.ours.uuid, &stopped, wake).await.unwrap();
    let failure = json!({ "class": "cancelled", "message": "interrupted" });
    let answer = check.result(&api, json!({ "status": "failure", "failure": failure })).await;
    assert_eq!(answer.0, 204, "{answer:?}");
    let ended = api.get(&format!("/deployments/{}", check.id)).await.1;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(
        ended["status_message"].as_str().unwrap().contains("a deployment comes first"),
        "{ended}"
    );
    let shown = drift(&api).await;
    assert_eq!((&shown["status"], &shown["checking"]), (&json!("in_sync"), &Value::Null));
}

#[tokio::test]
async fn a_repeated_result_gets_the_same_answer_and_changes_nothing() {
    let api = deployed().await;
    let job = begun(&api).await;
    let result = found(&[change("a.b", &["size"])]);
    assert_eq!(job.result(&api, result.clone()).await.0, 204);
    let (before, shown) = (everything(&api).await, drift(&api).await);
    assert_eq!(job.result(&api, result).await.0, 204);
    assert_eq!((everything(&api).await, drift(&api).await), (before, shown));
}

#[tokio::test]
async fn environments_are_listed_by_their_status() {
    let api = deployed().await;
    api.make("/projects/shop/envs", json!({ "id": "later", "env_type_id": "dev" })).await;
    api.make("/projects", json!({ "id": "pay" })).await;
    api.make("/projects/pay/envs", json!({ "id": "eu", "env_type_id": "dev" })).await;
    checked(&api, &[change("a.b", &["size"])]).await;
    for (query, expected) in [
        ("", vec!["eu", "later", "main"]),
        ("?status=drifted", vec!["main"]),
        ("?status=unknown", vec!["eu", "later"]),
        ("?status=unknown&project_id=shop", vec!["later"]),
        ("?status=in_sync", vec![]),
        ("?status=failed", vec![]),
        ("?project_id=absent", vec![]),
    ] {
        let mut found = listed(&api, &format!("/drift{query}")).await;
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
    let refused = api.get("/drift?status=broken&env=main&project_id=-").await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["env", "status", "project_id"]));
    let text = refused.1.to_string();
    for name in ["unknown", "in_sync", "drifted", "failed"] {
        assert!(text.contains(&format!("`{name}`")), "{name}: {text}");
    }
    // Who may read one project only sees its environments only.
    let body = json!({
        "description": "pay", "role": "none", "scoped_roles": [{ "role": "viewer", "project_id": "pay" }],
    });
    let token = api.make("/tokens", body).await["secret"].as_str().unwrap().to_owned();
    let (_, page): Answer = api.call_as(&token, Method::GET, "/drift", None).await;
    assert_eq!(page["items"][0]["env_id"], "eu", "{page}");
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
}

#[tokio::test]
async fn faulty_ignore_rules_are_refused_by_their_paths_and_nothing_is_written() {
    let api = deployed().await;
    let before = everything(&api).await;
    let rule = |address: &str| json!({ "address": address });
    let many = vec![rule("a.*"); 51];
    let names = |count: usize| vec!["tags"; count];
    for (rules, expected) in [
        (json!(many), vec!["drift_ignore"]),
        (json!([rule("")]), vec!["drift_ignore[0].address"]),
        (json!([rule("a"), rule(&"x".repeat(301))]), vec!["drift_ignore[1].address"]),
        (json!([{ "address": "a", "attributes": names(21) }]), vec!["drift_ignore[0].attributes"]),
        (
            json!([rule(""), { "address": "a", "attributes": ["tags", ""] }]),
            vec!["drift_ignore[0].address", "drift_ignore[1].attributes[1]"],
        ),
        (json!([{ "address": "a", "kind": "outside" }]), vec!["drift_ignore[0].kind"]),
    ] {
        let refused = api.patch(ENV, json!({ "drift_ignore": rules })).await;
        assert_eq!((refused.0, faults(&refused)), (400, expected), "{refused:?}");
    }
    assert_eq!(everything(&api).await, before);
    let all = json!({ "drift_ignore": vec![rule("a.*"); 50] });
    assert_eq!(api.patch(ENV, all).await.0, 200);
    assert_eq!(api.patch(ENV, json!({ "drift_ignore": [] })).await.0, 200);
    assert_eq!(api.get(ENV).await.1.get("drift_ignore"), None);
}

#[tokio::test]
async fn a_value_in_a_report_is_left_out_and_no_answer_has_one() {
    let api = deployed().await;
    let job = begun(&api).await;
    let secret = "hunter2";
    let mut with_value = change("a.b", &["size"]);
    with_value["after"] = json!(secret);
    assert_eq!(job.result(&api, found(&[with_value])).await.0, 204);
    for path in [DRIFT, "/drift", ENV, &format!("/deployments/{}", job.id)] {
        let text = api.get(path).await.1.to_string();
        assert!(!text.contains(secret) && !text.contains("\"after\""), "{path}: {text}");
    }
    let keys: Vec<_> =
        drift(&api).await["changes"][0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["action", "address", "attributes", "kind"]);
}

#[tokio::test]
async fn more_changes_than_a_reader_sees_are_cut_and_counted() {
    let api = deployed().await;
    let names: Vec<_> = (0..30).map(|number| format!("name_{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let all: Vec<_> = (0..=MAX_CHANGES)
        .map(|number| {
            change(&format!("a.b[{number}]"), if number == 0 { &names } else { &["size"] })
        })
        .collect();
    checked(&api, &all).await;
    let shown = drift(&api).await;
    assert_eq!((&shown["num_drifted"], &shown["truncated"]), (&json!(501), &json!(true)));
    assert_eq!(shown["changes"].as_array().map(Vec::len), Some(MAX_CHANGES));
    assert_eq!(shown["changes"][0]["attributes"].as_array().map(Vec::len), Some(MAX_ATTRIBUTES));
    // As a runner sends it: the first changes, and the number of all.
    let job = begun(&api).await;
    let mut result = found(&all[..MAX_CHANGES]);
    result["drift"]["num_drifted"] = 700.into();
    assert_eq!(job.result(&api, result).await.0, 204);
    let shown = drift(&api).await;
    assert_eq!((&shown["num_drifted"], &shown["truncated"]), (&json!(700), &json!(true)));
}

#[tokio::test]
async fn checks_are_in_the_list_of_their_environment_alone() {
    let api = deployed().await;
    let check = checked(&api, &[]).await;
    let cancelled = api.act(CHECK).await.1["id"].as_str().unwrap().to_owned();
    assert_eq!(api.act(&format!("/deployments/{cancelled}/actions/cancel")).await.0, 202);
    let of_env = "project_id=shop&env_id=main";
    let path = format!("/deployments?{of_env}&mode=drift");
    assert_eq!(listed(&api, &path).await, [cancelled.clone(), check.clone()]);
    let path = format!("/deployments?{of_env}&mode=drift&status=cancelled");
    assert_eq!(listed(&api, &path).await, [cancelled.as_str()]);
    let refused = api.get("/deployments?mode=drift&project_id=shop").await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["mode"]));
    for query in ["", of_env, "project_id=shop", "status=cancelled", "ended=true", "mode=plan"] {
        let found = listed(&api, &format!("/deployments?{query}")).await;
        assert!(!found.contains(&check) && !found.contains(&cancelled), "{query}: {found:?}");
    }
    let shown = api.get(ENV).await.1;
    assert!(!shown["deployments"].to_string().contains(&check), "{shown}");
    // No other request makes or repeats a check.
    let mut body = order();
    body["mode"] = "drift".into();
    assert_eq!(api.post("/deployments", body).await.0, 400);
    for body in [
        json!({ "mode": "rollback", "rollback_to_deployment_id": check }),
        json!({ "mode": "apply", "plan_deployment_id": check }),
    ] {
        let mut order = json!({ "project_id": "shop", "env_id": "main" });
        order.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let refused = api.post("/deployments", order).await;
        assert!([400, 409].contains(&refused.0), "{refused:?}");
    }
}

#[tokio::test]
async fn drift_is_readable_after_its_check_was_removed() {
    let api = deployed().await;
    let check = checked(&api, &[change("a.b", &["size"])]).await;
    let found = stored(&api, &check).await;
    api.app.table.remove_deployment(api.ours.uuid, &found).await.unwrap();
    let shown = drift(&api).await;
    assert_eq!((&shown["status"], &shown["changes"]), (&json!("drifted"), &json!([])));
}
