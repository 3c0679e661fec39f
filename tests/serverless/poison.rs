//! Records of the stream that cannot be parsed: they end in the failure queue, and do not delay others for
//! long.

use crate::harness::fleet::Fleet;
use crate::harness::stand_in::Part;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const ENVIRONMENTS: usize = 30;
const POISONS: usize = 3;
const END: Duration = Duration::from_mins(5);
/// A record is tried six times, with 1, 2, 4, 8 and 16 s in between; the tests' stream waits a tenth of that. A
/// tenth of the other records may wait behind each.
const TRIES: usize = 6;
const HELD_UP: Duration = Duration::from_millis(3_100);
/// The limit of acceptance, launch and run on a busy machine; with unlimited tries it would be a quarter of an
/// hour.
const WORK: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_records_end_in_the_queue_and_do_not_delay_others_for_long() {
    let mut fleet = Fleet::new(ENVIRONMENTS).await;
    let cloud = fleet.site.server.cloud().clone();
    cloud.stream.settled(END).await.unwrap();
    // The sweep must not do the work that the stream leaves undone.
    cloud.bus.run_schedules(false);
    let before = cloud.stream.counts();
    let begun = Instant::now();
    for _ in 0..POISONS {
        cloud.stream.poison();
    }
    fleet.deploy(1, |_| Part::Runs).await;

    let ended = fleet.ended(END).await;
    let took = begun.elapsed();
    fleet.assert_ran_once_in_order(&ended, |_| false);
    let lasted = |one: &canyon_api::deployment::Deployment| {
        let ended = one.completed_at.unwrap();
        Duration::try_from(ended.duration_since(one.created_at)).unwrap()
    };
    let slowest = ended.values().map(lasted).max().unwrap();
    assert!(slowest < HELD_UP + WORK, "one was held up: it took {slowest:?}");

    cloud.stream.settled(END).await.unwrap();
    let failed = cloud.stream.failed();
    let info = |name: &str| -> Vec<_> {
        failed.iter().map(|message| message["DDBStreamBatchInfo"][name].clone()).collect()
    };
    assert_eq!(info("batchSize"), vec![1; POISONS], "nothing else was given up: {failed:#?}");
    for message in &failed {
        assert_eq!(message["requestContext"]["approximateInvokeCount"], TRIES, "{message:#}");
    }
    let numbers = info("startSequenceNumber");
    let numbers: BTreeSet<_> = numbers.iter().map(|number| number.as_str().unwrap()).collect();
    assert_eq!(numbers.len(), POISONS, "each once: {failed:#?}");
    let log = cloud.function("launcher").log();
    for number in &numbers {
        let said = log.lines().filter(|line| line.contains(number)).collect::<Vec<_>>();
        assert!(!said.is_empty(), "the log does not name {number}");
        assert!(said.iter().all(|line| line.contains("cannot be read")), "{said:?}");
    }
    let counts = cloud.stream.counts();
    println!(
        "{} deployments beside {POISONS} poison records: ended after {took:.1?}, the slowest took {slowest:.1?}; \
         {} invocations, {} failures",
        ended.len(),
        counts.invocations - before.invocations,
        counts.failures - before.failures,
    );
}
