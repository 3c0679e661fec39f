//! The events about deployments that were published on the bus.

use canyon_cloud::cloud::Cloud;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// All events so far, including duplicates.
pub(crate) struct PublishedEvents {
    /// The event types of each deployment, such as `queued` and `running`.
    pub(crate) of: BTreeMap<String, BTreeSet<String>>,
    /// The number of different events.
    pub(crate) events: usize,
    /// The number of all events, including duplicates.
    pub(crate) put: usize,
}

/// Reads the published events.
///
/// # Panics
/// If two different events have one id.
pub(crate) fn published_events(cloud: &Cloud) -> PublishedEvents {
    let mut by_id: BTreeMap<String, Value> = BTreeMap::new();
    let mut of: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut put = 0;
    for published in cloud.bus.archive() {
        let event = published.event;
        let kind = event["detail-type"].as_str().unwrap_or_default();
        let Some(what) = kind.strip_prefix("deployment.") else { continue };
        put += 1;
        let text = |name: &str| event["detail"][name].as_str().unwrap_or_default().to_owned();
        of.entry(text("deployment_id")).or_default().insert(what.to_owned());
        let said = serde_json::json!([kind, event["detail"]]);
        if let Some(before) = by_id.insert(text("id"), said.clone()) {
            assert_eq!(before, said, "two different events have one id");
        }
    }
    PublishedEvents { of, events: by_id.len(), put }
}

/// Waits until all of these were published for each of the deployments.
pub(crate) async fn until_published(
    cloud: &Cloud,
    wanted: &BTreeMap<String, BTreeSet<String>>,
    limit: Duration,
) -> PublishedEvents {
    let deadline = Instant::now() + limit;
    loop {
        let now = published_events(cloud);
        let missing: Vec<_> = wanted
            .iter()
            .filter(|(id, what)| {
                !now.of.get(*id).is_some_and(|published| published.is_superset(what))
            })
            .map(|(id, what)| (id, what, now.of.get(id)))
            .collect();
        if missing.is_empty() {
            return now;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "after {limit:?} {} are not complete: {missing:?}", missing.len());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// A set of event types.
pub(crate) fn history(what: &[&str]) -> BTreeSet<String> {
    what.iter().map(|what| (*what).to_owned()).collect()
}
