//! A slow platform of one organization does not delay other organizations, nor its own for longer
//! than the limits.
//!
//! Time is paused: it passes only while all tasks wait for a platform, and never while the machine
//! works, however slowly.

use crate::world::World;
use async_trait::async_trait;
use canyon_domain::deployment::Status;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::ports::Clock as _;
use canyon_launcher::publish::Publish;
use canyon_launcher::{LaunchError, RECONCILE_TIMEOUT, ReconcileTrigger, Sweeper};
use canyon_store::error::BoxError;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Longer than every limit of a call.
const LONG: Duration = Duration::from_secs(71);
/// Shorter than every limit of a call.
const SHORT: Duration = Duration::from_secs(5);

/// Waits until `is_so` is true, before any limit of a call passes.
async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < SHORT, "not in time: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_organization_whose_platform_never_answers_delays_no_other() {
    let world = World::new().await;
    let (hostile, silence) = world.organization("hostile").await;
    let (honest, answers) = world.organization("honest").await;
    silence.silent_at(&["start"]);
    *answers.refuses.lock().unwrap() = true;
    for _ in 0..200 {
        world.accept(hostile).await;
    }
    let sweeper = Sweeper::new(world.launcher.clone());
    let mut tasks = JoinSet::new();
    sweeper.pass(&mut tasks).await.unwrap();
    soon("half of the slots are taken", async || *silence.open.lock().unwrap() == 32).await;

    let other = world.accept(honest).await;
    let has_failed = async || {
        sweeper.pass(&mut tasks).await.unwrap();
        world.read(other).await.status == Status::Failed
    };
    soon("another organization's deployment has its turn", has_failed).await;
    // None of the calls was answered or cancelled for that, and no further one has got a slot.
    assert_eq!((*silence.open.lock().unwrap(), silence.count("start")), (32, 32));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_never_answered_is_recorded_and_the_next_one_gets_its_slot() {
    let world = World::new().await;
    let (org, silence) = world.organization("hostile").await;
    silence.silent_at(&["start"]);
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(world.accept(org).await);
    }
    let sweeper = Sweeper::new(world.launcher.clone());
    let mut tasks = JoinSet::new();
    sweeper.pass(&mut tasks).await.unwrap();
    soon("the first ones wait", async || *silence.open.lock().unwrap() == 32).await;
    sleep(LONG).await;
    assert_eq!(silence.count("start"), 40, "the others have got their slots");
    sleep(LONG).await;
    assert_eq!(*silence.open.lock().unwrap(), 0);
    tasks.join_all().await;
    for due in all {
        let deployment = world.read(due).await;
        let waiting = deployment.attempts[0].waiting.clone().unwrap();
        assert!(waiting.contains("the start was not answered within 45 s"), "{waiting}");
        assert!(deployment.due_at.is_some() && deployment.attempts.len() == 1, "{deployment:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_whose_platform_never_answers_ends_by_its_deadlines() {
    let world = World::new().await;
    let (org, silence) = world.organization("hostile").await;
    silence.silent_at(&["start", "observe", "stop", "tail", "forget", "jobs"]);
    let due = world.accept(org).await;
    // Five minutes to start, half a minute to stop, two minutes for a proof.
    for _ in 0..20 {
        world.reconcile(due).await;
        if world.read(due).await.status.is_terminal() {
            break;
        }
        world.clock.by(60);
    }
    let ended = world.read(due).await;
    assert_eq!((ended.status, ended.attempts.len()), (Status::Failed, 1), "{ended:?}");
    assert_eq!(*silence.open.lock().unwrap(), 0);
}

/// An event bus that never answers.
struct SilentBus;

#[async_trait]
impl Publish for SilentBus {
    async fn publish(&self, _: &[DeploymentEvent]) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconciliation_that_hangs_without_another_limit_is_cancelled_and_retried() {
    let mut world = World::new().await;
    let (org, answers) = world.organization("honest").await;
    *answers.refuses.lock().unwrap() = true;
    world.launcher.table = world.table.clone().with_published_ends();
    world.launcher.publisher = Some(Arc::new(SilentBus));
    let due = world.accept(org).await;
    world.reconcile(due).await;
    world.clock.by(61);
    let (launcher, before) = (world.launcher.clone(), world.clock.now());
    let task = tokio::spawn(async move { launcher.reconcile(due, ReconcileTrigger::Due).await });
    // It postpones the deployment before it publishes.
    let is_postponed = async || world.read(due).await.due_at.is_some_and(|at| at > before);
    soon("it publishes, and has postponed the deployment", is_postponed).await;
    let error =
        timeout(RECONCILE_TIMEOUT + LONG, task).await.expect("it hangs without a limit").unwrap();
    let error = error.unwrap_err();
    assert!(matches!(error, LaunchError::Late(_)) && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("took longer than 240 s"), "{error}");
    assert!(world.read(due).await.due_at.is_some());
}
