//! What the bus was told of deployments.

use canyon_cloud::cloud::Cloud;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Everything that was told, however often, until now.
pub(crate) struct Told {
    /// What each deployment came to, such as `queued` and `running`.
    pub(crate) of: BTreeMap<String, BTreeSet<String>>,
    /// Different events.
    pub(crate) events: usize,
    /// All that was put, with repetitions.
    pub(crate) put: usize,
}

/// Reads what was told.
///
/// # Panics
/// If two different events have one id.
pub(crate) fn told(cloud: &Cloud) -> Told {
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
    Told { of, events: by_id.len(), put }
}

/// Waits until all these were told of each of the deployments.
pub(crate) async fn until_told(
    cloud: &Cloud,
    wanted: &BTreeMap<String, BTreeSet<String>>,
    limit: Duration,
) -> Told {
    let deadline = Instant::now() + limit;
    loop {
        let now = told(cloud);
        let untold: Vec<_> = wanted
            .iter()
            .filter(|(id, what)| !now.of.get(*id).is_some_and(|told| told.is_superset(what)))
            .map(|(id, what)| (id, what, now.of.get(id)))
            .collect();
        if untold.is_empty() {
            return now;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "after {limit:?} {} are not told: {untold:?}", untold.len());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// A history.
pub(crate) fn history(what: &[&str]) -> BTreeSet<String> {
    what.iter().map(|what| (*what).to_owned()).collect()
}
