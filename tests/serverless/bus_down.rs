//! A bus that accepts no events.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::published_events::{history, until_published};
use crate::harness::site::{ENV, Site};
use canyon_cloud::front::{Fault, FaultRule};
use std::time::Duration;

const MODULE: &str = r#"resource "terraform_data" "a" {}"#;
/// The stream retries a record for a while. Then the sweep publishes, a minute after the end or at its
/// next run; the tests do not shorten these times.
const PUBLISH_LIMIT: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_is_down_delays_no_launch_and_gets_the_end_once_it_is_back() {
    let site = Site::new().await;
    let cloud = site.server.cloud().clone();
    cloud.front.set_faults(vec![FaultRule::new("events:PutEvents", Fault::Throttle, 1.0)]);
    let ended = site.run(&request(ENV, Some(inline(MODULE)))).await;
    assert_succeeded(&ended);
    assert!(cloud.bus.published("deployment.queued").is_empty(), "it took nothing");
    cloud.front.clear_faults();
    let wanted = [(ended.id.to_string(), history(&["queued", "running", "succeeded"]))];
    until_published(&cloud, &wanted.into(), PUBLISH_LIMIT).await;
}
