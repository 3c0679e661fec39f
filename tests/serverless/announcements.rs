//! A schedule that destroys announces itself on the bus.

use crate::bus::published;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::samples::assert_valid;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

const ANNOUNCED: &str = "schedule.destroy-announced";

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_before_it_destroys_a_schedule_is_announced_once_by_an_event_that_matches_its_schema()
 {
    let site = Site::new().await;
    // Its first announcement would be in the past.
    let due_at = Timestamp::now() + SignedDuration::from_secs(3600 + 10);
    let path = ["projects", PROJECT, "envs", ENV, "schedules"];
    let body = json!({ "id": "end", "kind": "destroy", "at": due_at.to_string() });
    let made = site.client.create(&path, &body).await.unwrap();
    let detail = published(&site, ANNOUNCED, 1, |detail| detail["schedule_id"] == "end").await;
    let place = (&detail["project_id"], &detail["env_id"], &detail["created_by"]);
    assert_eq!(place, (&json!(PROJECT), &json!(ENV), &made["created_by"]));
    let due = (&detail["due_at"], &detail["lead_seconds"]);
    assert_eq!(due, (&made["next_due_at"][0], &json!(3600)));
    let cloud = site.server.cloud();
    let events = cloud.bus.published(ANNOUNCED);
    assert_valid(&events);
    assert!(events.iter().all(|event| event["detail"]["id"] == detail["id"]), "{events:?}");
    assert!(cloud.front.denied().is_empty(), "{:?}", cloud.front.denied());
    // The event precedes the write that moves the schedule on.
    let path = [&path[..], &["end"]].concat();
    let limit = std::time::Instant::now() + crate::bus::SOON;
    while site.client.get(&path).await.unwrap().get("next_announcement_at").is_some() {
        assert!(std::time::Instant::now() < limit, "it stays due\n{}", site.server.log());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
