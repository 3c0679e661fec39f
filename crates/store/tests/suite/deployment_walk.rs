//! Sixteen concurrent writers that apply random events to deployments.

use crate::world::{LIMITS, World, at, hash, principal, queued, race};
use canyon_domain::attempt::Outcome;
use canyon_domain::deadline;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::ids::DeploymentId;
use canyon_domain::lifecycle;
use canyon_store::Table;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

on_each_table!(no_race_of_16_writers_leaves_the_state_graph_or_changes_an_end);

/// A linear congruential generator (Knuth, MMIX): one seed gives one sequence of events.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Applies one random event, whether it is valid now or not.
fn event(deployment: &mut Deployment, dice: &mut Dice, now: Timestamp) {
    let number = dice.roll(3) as u32 + u32::from(!deployment.attempts.is_empty());
    let class = FailureClass::ALL[dice.roll(11) as usize];
    let failed = Outcome::Failed(Failure::new(class, "because"));
    let outcome = [failed.clone(), Outcome::Succeeded, Outcome::Cancelled, failed.clone()];
    let phase = [Phase::Fetch, Phase::Init, Phase::Plan, Phase::Apply][dice.roll(4) as usize];
    let claimant = ["me", "you"][dice.roll(2) as usize];
    // A rejected event must not change the deployment; the caller compares.
    match dice.roll(16) {
        0..=4 => {
            let (code, token) = (hash("code"), hash(claimant));
            lifecycle::claim(deployment, number, &code, claimant, token, (0, 0), now).ok();
        }
        5..=8 => {
            lifecycle::report(deployment, number, phase, now).ok();
        }
        9 | 10 => {
            let outcome = outcome[dice.roll(4) as usize].clone();
            lifecycle::end(deployment, number, outcome, now).ok();
        }
        11 if dice.roll(4) == 0 => {
            lifecycle::cancel(deployment, principal(), now);
        }
        12 if dice.roll(8) == 0 => lifecycle::end_without_attempt(deployment, failed, now),
        13 if dice.roll(4) == 0 => deadline::stopping(deployment, now),
        14 => {
            lifecycle::started(deployment, number, "job".to_owned()).ok();
        }
        _ => {}
    }
}

/// A successful write: the version, the status, and the deployment as it was written.
type Step = (DeploymentId, u64, Deployment);

async fn one_step(
    world: &World,
    of: DeploymentId,
    dice: &mut Dice,
    now: Timestamp,
) -> Option<Step> {
    let World { table, org } = world;
    let mut deployment = world.stored(of).await;
    let before = deployment.clone();
    let mut turn = None;
    if dice.roll(3) == 0 {
        let mut environment = world.env("dev").await;
        let fence = environment.queue.take(of)?;
        lifecycle::launch(&mut deployment, fence, hash("code"), LIMITS, now).ok()?;
        environment.version += 1;
        turn = Some(environment);
    } else {
        event(&mut deployment, dice, now);
    }
    if deployment == before {
        return None;
    }
    deployment.version += 1;
    let saved = if deployment.status.is_terminal() {
        table.end_deployment(*org, &deployment, now, None).await
    } else if let Some(environment) = &turn {
        let environment = EnvironmentChange::Save(environment);
        let step = DeploymentChange {
            deployment: &deployment,
            environment,
            next: None,
            wake: Wake::None,
            record: None,
        };
        table.change_deployment(*org, &step).await
    } else {
        table.save_deployment(*org, &deployment, Wake::None).await
    };
    (saved.unwrap() == Saved::Yes).then_some((of, deployment.version, deployment))
}

async fn no_race_of_16_writers_leaves_the_state_graph_or_changes_an_end(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let mut ids = Vec::new();
    for second in 0..6 {
        let deployment = queued(&dev, second);
        world.accept(&deployment).await;
        ids.push(deployment.id);
    }
    let clock = Arc::new(AtomicI64::new(100));
    let walks = race(|n| {
        let (world, ids, clock) = (world.clone(), ids.clone(), clock.clone());
        let mut dice = Dice(n as u64 + 1);
        async move {
            let mut steps = Vec::new();
            for _ in 0..60 {
                let of = ids[dice.roll(6) as usize];
                let now = at(clock.fetch_add(3, Ordering::Relaxed));
                steps.extend(one_step(&world, of, &mut dice, now).await);
            }
            steps
        }
    })
    .await;

    let mut histories: BTreeMap<DeploymentId, BTreeMap<u64, Deployment>> = BTreeMap::new();
    for (id, version, deployment) in walks.into_iter().flatten() {
        let twice = histories.entry(id).or_default().insert(version, deployment);
        assert_eq!(twice, None, "two writers wrote version {version}");
    }
    let mut fences = BTreeSet::new();
    let mut ended = 0;
    for (id, history) in &histories {
        let mut status = Status::Queued;
        for deployment in history.values() {
            let next = deployment.status;
            let allowed = (next == status && !next.is_terminal()) || status.may_become(next);
            assert!(allowed, "{id}: {status} -> {next}");
            status = next;
        }
        let stored = world.stored(*id).await;
        assert_eq!(stored.status, status, "the stored status is the last one written");
        for attempt in &stored.attempts {
            assert!(fences.insert(attempt.fence), "fence {} was used twice", attempt.fence);
        }
        ended += usize::from(status.is_terminal());
        let queue = world.env("dev").await.queue;
        let queued = queue.current == Some(*id) || queue.waiting.contains(id);
        assert_ne!(queued, status.is_terminal(), "{id} {status}");
    }
    assert!(ended >= 2, "too few deployments ended to prove anything: {ended}");
}
