//! The stream is switched off: the sweep alone brings every deployment to its end, and publishes it.

use crate::harness::fleet::Fleet;
use crate::harness::published_events::{history, until_published};
use crate::harness::stand_in::Part;
use canyon_cloud::streams::Disturbance;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ENVIRONMENTS: usize = 40;
const EACH: u32 = 5;
/// For 200 runs on two cores, on a machine that may be busy with other tests.
const END: Duration = Duration::from_mins(5);
/// The sweep publishes an end a minute after it, at the earliest.
const PUBLISH_LIMIT: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread")]
async fn without_the_stream_two_hundred_deployments_end_by_the_sweep_alone() {
    let mut fleet = Fleet::new(ENVIRONMENTS).await;
    let cloud = fleet.site.server.cloud().clone();
    cloud.stream.disturb(Disturbance { off: true, ..Disturbance::default() });
    // On AWS one sweep ends before the next begins. Here a minute is shorter, and a sweep takes as long as on AWS.
    cloud.function("sweep").limit_concurrency(1);
    let before = cloud.function("launcher").reports().len();
    let begun = Instant::now();
    for number in 1..=EACH {
        fleet.deploy(number, |_| Part::Runs).await;
    }
    let accepted = begun.elapsed();

    let ended = fleet.ended(END).await;
    let took = begun.elapsed();
    fleet.assert_ran_once_in_order(&ended, |_| false);

    let whole = history(&["queued", "running", "succeeded"]);
    let wanted: BTreeMap<_, _> = ended.into_keys().map(|id| (id, whole.clone())).collect();
    let published = until_published(&cloud, &wanted, PUBLISH_LIMIT).await;
    assert_eq!(published.of, wanted, "and nothing else");
    assert_eq!(published.events, 3 * wanted.len(), "one attempt was enough for each");

    let counts = cloud.stream.counts();
    assert_eq!((counts.invocations, counts.dropped), (0, counts.passed), "{counts:?}");
    assert_eq!(cloud.function("launcher").reports().len(), before, "the launcher was not called");
    let sweeps = cloud.function("sweep").reports();
    let longest = sweeps.iter().map(|report| report.duration).max();
    println!(
        "{} deployments: accepted after {accepted:.1?}, ended after {took:.1?}, published after {:.1?}; {} sweeps, \
         the longest {longest:.1?}; {} events put for {}; {} records lost",
        wanted.len(),
        begun.elapsed(),
        sweeps.len(),
        published.put,
        published.events,
        counts.dropped,
    );
}
