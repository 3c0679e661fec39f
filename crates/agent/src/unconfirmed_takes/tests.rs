use super::*;
use canyon_api::agent::RefusedJob;
use canyon_domain::ids::{DeploymentId, RunnerUuid};
use uuid::Uuid;

/// So many jobs whose take is unconfirmed.
fn takes_of(jobs: u32) -> UnconfirmedTakes {
    let (runner, deployment) = (RunnerUuid(Uuid::nil()), DeploymentId(Uuid::nil()));
    let jobs = (1..=jobs).map(|attempt| JobKey { runner, deployment, attempt });
    UnconfirmedTakes { jobs: jobs.collect(), ..UnconfirmedTakes::default() }
}

/// An answer that refuses these jobs.
fn refusal_of(jobs: &[JobKey]) -> TakenJobs {
    let refused = |job: &JobKey| RefusedJob { job: *job, reason: "withdrawn".to_owned() };
    TakenJobs { taken: Vec::new(), refused: jobs.iter().map(refused).collect() }
}

/// Sends one request at its time. Canyon has an answer for some sets of jobs only. Returns how many jobs it was for.
fn ask(takes: &mut UnconfirmedTakes, has_answer: impl Fn(&[JobKey]) -> bool) -> usize {
    takes.retry_at = takes.retry_at.map(|_| Instant::now());
    let asked = takes.due().to_vec();
    if has_answer(&asked) {
        takes.settle(&asked, &refusal_of(&asked));
    } else {
        takes.failed(asked.len(), None);
    }
    asked.len()
}

#[test]
fn jobs_that_an_answer_does_not_name_are_asked_for_again() {
    let mut takes = takes_of(3);
    let jobs = takes.jobs.clone();
    takes.settle(&jobs, &refusal_of(&jobs[1..2]));
    assert_eq!(takes.jobs, [jobs[0], jobs[2]]);
    assert!(takes.retry_at.is_some() && takes.due().is_empty(), "only after a pause");
    takes.settle(&[jobs[0], jobs[2]], &refusal_of(&[jobs[0], jobs[2]]));
    assert!(takes.jobs.is_empty() && takes.retry_at.is_none());
}

#[test]
fn a_take_is_retried_within_the_lifetime_of_an_offer_whatever_pause_is_asked_for() {
    for (asked, pause) in [(2, 2), (29, 29), (31, 30), (300, 30)] {
        let [asked, pause] = [asked, pause].map(Duration::from_secs);
        let (mut takes, before) = (takes_of(1), Instant::now());
        takes.failed(1, Some(asked));
        let (retry_at, after) = (takes.retry_at.unwrap(), Instant::now());
        assert!(retry_at >= before + pause && retry_at <= after + pause, "{asked:?}");
    }
}

#[test]
fn jobs_whose_answer_together_is_too_long_are_asked_for_in_parts() {
    let mut takes = takes_of(100);
    let asked: Vec<_> = (0..8).map(|_| ask(&mut takes, |jobs| jobs.len() <= 25)).collect();
    assert_eq!(asked, [100, 50, 25, 50, 25, 50, 25, 25]);
    assert!(takes.jobs.is_empty());
}

#[test]
fn a_job_that_never_has_an_answer_does_not_block_others() {
    for position in 0..10 {
        let mut takes = takes_of(10);
        let never = takes.jobs[position];
        for _ in 0..20 {
            ask(&mut takes, |jobs| !jobs.contains(&never));
        }
        assert_eq!(takes.jobs, [never]);
    }
}

#[test]
fn jobs_that_were_left_out_of_a_retry_are_due_at_once_and_still_unconfirmed() {
    let mut takes = takes_of(4);
    ask(&mut takes, |_| false);
    ask(&mut takes, |_| true);
    assert_eq!(takes.due().len(), 2);
    // The first request was for them too, so this agent may hold them.
    assert!(takes.retry_at.is_some());
}
