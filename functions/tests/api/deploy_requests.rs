//! Deployments that an event requests: each is accepted or rejected once, and only a known sender may request one.

use crate::harness::Api;
use crate::job::{CODE, everything, furnished, order};
use canyon_domain::deployment::Deployment;
use canyon_domain::events::Rejected;
use canyon_functions::app::deploy_requests::{DETAIL_TYPE, DeployAnswer};
use canyon_store::Table;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

const ACCOUNT: &str = "123456789012";
const SOURCE: &str = "com.acme.ci";
const RULE: &str = "arn:aws:events:eu-west-1:444455556666:rule/canyon/deploys";

/// A request for our environment `main`, as the API receives it, with the organization.
fn detail() -> Value {
    let mut detail = order();
    detail["org_id"] = json!("our-org");
    detail
}

/// The event with this `detail`.
#[expect(clippy::needless_pass_by_value, reason = "made for it in nearly every call")]
fn event(id: &str, detail: Value) -> Value {
    json!({
        "version": "0", "id": id, "detail-type": DETAIL_TYPE, "source": SOURCE, "account": ACCOUNT,
        "time": "2026-01-15T12:00:00Z", "region": "eu-west-1", "resources": [], "detail": detail,
    })
}

fn with(mut value: Value, changes: &Value) -> Value {
    value.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    value
}

/// An API with the environment `main`, and an event source `ci` for our account.
async fn open(scope: &Value) -> Api {
    let api = furnished().await;
    api.make("/event-sources", with(json!({ "id": "ci", "account": ACCOUNT }), scope)).await;
    api
}

async fn answer(api: &Api, event: &Value) -> DeployAnswer {
    api.app.deploy_requested(event).await.unwrap()
}

async fn accepted(api: &Api, event: &Value) -> Deployment {
    match answer(api, event).await {
        DeployAnswer::Accepted(deployment) => *deployment,
        DeployAnswer::Rejected(rejected) => panic!("{rejected:?}"),
    }
}

async fn rejected(api: &Api, event: &Value) -> Rejected {
    match answer(api, event).await {
        DeployAnswer::Rejected(rejected) => *rejected,
        DeployAnswer::Accepted(deployment) => panic!("{deployment:?}"),
    }
}

fn paths(rejected: &Rejected) -> Vec<&str> {
    rejected.fields.iter().map(|field| field.path.as_str()).collect()
}

async fn deployments(api: &Api) -> Vec<Value> {
    api.get("/deployments?per_page=100").await.1["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_event_that_is_delivered_three_times_makes_one_deployment_in_the_sources_name() {
    let api = open(&json!({})).await;
    let source = api.get("/event-sources/ci").await.1;
    let events: Vec<_> = (0..4)
        .map(|n| {
            let module = json!({ "source": "inline", "source_code": format!("{CODE} #{n}") });
            event(&format!("e-{n}"), with(detail(), &json!({ "module": module })))
        })
        .collect();
    let mut found: HashMap<usize, Vec<Deployment>> = HashMap::new();
    // Out of order, and each by two concurrent deliveries.
    for (first, second) in [(2, 0), (1, 2), (0, 3), (3, 1), (0, 1), (2, 3)] {
        let (one, two) =
            tokio::join!(accepted(&api, &events[first]), accepted(&api, &events[second]));
        found.entry(first).or_default().push(one);
        found.entry(second).or_default().push(two);
    }
    for (n, same) in found {
        assert_eq!(same.len(), 3);
        assert!(same.iter().all(|deployment| deployment.id == same[0].id), "{n}: {same:?}");
        assert_eq!(json!(same[0].created_by), source["uuid"]);
    }
    assert_eq!(deployments(&api).await.len(), 4);
    let records = api.get("/audit-records?per_page=4").await.1;
    for record in records["items"].as_array().unwrap() {
        assert_eq!(
            (&record["action"], &record["by"], &record["by_right"]),
            (&json!("deployment.create"), &source["uuid"], &json!("deployer"))
        );
    }
}

#[tokio::test]
async fn three_deliveries_at_once_make_one_deployment() {
    let api = open(&json!({})).await;
    let event = event("e-1", detail());
    let (one, two, three) =
        tokio::join!(accepted(&api, &event), accepted(&api, &event), accepted(&api, &event));
    assert_eq!((one.id, one.id), (two.id, three.id));
    assert_eq!(deployments(&api).await.len(), 1);
}

#[tokio::test]
async fn a_late_delivery_finds_the_deployment_even_where_it_would_be_refused_by_now() {
    let api = open(&json!({})).await;
    let request = event("e-1", detail());
    let made = accepted(&api, &request).await;
    let days = |n: u64| Duration::from_hours(24 * n);
    api.clock.advance(days(15));
    assert_eq!(accepted(&api, &request).await.id, made.id);
    assert_eq!(api.patch("/event-sources/ci", json!({ "source": "other" })).await.0, 200);
    assert_eq!(accepted(&api, &request).await.id, made.id);
    let other = json!({ "id": "other", "account": ACCOUNT, "source": SOURCE, "project": "shop" });
    api.make("/event-sources", other).await;
    assert_eq!(accepted(&api, &request).await.id, made.id, "another source, the same event");
    assert_eq!(api.delete("/event-sources/ci").await.0, 204);
    assert_eq!(api.delete("/event-sources/other").await.0, 204);
    assert_eq!(accepted(&api, &request).await.id, made.id);
    assert_eq!(deployments(&api).await.len(), 1);
    rejected(&api, &event("e-2", detail())).await;
}

#[tokio::test]
async fn the_same_event_id_with_another_body_is_refused_and_the_same_body_is_not() {
    let api = open(&json!({})).await;
    let made = accepted(&api, &event("e-1", detail())).await;
    assert_eq!(accepted(&api, &event("e-1", detail())).await.id, made.id);
    let refused =
        rejected(&api, &event("e-1", with(detail(), &json!({ "plan_only": true })))).await;
    assert!(refused.reason.contains(&made.id.to_string()), "{refused:?}");
    assert_eq!(deployments(&api).await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_deployed_is_refused_with_its_fields_and_recorded_once() {
    let api = open(&json!({})).await;
    let source = api.get("/event-sources/ci").await.1["uuid"].clone();
    let secret = json!({ "source": "inline", "source_code": CODE, "inputs": "hunter2" });
    let code = json!({ "source": "inline", "source_code": "#".repeat(257 * 1024) });
    let cases = [
        (json!({ "env_id": "absent" }), vec!["env_id"]),
        (json!({ "project_id": "absent" }), vec!["project_id"]),
        (json!({ "project_id": "Shop", "env_id": "x" }), vec!["project_id", "env_id"]),
        (json!({ "mode": "hunter2" }), vec!["mode"]),
        (json!({ "module": null }), vec!["module"]),
        (json!({ "module": secret }), vec!["module.inputs"]),
        (json!({ "module": code }), vec!["detail"]),
        (json!({ "environment": "main" }), vec!["environment"]),
        (json!({ "is_dry_run": true }), vec!["is_dry_run"]),
        (json!({ "secret_inputs": { "a": "hunter2" } }), vec!["secret_inputs"]),
        (json!({ "rollback_to_deployment_id": "x" }), vec!["rollback_to_deployment_id"]),
    ];
    for (n, (changes, fields)) in cases.iter().enumerate() {
        let before = api.audit().await;
        let event = event(&format!("e-{n}"), with(detail(), changes));
        let first = rejected(&api, &event).await;
        assert_eq!(paths(&first), *fields, "{first:?}");
        assert_eq!(
            (first.id.as_str(), first.org_id.as_deref()),
            (format!("e-{n}.rejected").as_str(), Some("our-org"))
        );
        assert_eq!((first.account.as_str(), first.source.as_str()), (ACCOUNT, SOURCE));
        assert!(!serde_json::to_string(&first).unwrap().contains("hunter2"), "{first:?}");
        for _ in 0..2 {
            let again = rejected(&api, &event).await;
            assert_eq!(Rejected { at: first.at, ..again }, first);
        }
        let after = api.audit().await;
        let record = format!("deployment.reject event-sources/ci/events/e-{n}");
        assert_eq!(after[..after.len() - before.len()], [record]);
    }
    let newest = &api.get("/audit-records?per_page=1").await.1["items"][0];
    assert_eq!((&newest["by"], &newest["by_right"]), (&source, &json!("deployer")));
    assert!(deployments(&api).await.is_empty());
}

#[tokio::test]
async fn an_event_without_a_known_sender_learns_nothing_and_writes_nothing() {
    let api = open(&json!({ "source": SOURCE, "rule": RULE })).await;
    let pair = |rule: &str, event: Value| json!({ "rule": rule, "event": event });
    let stranger = json!({ "account": "999988887777" });
    let before = everything(&api).await;
    let cases = [
        ("no rule", event("e-1", detail())),
        ("another rule", pair(&RULE.replace("deploys", "others"), event("e-1", detail()))),
        ("another bus", pair(&RULE.replace("canyon", "default"), event("e-1", detail()))),
        ("another account", pair(RULE, with(event("e-1", detail()), &stranger))),
        (
            "another source",
            pair(RULE, with(event("e-1", detail()), &json!({ "source": "com.acme" }))),
        ),
        (
            "their organization",
            pair(RULE, event("e-1", with(detail(), &json!({ "org_id": "their-org" })))),
        ),
    ];
    for (what, event) in cases {
        let known = rejected(&api, &event).await;
        assert!(known.fields.is_empty() && known.reason.contains("no event source"), "{known:?}");
        // The answer is the same for an organization that does not exist, except for the name that was sent.
        let org = known.org_id.clone().unwrap();
        let text = event.to_string().replace(&format!("\"{org}\""), "\"no-such-org\"");
        let unknown = rejected(&api, &serde_json::from_str(&text).unwrap()).await;
        let same = serde_json::to_string(&Rejected { at: known.at, ..unknown }).unwrap();
        assert_eq!(
            same.replace("no-such-org", &org),
            serde_json::to_string(&known).unwrap(),
            "{what}"
        );
    }
    // Faults in the sender's own text are reported, whichever organization it names.
    for org in ["our-org", "no-such-org"] {
        let faulty = with(detail(), &json!({ "org_id": org, "mode": "x" }));
        assert_eq!(paths(&rejected(&api, &event("e-2", faulty)).await), ["mode"], "{org}");
    }
    assert_eq!(everything(&api).await, before);
    accepted(&api, &pair(RULE, event("e-1", detail()))).await;
}

#[tokio::test]
async fn a_source_for_one_group_deploys_to_no_other_project() {
    let api = furnished().await;
    api.make("/projects", json!({ "id": "payments/eu" })).await;
    let environment = json!({ "id": "main", "env_type_id": "dev" });
    api.make("/projects/payments%2Feu/envs", environment).await;
    let scope = json!({ "id": "ci", "account": ACCOUNT, "project": "payments" });
    api.make("/event-sources", scope).await;
    let to = |project: &str| with(detail(), &json!({ "project_id": project }));
    accepted(&api, &event("e-1", to("payments/eu"))).await;
    for project in ["shop", "payment", "payments-eu"] {
        let refused = rejected(&api, &event(&format!("e-{project}"), to(project))).await;
        assert_eq!(paths(&refused), ["project_id"], "{refused:?}");
        let newest = api.audit().await.remove(0);
        assert_eq!(newest, format!("deployment.reject event-sources/ci/events/e-{project}"));
    }
    // A separate event source opens another project, and removes no right.
    let second =
        json!({ "id": "shop-ci", "account": ACCOUNT, "source": SOURCE, "project": "shop" });
    let second = api.make("/event-sources", second).await;
    let made = accepted(&api, &event("e-2", to("shop"))).await;
    assert_eq!(json!(made.created_by), second["uuid"]);
    accepted(&api, &event("e-3", to("payments/eu"))).await;
}

#[tokio::test]
async fn a_change_of_the_source_counts_for_the_next_event() {
    let api = open(&json!({})).await;
    accepted(&api, &event("e-1", detail())).await;
    api.patch("/event-sources/ci", json!({ "account": "999988887777" })).await;
    rejected(&api, &event("e-2", detail())).await;
    api.patch("/event-sources/ci", json!({ "account": ACCOUNT })).await;
    accepted(&api, &event("e-3", detail())).await;
    api.delete("/event-sources/ci").await;
    rejected(&api, &event("e-4", detail())).await;
}

#[tokio::test]
async fn what_is_no_event_of_this_kind_is_refused_and_not_taken_for_a_failure() {
    let api = open(&json!({})).await;
    let before = everything(&api).await;
    let whole = event("e-1", detail());
    let cases = [
        (json!(null), vec!["id", "account", "source", "detail-type", "detail"]),
        (json!("x"), vec!["id", "account", "source", "detail-type", "detail"]),
        (
            json!({ "rule": RULE, "event": 1 }),
            vec!["id", "account", "source", "detail-type", "detail"],
        ),
        (with(whole.clone(), &json!({ "id": "x".repeat(65) })), vec!["id"]),
        (with(whole.clone(), &json!({ "id": "a\u{1b}[31m" })), vec!["id"]),
        (with(whole.clone(), &json!({ "account": "\u{661}23456789012" })), vec!["account"]),
        (with(whole.clone(), &json!({ "detail-type": "deployment.queued" })), vec!["detail-type"]),
        (with(whole.clone(), &json!({ "detail": "{}" })), vec!["detail"]),
        (with(whole.clone(), &json!({ "detail": {} })), vec!["org_id", "mode"]),
        (event("e-1", with(detail(), &json!({ "org_id": "Our Org" }))), vec!["org_id"]),
        (event("e-1", with(detail(), &json!({ "org_id": null }))), vec!["org_id"]),
    ];
    for (event, fields) in cases {
        let refused = rejected(&api, &event).await;
        assert_eq!((paths(&refused), &refused.org_id), (fields, &None), "{event}");
        assert!(!refused.event_id.contains('\u{1b}'), "{refused:?}");
    }
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_failure_of_canyon_is_no_refusal() {
    let mut api = open(&json!({})).await;
    let request = event("e-1", detail());
    let table = api.app.table.clone();
    api.app.table = Table::new(table.client().clone(), "absent");
    assert!(api.app.deploy_requested(&request).await.unwrap_err().is_transient());
    api.app.table = table.clone();
    // A failure after the sender is known is not recorded either: the environment cannot be read.
    let items = table.client().scan().table_name(table.name()).send().await.unwrap().items.unwrap();
    let is_main = |sk: &String| sk == "shop#main";
    let main = items.into_iter().find(|item| item["sk"].as_s().is_ok_and(is_main)).unwrap();
    let mut broken = main.clone();
    broken.remove("uuid").unwrap();
    let before = api.audit().await;
    let put = |item| table.client().put_item().table_name(table.name()).set_item(Some(item)).send();
    put(broken).await.unwrap();
    assert!(api.app.deploy_requested(&request).await.unwrap_err().is_transient());
    assert_eq!(api.audit().await, before);
    put(main).await.unwrap();
    accepted(&api, &request).await;
}
