//! What an organization keeps no longer is removed, and nothing that an environment needs.

use crate::concurrency::end;
use crate::world::{World, record};
use canyon_domain::attempt::Outcome;
use canyon_domain::audit::AuditRecord;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::{DeploymentId, OrgId, OrgUuid, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::retention::{Progress, Retention, RetentionSetting};
use canyon_launcher::Sweeper;
use canyon_store::blob_keys::{BlobKey, BlobPrefix, Stream};
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::{DeploymentFilter, Due};
use canyon_store::outcome::Saved;
use canyon_store::page::PageRequest;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

const DAY: i64 = 24 * 60 * 60;
/// Longer than another launcher waits for one that has stopped.
const LEASE: i64 = 6 * 60;

fn days(deployments: Option<u32>, logs: Option<u32>, audit: Option<u32>) -> Retention {
    Retention { deployments_days: deployments, logs_days: logs, audit_days: audit }
}

/// Writes the setting, as the API does.
async fn set(world: &World, org: OrgUuid, retention: Retention) {
    let (now, found) = (world.clock.now(), world.table.retention(org).await.unwrap());
    let setting = RetentionSetting {
        retention,
        created_at: found.as_ref().map_or(now, |found| found.created_at),
        updated_at: now,
        due_at: now,
        progress: Progress::default(),
        version: found.map_or(1, |found| found.version + 1),
    };
    let saved = world.table.save_retention(org, &setting, Some(&record())).await.unwrap();
    assert_eq!(saved, Saved::Yes);
}

/// The launcher's passes, until the round is complete.
async fn round(world: &World, org: OrgUuid) {
    let sweeper = Sweeper::new(world.launcher.clone());
    for _ in 0..50 {
        pass(&sweeper).await;
        let setting = world.table.retention(org).await.unwrap().unwrap();
        if setting.due_at > world.clock.now() + Duration::from_hours(1) {
            return;
        }
        world.clock.by(11);
    }
    panic!("the round does not end: {:?}", world.table.retention(org).await);
}

pub(crate) async fn pass(sweeper: &Sweeper) {
    let mut tasks = JoinSet::new();
    sweeper.pass(&mut tasks).await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// The objects of a deployment that ran: two pieces of its log, its events, its outputs.
fn objects(due: Due) -> [BlobKey; 4] {
    [
        BlobKey::chunk(due.org, due.id, Stream::Log, 0),
        BlobKey::chunk(due.org, due.id, Stream::Log, 5),
        BlobKey::chunk(due.org, due.id, Stream::Events, 0),
        BlobKey::outputs(due.org, due.id, 1),
    ]
}

/// Runs a deployment that was accepted, with this end.
async fn run(world: &World, due: Due, outcome: Outcome) -> Due {
    world.reconcile(due).await;
    world.claim(due).await;
    for key in objects(due) {
        world.launcher.blobs.put_if_absent(&key, "line\n".into()).await.unwrap();
    }
    if outcome == Outcome::Succeeded {
        end(world, due).await;
        return due;
    }
    let (mut deployment, now) = (world.read(due).await, world.clock.now());
    lifecycle::end(&mut deployment, 1, outcome, now).unwrap();
    deployment.version += 1;
    let saved = world.table.end_deployment(due.org, &deployment, now, None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    due
}

fn failed() -> Outcome {
    Outcome::Failed(Failure { class: FailureClass::User, message: "no".to_owned() })
}

async fn stored(world: &World, due: Due) -> (Option<Deployment>, usize) {
    let mut found = 0;
    for key in objects(due) {
        found += usize::from(world.launcher.blobs.get(&key).await.unwrap().is_some());
    }
    (world.table.deployment(due.org, due.id).await.unwrap(), found)
}

/// Whether nothing is left of the deployment. A request that was on its way when a launcher was killed may be carried out
/// between two reads, so the reads are repeated until they agree.
async fn is_removed(world: &World, due: Due) -> bool {
    for _ in 0..100 {
        let (deployment, objects) = stored(world, due).await;
        let bundle = world.table.bundle(due.org, due.id).await.unwrap();
        assert!(deployment.is_some() || objects == 0, "nothing leads to these objects any more");
        if deployment.is_none() == bundle.is_none() {
            return deployment.is_none();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a deployment and its bundle do not go together: {due:?}");
}

async fn listed(world: &World, org: OrgUuid) -> Vec<DeploymentId> {
    let page = PageRequest { limit: 100, after: None };
    let found = world.table.deployments(org, &DeploymentFilter::All, &page).await.unwrap();
    found.items.into_iter().map(|deployment| deployment.id).collect()
}

async fn removals(world: &World, org: OrgUuid) -> Vec<AuditRecord> {
    let now = world.clock.now();
    let (page, all) = (PageRequest { limit: 100, after: None }, AuditFilter::default());
    let since = now - Duration::from_hours(24);
    let all = world.table.audit_records(org, since, now, &all, &page).await.unwrap().items;
    all.into_iter().filter(|record| record.action == "retention.remove").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_deployments_go_with_all_that_they_left_and_what_environments_need_stays() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let (other, _) = world.organization("other").await;
    let elsewhere = run(&world, world.accept(other).await, Outcome::Succeeded).await;
    let first = run(&world, world.accept(org).await, Outcome::Succeeded).await;
    let second = run(&world, world.accept_after(first).await, failed()).await;
    let last = run(&world, world.accept_after(first).await, Outcome::Succeeded).await;
    let third = run(&world, world.accept_after(first).await, failed()).await;
    let archive = BlobKey::archive(org, &"ab".repeat(32).parse().unwrap());
    world.launcher.blobs.put_if_absent(&archive, "x".into()).await.unwrap();
    world.clock.by(31 * DAY);
    let young = run(&world, world.accept(org).await, failed()).await;
    let runs = world.accept(org).await;
    world.reconcile(runs).await;
    world.claim(runs).await;

    set(&world, org, days(Some(32), None, None)).await;
    round(&world, org).await;
    assert_eq!(listed(&world, org).await.len(), 6, "nothing is as old");
    assert!(removals(&world, org).await.is_empty());

    set(&world, org, days(Some(30), None, None)).await;
    round(&world, org).await;
    for gone in [first, second, third] {
        assert!(is_removed(&world, gone).await);
    }
    let (kept, objects) = stored(&world, last).await;
    assert_eq!((kept.unwrap().status, objects), (Status::Succeeded, 4), "the last success");
    assert_eq!(stored(&world, young).await.1, 4);
    assert_eq!(listed(&world, org).await, [runs.id, young.id, last.id]);
    assert!(world.launcher.blobs.get(&archive).await.unwrap().is_some());
    assert_eq!(stored(&world, elsewhere).await.1, 4, "another organization keeps everything");
    let records = removals(&world, org).await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].details, ["deployments: 3"]);

    // After the next success, the one before is no longer needed: the next round removes it.
    let newer = run(&world, world.accept_after(last).await, Outcome::Succeeded).await;
    world.clock.by(DAY);
    round(&world, org).await;
    assert!(is_removed(&world, last).await);
    assert_eq!(stored(&world, newer).await.1, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_checks_go_and_the_one_whose_result_an_environment_shows_stays() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let before = run(&world, world.accept_check(org).await, failed()).await;
    let last = world.accept_check_of(org, world.environment(before).await).await;
    world.reconcile(last).await;
    world.claim(last).await;
    let mut found = world.read(last).await;
    found.drift = Some(Box::default());
    found.version += 1;
    let saved = world.table.save_deployment(org, &found, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    end(&world, last).await;
    let shown = world.environment(last).await.drift.unwrap();
    assert_eq!((shown.check, shown.checking), (Some(last.id), None));
    world.clock.by(31 * DAY);
    set(&world, org, days(Some(30), None, None)).await;
    round(&world, org).await;
    assert!(is_removed(&world, before).await, "it has taken no lock, so nothing depends on it");
    assert!(!is_removed(&world, last).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_before_its_deployment_which_names_the_retention() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let first = run(&world, world.accept(org).await, Outcome::Succeeded).await;
    let last = run(&world, world.accept_after(first).await, Outcome::Succeeded).await;
    world.clock.by(8 * DAY);
    set(&world, org, days(Some(30), Some(7), None)).await;
    round(&world, org).await;
    let (deployment, objects) = stored(&world, first).await;
    let removal = deployment.unwrap().logs_removed.unwrap();
    assert_eq!(
        (removal.days, removal.pending, objects),
        (7, false, 1),
        "only the outputs are left"
    );
    let (deployment, objects) = stored(&world, last).await;
    assert_eq!((deployment.unwrap().logs_removed, objects), (None, 4), "the last success");
    assert_eq!(removals(&world, org).await[0].details, ["logs: 1"]);

    // Another round finds nothing to do, and writes nothing but its own progress.
    let before = world.read(first).await;
    world.clock.by(DAY + 1);
    round(&world, org).await;
    assert_eq!(world.read(first).await, before);
    world.clock.by(22 * DAY);
    round(&world, org).await;
    assert!(is_removed(&world, first).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launcher_that_is_killed_at_any_moment_leaves_nothing_unreachable() {
    const RUNS: usize = 12;
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let mut all = vec![run(&world, world.accept(org).await, Outcome::Succeeded).await];
    for _ in 1..RUNS {
        all.push(run(&world, world.accept_after(all[0]).await, Outcome::Succeeded).await);
    }
    let last = all.pop().unwrap();
    world.clock.by(31 * DAY);
    set(&world, org, days(Some(30), Some(10), None)).await;
    let (mut kills, mut left) = (0, all.len());
    for micros in (0..).map(|n| 300 * n) {
        let sweeper = Sweeper::new(world.launcher.clone());
        let mut tasks = JoinSet::new();
        sweeper.pass(&mut tasks).await.unwrap();
        tokio::time::sleep(Duration::from_micros(micros)).await;
        // The tasks are dropped where they wait, as a kill leaves them.
        let was_killed = !tasks.is_empty() && tasks.try_join_next().is_none();
        tasks.shutdown().await;
        kills += usize::from(was_killed);
        let mut now = 0;
        for due in &all {
            now += usize::from(!is_removed(&world, *due).await);
        }
        assert!(now <= left, "a removed deployment is back");
        left = now;
        world.clock.by(LEASE);
        if !was_killed {
            break;
        }
    }
    assert!(kills > 3, "only {kills} were killed");
    round(&world, org).await;
    for due in &all {
        assert!(is_removed(&world, *due).await);
    }
    assert_eq!(stored(&world, last).await.1, 4);
    let objects = world.launcher.blobs.list(&BlobPrefix::organization(org), None).await.unwrap();
    assert_eq!(objects.len(), 4, "{objects:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_launchers_one_removes() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let mut first = None;
    for _ in 0..5 {
        let due = match first {
            None => world.accept(org).await,
            Some(first) => world.accept_after(first).await,
        };
        first.get_or_insert(run(&world, due, Outcome::Succeeded).await);
    }
    world.clock.by(2 * DAY);
    set(&world, org, days(Some(1), None, None)).await;
    let sweepers = [(); 2].map(|()| Sweeper::new(world.launcher.clone()));
    tokio::join!(pass(&sweepers[0]), pass(&sweepers[1]));
    round(&world, org).await;
    assert_eq!(listed(&world, org).await.len(), 1);
    let records = removals(&world, org).await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].details, ["deployments: 4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_setting_nothing_is_ever_removed() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let first = run(&world, world.accept(org).await, failed()).await;
    world.clock.by(9 * 365 * DAY);
    pass(&Sweeper::new(world.launcher.clone())).await;
    assert_eq!(stored(&world, first).await.1, 4);
    // A setting that was deleted has no further effect.
    set(&world, org, days(Some(30), None, None)).await;
    world.table.delete_retention(org, &record()).await.unwrap();
    pass(&Sweeper::new(world.launcher.clone())).await;
    assert_eq!(stored(&world, first).await.1, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_audit_records_go_and_the_removal_is_recorded() {
    let world = World::new().await;
    let (org, _) = world.organization("acme").await;
    let created = world.clock.now();
    let id: OrgId = "acme".parse().unwrap();
    let organization = Organization::new(id, org, created, PrincipalId(Uuid::from_u128(9)));
    store(&world, &organization).await;
    run(&world, world.accept(org).await, failed()).await;
    let count = async || {
        let now = world.clock.now();
        world.table.count_audit_records(org, created, now, None).await.unwrap().count
    };
    assert!(count().await >= 4);
    world.clock.by(400 * DAY);
    set(&world, org, days(None, None, Some(365))).await;
    round(&world, org).await;
    // `set` writes a record of the system's time, which goes too.
    assert_eq!(count().await, 1);
    let records = removals(&world, org).await;
    assert!(records[0].details[0].starts_with("audit_records: "), "{records:?}");
}

/// Stores the organization itself, with a token.
async fn store(world: &World, organization: &Organization) {
    use canyon_domain::attempt::SecretHash;
    use canyon_domain::principal::{Principal, Role, SignIn};
    use canyon_store::organizations::TokenRecord;
    let principal = Principal {
        id: PrincipalId(Uuid::now_v7()),
        org: organization.uuid,
        org_id: organization.id.clone(),
        role: Role::Admin,
        scoped_roles: Vec::new(),
        runner: None,
        operator: false,
        sign_in: SignIn::default(),
    };
    let token = TokenRecord {
        hash: SecretHash("ab".repeat(32)),
        principal,
        description: "admin".to_owned(),
        created_at: organization.created_at,
        expires_at: None,
        labels: [].into(),
        grant: None,
    };
    world.table.create_organization(organization, &token, &record()).await.unwrap();
}
