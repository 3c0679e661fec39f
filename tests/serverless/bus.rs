//! Deploying through the bus, and the events that Canyon publishes there.

use crate::harness::deployments::{assert_succeeded, counts, request};
use crate::harness::module::{self, THIRTY, inline};
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_cloud::event_bus::BusDisturbance;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::Uuid;

/// The account of the pipeline, which is not that of the installation.
const PIPELINE: &str = "210987654321";
const SOURCE: &str = "com.acme.ci";
/// The limit for steps that take a moment.
pub(crate) const SOON: Duration = Duration::from_mins(5);
/// The sweep publishes an end that the stream did not, a minute after the end.
const PUBLISH_LIMIT: Duration = Duration::from_secs(100);

/// The request of a pipeline.
pub(crate) fn detail(site: &Site) -> Value {
    json!({
        "org_id": site.server.org(), "project_id": PROJECT, "env_id": ENV, "mode": "deploy",
        "module": { "source": "inline", "source_code": THIRTY },
    })
}

/// The event that carries `detail`.
pub(crate) fn event(detail: &Value) -> Value {
    json!({
        "id": Uuid::new_v4().to_string(), "account": PIPELINE, "source": SOURCE,
        "detail-type": "canyon.deployment.requested", "detail": detail,
    })
}

/// Allows the pipeline's account to deploy.
pub(crate) async fn admit(site: &Site) {
    site.make(&["event-sources"], &json!({ "id": "acme-ci", "account": PIPELINE })).await;
}

/// Puts an event on the installation's bus, and returns its id.
pub(crate) fn put(site: &Site, event: &Value) -> String {
    let cloud = site.server.cloud();
    cloud.bus.put(cloud.stack["bus"]["name"].as_str().unwrap(), event.clone())
}

/// Waits until an event of this type, for which `wanted` holds, was published `count` times, and returns its
/// detail.
pub(crate) async fn published(
    site: &Site,
    detail_type: &str,
    count: usize,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let deadline = Instant::now() + PUBLISH_LIMIT;
    loop {
        let mut found = site.server.cloud().bus.published(detail_type);
        found.retain(|event| wanted(&event["detail"]));
        if found.len() >= count {
            assert_eq!(found[0]["source"], "canyon");
            return found.swap_remove(0)["detail"].take();
        }
        let stream = site.server.cloud().stream.counts();
        assert!(Instant::now() < deadline, "no {detail_type}: {stream:?}\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// The functions' events about a deployment so far, each type once.
fn event_kinds(site: &Site, deployment: &str) -> Vec<Value> {
    let mut known = BTreeSet::new();
    let all = site.server.cloud().bus.archive().into_iter();
    let ours = all.filter(|one| {
        one.event["source"] == "canyon" && one.event["detail"]["deployment_id"] == deployment
    });
    ours.map(|one| one.event)
        .filter(|event| known.insert(event["detail"]["id"].to_string()))
        .collect()
}

/// Puts a request that must be accepted; returns the deployment.
pub(crate) async fn accepted(site: &Site, event: &Value) -> String {
    let before = everything(site).await;
    put(site, event);
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(new) = everything(site).await.difference(&before).next() {
            return new.clone();
        }
        assert!(Instant::now() < deadline, "no deployment\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Puts a request that must be rejected; returns the event that reports it.
pub(crate) async fn rejected(site: &Site, event: &Value) -> Value {
    let id = put(site, event);
    published(site, "deployment.rejected", 1, |detail| detail["event_id"] == id).await
}

/// The ids of all deployments.
async fn everything(site: &Site) -> BTreeSet<String> {
    let page = site.client.list(&["deployments"], &[]).await.unwrap();
    page.into_iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that no invocation failed: a rejection is final.
async fn nothing_is_repeated(site: &Site) {
    let cloud = site.server.cloud();
    cloud.bus.settled(SOON).await.unwrap();
    tokio::time::timeout(SOON, cloud.function("events").settled()).await.unwrap();
    let failed = cloud.function("events").reports().into_iter().filter(|one| one.error.is_some());
    assert_eq!(failed.count(), 0, "{}", cloud.function("events").log());
    assert!(cloud.bus.dead_letters().is_empty(), "{:?}", cloud.bus.dead_letters());
    assert!(cloud.front.denied().is_empty(), "{:?}", cloud.front.denied());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_delivered_three_times_is_one_deployment_like_any_other() {
    let site = Site::new().await;
    admit(&site).await;
    let by_api = site.deploy(inline(THIRTY)).await;
    let disturbance =
        BusDisturbance { copies: 3, shuffle: Duration::from_millis(300), ..Default::default() };
    site.server.cloud().bus.disturb(disturbance);
    let mut changed = detail(&site);
    changed["module"]["inputs"] = json!({ "greeting": "ahoy" });
    let id = accepted(&site, &event(&changed)).await;
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    nothing_is_repeated(&site).await;

    assert_eq!(everything(&site).await, BTreeSet::from([id.clone(), by_api.id.to_string()]));
    assert_eq!(counts(&ended), (0, 30, 0), "the state of the first one was changed");
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("ahoy 0").into()));
    let source = site.client.get(&["event-sources", "acme-ci"]).await.unwrap();
    assert_eq!(json!(ended.created_by), source["uuid"], "it was done in the event source's name");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_request_is_reported_once_and_stays_rejected() {
    let site = Site::new().await;
    let other = published_reason(&site, &detail(&site), "no event source").await;
    assert!(other.get("fields").is_none(), "{other}");
    admit(&site).await;
    let with = |name: &str, value: Value| {
        let mut detail = detail(&site);
        detail[name] = value;
        detail
    };
    published_reason(&site, &with("org_id", json!("other-org")), "no event source").await;
    let absent = published_reason(&site, &with("env_id", json!("absent")), "absent").await;
    assert_eq!(absent["fields"][0]["path"], "env_id");
    let unknown = published_reason(&site, &with("colour", json!("red")), "colour").await;
    assert_eq!(unknown["fields"][0]["path"], "colour");
    published_reason(&site, &json!("deploy, please"), "detail").await;
    let digest = format!("sha256:{}", "0".repeat(64));
    published_reason(&site, &with("module", json!({ "source": digest })), "archive").await;

    // The function ignores an event of an unknown type, if it gets one at all.
    let events = site.server.cloud().function("events");
    let answer = events.invoke(json!({ "detail-type": "order.placed" }).to_string()).await.unwrap();
    assert!(answer.starts_with(b"{\"ignored\":"), "{answer:?}");
    assert_eq!(everything(&site).await, BTreeSet::new());
    nothing_is_repeated(&site).await;
    let page = site.client.list(&["audit-records"], &[]).await.unwrap();
    let recorded = page.iter().filter(|one| one["action"] == "deployment.reject");
    assert_eq!(
        recorded.count(),
        3,
        "those of an unknown organization and the unreadable one have no record: {page:#?}"
    );
}

/// Delivers a request twice; both are rejected for this reason, under the same id.
async fn published_reason(site: &Site, detail: &Value, reason: &str) -> Value {
    let cloud = site.server.cloud();
    cloud.bus.disturb(BusDisturbance { copies: 2, ..Default::default() });
    let id = put(site, &event(detail));
    let rejected =
        published(site, "deployment.rejected", 2, |detail| detail["event_id"] == id).await;
    cloud.bus.calm();
    assert_eq!(rejected["id"], format!("{id}.rejected"));
    assert!(rejected["reason"].as_str().unwrap().contains(reason), "{rejected}");
    let log = cloud.function("events").log();
    assert!(log.contains(&id), "it is logged with the event's id");
    rejected
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_is_published_after_the_events_before_it() {
    let site = Site::new().await;
    let good = site.deploy(inline(THIRTY)).await.id.to_string();
    let failed = site.run(&request(ENV, Some(inline("no module")))).await.id.to_string();
    let path = site.server.path("ledger");
    let slow = module::ledger(&path, 1, "300", 1);
    let cancelled = site.accept(&request(ENV, Some(slow))).await;
    site.until(&cancelled, "running", |one| one.status == "running").await;
    site.client.cancel(&cancelled).await.unwrap();
    assert_eq!(site.end(&cancelled).await.status, "cancelled");

    let mut all = Vec::new();
    for (id, end) in [(&good, "succeeded"), (&failed, "failed"), (&cancelled, "cancelled")] {
        let name = format!("deployment.{end}");
        let last = published(&site, &name, 1, |detail| detail["deployment_id"] == *id).await;
        assert_eq!(last["id"], format!("{id}.{end}"));
        assert_eq!(last.get("failure").is_some(), end == "failed", "{last}");
        let mut events = event_kinds(&site, id);
        // Without the Z, which would sort a whole second after its fractions.
        events.sort_by_key(|event| {
            event["detail"]["at"].as_str().unwrap().trim_end_matches('Z').to_owned()
        });
        let kinds: Vec<_> =
            events.iter().map(|event| event["detail-type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["deployment.queued", "deployment.running", name.as_str()]);
        all.extend(events);
    }
    all.push(json!({ "detail-type": "deployment.rejected",
        "detail": rejected(&site, &event(&detail(&site))).await }));
    crate::samples::assert_valid(&all);
}
