//! The behaviour that the launcher relies on, for every kind of compute.
//!
//! A kind provides a [`Platform`], which turns an [`Act`] into a job that behaves accordingly.

use canyon_dispatch::{Dispatcher, JobRef, Launch, RemovalOutcome, Started, StopMode, TailStream};
use canyon_domain::{deadline::Observation, ids::DeploymentId};
use secrecy::SecretString;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// The minimum time that a living job which is to be forgotten keeps running. Its agent has
/// received the request long before, and waits three times as long. That nothing happens can only
/// be observed over time.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// More than a busy cluster needs to end a pod: on processors that other tests share, that took a minute.
const LIMIT: Duration = Duration::from_mins(3);

/// What a job does.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Runs until it is asked to stop. Notes each start and each request.
    UntilAsked,
    /// Runs until it is killed. Notes each request.
    Stubborn,
    /// Writes the line `012345678` to both streams and ends.
    Writes,
}

impl Act {
    /// The act's name in `act.c`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::UntilAsked => "until-asked",
            Self::Stubborn => "stubborn",
            Self::Writes => "writes",
        }
    }
}

/// A kind under test.
pub(crate) trait Platform: Sync {
    type Kind: Dispatcher + ?Sized + 'static;
    /// Whether a start reports that it was the first. A start by an agent cannot.
    const TELLS_FIRST: bool = true;
    /// What remains of a living job that is to be forgotten. An agent retries by itself.
    const OF_LIVING: RemovalOutcome = RemovalOutcome::JobAlive;
    fn dispatcher(&self) -> Arc<Self::Kind>;
    fn launch(&self, job: JobRef, act: Act) -> Launch;
    /// How often the job noted `what`: `started` or `asked`.
    fn noted(&self, job: &JobRef, what: &str) -> usize;
    /// Whether the job lives according to the platform itself, independent of the kind. `None` if
    /// the kind asks the platform directly.
    fn lives(&self, _: &JobRef) -> Option<bool> {
        None
    }
}

/// Makes a test of each rule, on its own platform; or of the named rules, if a kind has its own
/// tests of the rest.
macro_rules! behaves {
    ($platform:expr) => {
        $crate::behaviour::behaves! { $platform;
            a_job_that_was_never_started_is_gone_and_may_be_stopped,
            a_second_start_finds_the_first_dead_or_alive,
            of_many_starts_at_once_one_runs,
            a_job_is_asked_once_and_lives_until_it_ends,
            what_a_dead_job_wrote_is_there_until_it_is_forgotten,
            a_living_job_is_not_forgotten,
        }
    };
    ($platform:expr; $($rule:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $rule() {
            $crate::behaviour::$rule(&$platform).await;
        })*
    };
}
pub(crate) use behaves;

pub(crate) fn new_job() -> JobRef {
    JobRef { deployment: DeploymentId(Uuid::now_v7()), attempt: 1, handle: None }
}

pub(crate) fn launch(job: JobRef, environment: BTreeMap<String, SecretString>) -> Launch {
    let (project, env) = ("shop/eu".parse().unwrap(), "staging".parse().unwrap());
    Launch { job, environment, project, env, launched_at: jiff::Timestamp::now(), container: None }
}

/// Waits until `holds` is true; how long that takes is not tested.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited without success until {what}");
}

pub(crate) async fn until_gone(kind: &(impl Dispatcher + ?Sized), job: &JobRef) {
    until("the job is gone", async || matches!(kind.observe(job).await, Observation::Gone(_)))
        .await;
}

/// Waits until the job is gone according to the kind, and checks that with the platform.
pub(crate) async fn until_dead<P: Platform>(platform: &P, kind: &P::Kind, job: &JobRef) {
    until_gone(kind, job).await;
    assert_ne!(platform.lives(job), Some(true), "a job that is reported as gone lives");
}

/// Starts a job, and waits until it runs and is observed.
pub(crate) async fn running<P: Platform>(platform: &P, act: Act) -> JobRef {
    let job = new_job();
    let started = platform.dispatcher().start(&platform.launch(job.clone(), act)).await.unwrap();
    assert_eq!(matches!(started, Started::Now(_)), P::TELLS_FIRST, "{started:?}");
    until("the job runs", async || platform.noted(&job, "started") == 1).await;
    // A platform may report the job later than the job itself does.
    let kind = platform.dispatcher();
    if !matches!(act, Act::Writes) {
        until("the job is seen", async || kind.observe(&job).await == Observation::Alive).await;
        assert_ne!(
            platform.lives(&job),
            Some(false),
            "a job that is observed alive does not exist"
        );
    }
    job
}

pub(crate) async fn a_job_that_was_never_started_is_gone_and_may_be_stopped(
    platform: &impl Platform,
) {
    let (kind, job) = (platform.dispatcher(), new_job());
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    for how in [StopMode::Graceful, StopMode::Kill] {
        kind.stop(&job, how).await.unwrap();
    }
    assert_eq!(kind.tail(&job, TailStream::Log, 0).await.unwrap(), b"");
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
}

pub(crate) async fn a_second_start_finds_the_first_dead_or_alive(platform: &impl Platform) {
    let kind = platform.dispatcher();
    let job = running(platform, Act::UntilAsked).await;
    let again = platform.launch(job.clone(), Act::UntilAsked);
    assert!(matches!(kind.start(&again).await.unwrap(), Started::Already(_)));
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_dead(platform, &*kind, &job).await;
    assert!(matches!(kind.start(&again).await.unwrap(), Started::Already(_)));
    until_dead(platform, &*kind, &job).await;
    assert_eq!(platform.noted(&job, "started"), 1);
}

pub(crate) async fn of_many_starts_at_once_one_runs<P: Platform>(platform: &P) {
    let (kind, job) = (platform.dispatcher(), new_job());
    let launch = platform.launch(job.clone(), Act::UntilAsked);
    let starts: Vec<_> = (0..20)
        .map(|_| {
            let (kind, launch) = (kind.clone(), launch.clone());
            tokio::spawn(async move { kind.start(&launch).await.unwrap() })
        })
        .collect();
    let mut now = 0;
    for start in starts {
        now += usize::from(matches!(start.await.unwrap(), Started::Now(_)));
    }
    assert_eq!(now, usize::from(P::TELLS_FIRST));
    until("the job runs", async || platform.noted(&job, "started") > 0).await;
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_dead(platform, &*kind, &job).await;
    assert_eq!(platform.noted(&job, "started"), 1);
}

pub(crate) async fn a_job_is_asked_once_and_lives_until_it_ends(platform: &impl Platform) {
    let kind = platform.dispatcher();
    let job = running(platform, Act::Stubborn).await;
    for _ in 0..5 {
        assert_eq!(kind.observe(&job).await, Observation::Alive);
        kind.stop(&job, StopMode::Graceful).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    until("the job was asked", async || platform.noted(&job, "asked") > 0).await;
    assert_eq!(platform.noted(&job, "asked"), 1);
    assert_eq!(kind.observe(&job).await, Observation::Alive);
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_dead(platform, &*kind, &job).await;

    let job = running(platform, Act::UntilAsked).await;
    kind.stop(&job, StopMode::Graceful).await.unwrap();
    until_dead(platform, &*kind, &job).await;
    assert_eq!(platform.noted(&job, "asked"), 1);
}

pub(crate) async fn what_a_dead_job_wrote_is_there_until_it_is_forgotten(platform: &impl Platform) {
    let kind = platform.dispatcher();
    let job = running(platform, Act::Writes).await;
    until_dead(platform, &*kind, &job).await;
    for stream in [TailStream::Log, TailStream::Events] {
        for (offset, rest) in [(0, "012345678\n"), (7, "78\n"), (10, ""), (99, "")] {
            assert_eq!(kind.tail(&job, stream, offset).await.unwrap(), rest.as_bytes());
        }
    }
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
    assert_eq!(kind.tail(&job, TailStream::Log, 0).await.unwrap(), b"");
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
}

pub(crate) async fn a_living_job_is_not_forgotten<P: Platform>(platform: &P) {
    let kind = platform.dispatcher();
    let job = running(platform, Act::UntilAsked).await;
    assert_eq!(kind.forget(&job).await, P::OF_LIVING);
    assert_eq!(kind.observe(&job).await, Observation::Alive);
    match P::OF_LIVING {
        RemovalOutcome::Removed => it_may_end_and_is_asked_to_then(platform, &job).await,
        RemovalOutcome::JobAlive => {
            kind.stop(&job, StopMode::Kill).await.unwrap();
            until_dead(platform, &*kind, &job).await;
        }
    }
}

/// Only its agent retries the removal: it gives the job time to end by itself, and then asks it to
/// stop.
async fn it_may_end_and_is_asked_to_then<P: Platform>(platform: &P, job: &JobRef) {
    let kind = platform.dispatcher();
    tokio::time::sleep(QUIET_PERIOD).await;
    assert_eq!(kind.observe(job).await, Observation::Alive);
    assert_ne!(platform.lives(job), Some(false), "it was killed");
    assert_eq!(platform.noted(job, "asked"), 0);
    until_dead(platform, &*kind, job).await;
    assert_eq!(platform.noted(job, "asked"), 1);
}
