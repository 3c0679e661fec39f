use super::*;
use canyon_api::agent::RefusedJob;
use canyon_domain::ids::{DeploymentId, RunnerUuid};
use uuid::Uuid;

/// So many jobs in doubt.
fn doubts(jobs: u32) -> InDoubt {
    let (runner, deployment) = (RunnerUuid(Uuid::nil()), DeploymentId(Uuid::nil()));
    let jobs = (1..=jobs).map(|attempt| JobKey { runner, deployment, attempt });
    InDoubt { jobs: jobs.collect(), ..InDoubt::default() }
}

/// An answer that tells of these.
fn told(jobs: &[JobKey]) -> TakenJobs {
    let refused = |job: &JobKey| RefusedJob { job: *job, reason: "withdrawn".to_owned() };
    TakenJobs { taken: Vec::new(), refused: jobs.iter().map(refused).collect() }
}

/// Asks once, when it is time to, a Canyon that has an answer for some sets of jobs only. Returns for how many.
fn ask(in_doubt: &mut InDoubt, has_answer: impl Fn(&[JobKey]) -> bool) -> usize {
    in_doubt.again_at = in_doubt.again_at.map(|_| Instant::now());
    let asked = in_doubt.due().to_vec();
    if has_answer(&asked) {
        in_doubt.settle(&asked, &told(&asked));
    } else {
        in_doubt.failed(asked.len(), None);
    }
    asked.len()
}

#[test]
fn those_that_an_answer_does_not_tell_of_are_asked_for_again() {
    let mut in_doubt = doubts(3);
    let jobs = in_doubt.jobs.clone();
    in_doubt.settle(&jobs, &told(&jobs[1..2]));
    assert_eq!(in_doubt.jobs, [jobs[0], jobs[2]]);
    assert!(in_doubt.again_at.is_some() && in_doubt.due().is_empty(), "a moment later");
    in_doubt.settle(&[jobs[0], jobs[2]], &told(&[jobs[0], jobs[2]]));
    assert!(in_doubt.jobs.is_empty() && in_doubt.again_at.is_none());
}

#[test]
fn nobody_can_put_a_take_off_for_longer_than_an_offer_stands() {
    for (asked, pause) in [(2, 2), (29, 29), (31, 30), (300, 30)] {
        let [asked, pause] = [asked, pause].map(Duration::from_secs);
        let (mut in_doubt, before) = (doubts(1), Instant::now());
        in_doubt.failed(1, Some(asked));
        let (again_at, after) = (in_doubt.again_at.unwrap(), Instant::now());
        assert!(again_at >= before + pause && again_at <= after + pause, "{asked:?}");
    }
}

#[test]
fn jobs_whose_answer_together_is_too_long_are_asked_for_in_parts() {
    let mut in_doubt = doubts(100);
    let asked: Vec<_> = (0..8).map(|_| ask(&mut in_doubt, |jobs| jobs.len() <= 25)).collect();
    assert_eq!(asked, [100, 50, 25, 50, 25, 50, 25, 25]);
    assert!(in_doubt.jobs.is_empty());
}

#[test]
fn a_job_that_never_has_an_answer_holds_up_no_other() {
    for place in 0..10 {
        let mut in_doubt = doubts(10);
        let never = in_doubt.jobs[place];
        for _ in 0..20 {
            ask(&mut in_doubt, |jobs| !jobs.contains(&never));
        }
        assert_eq!(in_doubt.jobs, [never]);
    }
}

#[test]
fn those_that_were_not_asked_for_yet_are_due_at_once_and_in_doubt_still() {
    let mut in_doubt = doubts(4);
    ask(&mut in_doubt, |_| false);
    ask(&mut in_doubt, |_| true);
    assert_eq!(in_doubt.due().len(), 2);
    // They may be this agent's since the first time.
    assert!(in_doubt.again_at.is_some());
}
