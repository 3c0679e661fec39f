use super::*;
use canyon_api::agent::{TailAnswer, TailBytes};
use canyon_domain::deadline::Observation;
use uuid::Uuid;

fn report(number: u128, tail: usize) -> JobReport {
    let job = JobKey {
        runner: canyon_domain::ids::RunnerUuid(Uuid::from_u128(1)),
        deployment: canyon_domain::ids::DeploymentId(Uuid::from_u128(number)),
        attempt: 1,
    };
    let tail = (tail > 0).then(|| TailAnswer { id: 7, bytes: TailBytes::Bytes("x".repeat(tail)) });
    JobReport { observation: Some(Observation::Gone(None)), tail, ..JobReport::new(job) }
}

/// What arrives through something that takes no request of more than `most` bytes, and answers as Canyon never does.
fn deliver_through(most: usize, reports: Vec<JobReport>, tries: u32) -> (Vec<JobReport>, usize) {
    let mut pending: BTreeMap<_, _> = BTreeMap::new();
    for report in reports {
        merge(&mut pending, report);
    }
    let (mut order, mut arrived) = (Order::default(), Vec::new());
    for _ in 0..tries {
        let batch = order.batch_of(&pending);
        if serde_json::to_vec(&batch).unwrap().len() > most {
            order.failed(&batch);
            continue;
        }
        order.passed();
        for report in batch {
            settle(&mut pending, &report);
            arrived.push(report);
        }
    }
    (arrived, pending.len())
}

#[test]
fn a_report_that_is_refused_for_its_size_holds_up_no_other_and_says_its_end_without_its_output() {
    let large = || vec![report(1, 64_000), report(2, 0), report(3, 64_000), report(4, 100)];
    let (arrived, left) = deliver_through(8_000, large(), 20);
    let mut ended: Vec<_> = arrived.iter().filter(|it| it.observation.is_some()).collect();
    ended.sort_unstable_by_key(|report| report.job);
    assert_eq!(ended.len(), 4, "each end arrives, and once: {ended:?}");
    assert_eq!(left, 2, "only two pieces of output are left");
    let tails = arrived.iter().filter(|it| it.tail.is_some()).count();
    assert_eq!(tails, 1, "the short one arrives");
    // All of it, once it fits.
    let (arrived, left) = deliver_through(100_000, large(), 20);
    assert_eq!(left, 0);
    assert_eq!(arrived.iter().filter(|it| it.tail.is_some()).count(), 3);
}
