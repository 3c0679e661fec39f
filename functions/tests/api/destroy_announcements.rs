//! Schedules that destroy announce themselves: when, how often, and what happens if the event bus rejects the event.

use crate::container_world::succeeds;
use crate::harness::Api;
use crate::job::{furnished, order, stored};
use canyon_domain::schedule::announcement::DestroyAnnounced;
use canyon_functions::app::announcements::PublishAnnouncement;
use canyon_store::error::BoxError;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATH: &str = "/projects/shop/envs/main/schedules";
const HOUR: Duration = Duration::from_hours(1);

/// A bus that keeps what is published.
#[derive(Default)]
struct Bus {
    published: Mutex<Vec<DestroyAnnounced>>,
    is_down: AtomicBool,
}

impl PublishAnnouncement for Bus {
    async fn publish(&self, event: &DestroyAnnounced) -> Result<(), BoxError> {
        self.published.lock().unwrap().push(event.clone());
        if self.is_down.load(Ordering::Relaxed) { Err("the bus is down".into()) } else { Ok(()) }
    }
}

impl Bus {
    /// A pass. Returns how much it has dealt with, and the leads of what was published since the last call.
    async fn pass(&self, api: &Api) -> (usize, Vec<u32>) {
        let count = api.app.run_due_schedules(self).await.unwrap();
        (count, self.take().iter().map(|event| event.lead_seconds).collect())
    }

    fn take(&self) -> Vec<DestroyAnnounced> {
        std::mem::take(&mut self.published.lock().unwrap())
    }
}

async fn with_destruction(at: &str) -> Api {
    let api = furnished().await;
    succeeds(&api, order()).await;
    api.make(PATH, json!({ "id": "end", "kind": "destroy", "at": at })).await;
    api
}

async fn schedule(api: &Api) -> Value {
    api.get(&format!("{PATH}/end")).await.1
}

#[tokio::test]
async fn a_destruction_is_announced_a_day_and_an_hour_before_each_once_and_then_requested() {
    let api = with_destruction("2026-01-17T12:00:00Z").await;
    let bus = Bus::default();
    assert_eq!(schedule(&api).await["next_announcement_at"], "2026-01-16T12:00:00Z");
    assert_eq!(bus.pass(&api).await, (0, vec![]));
    api.clock.advance(24 * HOUR);
    assert_eq!(api.app.run_due_schedules(&bus).await.unwrap(), 1);
    let event = bus.take().remove(0);
    let found = schedule(&api).await;
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        json!({
            "schema_version": 1, "id": event.id, "at": event.at.to_string(), "org_id": api.ours.id, "project_id": "shop",
            "env_id": "main", "schedule_id": "end", "due_at": "2026-01-17T12:00:00Z", "lead_seconds": 86_400,
            "created_by": found["created_by"],
        })
    );
    assert_eq!(found["next_announcement_at"], "2026-01-17T11:00:00Z");
    assert_eq!(found["next_due_at"], json!(["2026-01-17T12:00:00Z"]));
    assert_eq!(bus.pass(&api).await, (0, vec![]));
    api.clock.advance(23 * HOUR);
    assert_eq!(bus.pass(&api).await, (1, vec![3_600]));
    assert_eq!(bus.pass(&api).await, (0, vec![]));
    let found = schedule(&api).await;
    assert_eq!((found.get("next_announcement_at"), &found["history"]), (None, &json!([])));
    api.clock.advance(HOUR);
    assert_eq!(bus.pass(&api).await, (1, vec![]));
    let id = schedule(&api).await["last"]["deployment_id"].as_str().unwrap().to_owned();
    assert_eq!(stored(&api, &id).await.mode.as_str(), "destroy");
}

#[tokio::test]
async fn two_passes_at_once_publish_the_same_event_and_one_moves_the_schedule_on() {
    let api = with_destruction("2026-01-16T12:00:30Z").await;
    let bus = Bus::default();
    api.clock.advance(Duration::from_mins(1));
    let (one, other) =
        tokio::join!(api.app.run_due_schedules(&bus), api.app.run_due_schedules(&bus));
    assert_eq!(one.unwrap() + other.unwrap(), 1);
    let ids: Vec<_> = bus.take().into_iter().map(|event| event.id).collect();
    assert!(!ids.is_empty() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(bus.pass(&api).await, (0, vec![]));
}

#[tokio::test]
async fn a_bus_that_is_down_delays_an_announcement_for_ten_minutes_and_never_the_due_time() {
    let api = with_destruction("2026-01-15T14:00:00Z").await;
    let bus = Bus::default();
    bus.is_down.store(true, Ordering::Relaxed);
    api.clock.advance(HOUR);
    assert_eq!(bus.pass(&api).await, (0, vec![3_600]));
    assert_eq!(bus.pass(&api).await, (0, vec![3_600]), "it stays due");
    api.clock.advance(Duration::from_mins(11));
    assert_eq!(bus.pass(&api).await, (1, vec![3_600]), "the last try");
    assert_eq!(bus.pass(&api).await, (0, vec![]));
    api.clock.advance(Duration::from_mins(50));
    assert_eq!(bus.pass(&api).await, (1, vec![]));
    assert!(schedule(&api).await["last"]["deployment_id"].is_string());
}

#[tokio::test]
async fn an_update_or_a_deletion_ends_what_was_to_be_announced() {
    let api = with_destruction("2026-01-17T12:00:00Z").await;
    let bus = Bus::default();
    let path = format!("{PATH}/end");
    let off = json!({ "kind": "destroy", "at": "2026-01-17T12:00:00Z", "enabled": false });
    let put = async |body: &Value| {
        let put = api.call_as(&api.ours.admin, reqwest::Method::PUT, &path, Some(body)).await;
        assert_eq!(put.0, 200, "{put:?}");
    };
    put(&off).await;
    api.clock.advance(25 * HOUR);
    assert_eq!(bus.pass(&api).await, (0, vec![]));
    put(&json!({ "kind": "destroy", "at": "2026-01-17T14:00:00Z" })).await;
    assert_eq!(schedule(&api).await["next_announcement_at"], "2026-01-16T14:00:00Z");
    assert_eq!(api.delete(&path).await.0, 204);
    api.clock.advance(2 * HOUR);
    assert_eq!(bus.pass(&api).await, (0, vec![]));
}
