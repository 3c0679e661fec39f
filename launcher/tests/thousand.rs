//! A thousand launches that become due in the same second, through several launchers and a strict
//! ECS with its real rate limit: 20 calls of `RunTask` a second.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

#[allow(dead_code, reason = "the suite of the dispatchers uses the rest")]
#[path = "../dispatch/tests/suite/ecs_bed.rs"]
mod ecs_bed;

use canyon_dispatch::Platform;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Mode, Status, StoredResults};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{DeploymentId, EnvUuid, OrgId, PrincipalId};
use canyon_domain::inventory::{Environment, EnvironmentStatus, EnvironmentType, Project};
use canyon_domain::job::{Bundle, Inputs, LogLevel, Module};
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::plan_options::PlanOptions;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::runner::RunnerType;
use canyon_identity::master_key::{KEY_LENGTH, MasterKey};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_launcher::rate_limiter::TableRateLimiter;
use canyon_launcher::{Launcher, ReconcileTrigger, Sweeper};
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use canyon_store::deployment_lists::Due;
use canyon_store::embedded::Embedded;
use canyon_store::runners::RunnerRecord;
use ecs_bed::{Account, ORG};
use jiff::Timestamp;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use uuid::Uuid;

const LAUNCHES: usize = 1_000;
/// Copies of the launcher, each like its own process: they share only the table.
const LAUNCHERS: usize = 4;
/// How many deployments one copy reconciles at once.
const AT_ONCE: usize = 25;

fn record() -> AuditRecord {
    AuditRecord {
        id: System.id(System.now()),
        at: System.now(),
        by: PrincipalId(Uuid::from_u128(9)),
        action: "test.change".to_owned(),
        subject: "projects/shop".to_owned(),
        by_right: "admin".to_owned(),
        details: Vec::new(),
    }
}

/// A project with a runner on Fargate.
async fn organization(table: &Table, account: &Account) {
    let now = System.now();
    let env_type = EnvironmentType {
        id: "testing".parse().unwrap(),
        uuid: Uuid::now_v7(),
        display_name: DisplayName::from_id("testing"),
        deletion_protection: None,
        approval: None,
        policy: None,
        created_at: now,
    };
    let project = Project {
        id: "shop".parse().unwrap(),
        uuid: Uuid::from_u128(4),
        display_name: DisplayName::from_id("shop"),
        profile: None,
        created_at: now,
        updated_at: now,
    };
    let target = account.target(|_| {});
    let runner = RunnerRecord {
        uuid: target.runner,
        id: target.runner_id.clone(),
        runner_type: "serverless-ecs".to_owned(),
        definition: target.definition.to_value().to_string(),
        sealed_secrets: None,
        disabled: false,
        former_storages: Vec::new(),
        enabled_roles: std::collections::BTreeMap::new(),
        created_at: now,
        updated_at: now,
        finds_jobs_since: None,
        version: 1,
    };
    table.create_env_type(ORG, &env_type, &record()).await.unwrap();
    table.create_project(ORG, &project, &record()).await.unwrap();
    table.create_runner(ORG, &runner, &record()).await.unwrap();
}

/// Accepts a deployment into its own environment.
async fn accept(table: &Table, number: usize) -> DeploymentId {
    let now = System.now();
    let name = format!("env-{number}");
    let mut environment = Environment {
        resources: canyon_domain::resource::ResourceSet::default(),
        id: name.parse().unwrap(),
        uuid: EnvUuid(Uuid::now_v7()),
        project_id: "shop".parse().unwrap(),
        project_uuid: Uuid::from_u128(4),
        env_type_id: "testing".parse().unwrap(),
        display_name: DisplayName::from_id(&name),
        status: EnvironmentStatus::Active,
        status_message: None,
        runner_id: "on-fargate".parse().unwrap(),
        fallback_runner_ids: Vec::new(),
        created_at: now,
        updated_at: now,
        queue: DeploymentQueue::default(),
        module: ModuleRecord::default(),
        secret_inputs: Vec::new(),
        deletion_protection: None,
        type_approval: None,
        type_policy: None,
        approval: None,
        drift: None,
        removed_by: None,
        version: 1,
    };
    table.create_environment(ORG, &environment, &record()).await.unwrap();
    let deployment = Deployment {
        resource: None,
        container: None,
        id: DeploymentId(System.id(now)),
        project: environment.project_id.clone(),
        env: environment.id.clone(),
        env_uuid: environment.uuid,
        env_type: None,
        runner: environment.runner_id.clone(),
        fallback: None,
        mode: Mode::Deploy,
        plan_only: false,
        rollback_to: None,
        plan_of: None,
        place: None,
        of_removal: false,
        priority: canyon_domain::deployment::Priority::Normal,
        agent: None,
        accept_state: false,
        max_deletions: None,
        partial: false,
        reconciles: false,
        supersede: None,
        created_at: now,
        created_by: PrincipalId(Uuid::from_u128(9)),
        reads_in: None,
        status: Status::Queued,
        message: String::new(),
        hold: None,
        due_at: Some(now),
        attempts: Vec::new(),
        cancel: None,
        counts: None,
        state: None,
        refused_deletions: None,
        kept: StoredResults::default(),
        approval: None,
        plan: None,
        drift: None,
        policy: None,
        role: None,
        logs_removed: None,
        completed_at: None,
        version: 1,
    };
    let module = Module {
        source: "inline".parse().unwrap(),
        source_code: Some(String::new()),
        inputs: Inputs::new(),
    };
    let bundle = Bundle {
        resource: None,
        container: None,
        module,
        sealed_inputs: std::collections::BTreeMap::new(),
        encrypted_outputs_recipient: None,
        encrypted_logs_recipient: None,
        log_level: LogLevel::Info,
        options: PlanOptions::default(),
        state_command: None,
    };
    environment.queue.join(deployment.id).unwrap();
    environment.version += 1;
    let record = record();
    let stored = table.accept_deployment(ORG, &deployment, &bundle, &environment, None, &record);
    stored.await.unwrap();
    deployment.id
}

/// A copy of the launcher.
fn launcher(table: &Table, blobs: &Path, account: &Account) -> Launcher {
    let pace = TableRateLimiter { table: table.clone(), clock: Arc::new(System) };
    let platform: Arc<dyn Platform> = Arc::new(account.canyon_at(Arc::new(pace)));
    let name: OrgId = "acme".parse().unwrap();
    let key = MasterKey::new(&[7; KEY_LENGTH]).unwrap();
    Launcher {
        table: table.clone(),
        blobs: Blobs::folder(blobs).unwrap(),
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::known(key)),
        up_since: Timestamp::MIN,
        api_url: "https://canyon.example".to_owned(),
        organizations: Arc::new(Mutex::new(HashMap::from([(ORG, name)]))),
        platforms: HashMap::from([(RunnerType::ServerlessEcs, platform)]),
        last_job_lists: Arc::default(),
        limits: Arc::default(),
        publisher: None,
        signed_requests: None,
    }
}

/// Reconciles each of the deployments once, as the stream makes one copy do.
async fn reconcile_all(launcher: Launcher, all: Vec<DeploymentId>) {
    let mut tasks = JoinSet::new();
    for id in all {
        while tasks.len() >= AT_ONCE {
            tasks.join_next().await;
        }
        let launcher = launcher.clone();
        tasks.spawn(async move {
            launcher.reconcile(Due { org: ORG, id }, ReconcileTrigger::Due).await.unwrap();
        });
    }
    tasks.join_all().await;
}

async fn started(table: &Table, all: &[DeploymentId]) -> usize {
    let mut count = 0;
    for id in all {
        let deployment = table.deployment(ORG, *id).await.unwrap().unwrap();
        assert!(deployment.attempts.len() <= 1, "{:?}", deployment.attempts);
        assert!(!deployment.status.is_terminal(), "{deployment:?}");
        count += deployment.attempts.iter().filter(|attempt| attempt.handle.is_some()).count();
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_launches_at_once_all_start_and_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&folder.path().join("canyon.db"), Arc::new(|| {})).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    let account = Account::new(&json!({ "step_seconds": 1 }));
    organization(&table, &account).await;
    let mut all = Vec::new();
    for number in 0..LAUNCHES {
        all.push(accept(&table, number).await);
    }

    let begin = Instant::now();
    let launchers: Vec<_> =
        (0..LAUNCHERS).map(|_| launcher(&table, &folder.path().join("blobs"), &account)).collect();
    let mut hints = JoinSet::new();
    for (launcher, part) in launchers.iter().zip(all.chunks(LAUNCHES / LAUNCHERS)) {
        hints.spawn(reconcile_all(launcher.clone(), part.to_vec()));
    }
    // One sweep retries the throttled launches.
    let sweeper = Sweeper::new(launchers[0].clone());
    let mut tasks = JoinSet::new();
    while started(&table, &all).await < LAUNCHES {
        assert!(begin.elapsed() < Duration::from_mins(4), "they are not started");
        sweeper.pass(&mut tasks).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = begin.elapsed();
    hints.join_all().await;

    let names: Vec<_> = account.all_tasks().iter().map(|task| task["startedBy"].clone()).collect();
    let different: HashSet<_> = names.iter().map(ToString::to_string).collect();
    assert_eq!((names.len(), different.len()), (LAUNCHES, LAUNCHES));
    let definitions = account.bodies("RegisterTaskDefinition").len();
    assert!((1..=LAUNCHERS).contains(&definitions), "{definitions} were registered");
    let (throttled, calls) = (account.throttled("RunTask"), account.bodies("RunTask").len());
    println!("{LAUNCHES} launches in {took:?}, {calls} calls of RunTask, {throttled} throttled");
    // A busy machine sends late and so in bursts, some of which ECS throttles: they are retried without
    // using an attempt.
    assert!(calls <= LAUNCHES * 3 / 2, "{calls} calls");
    assert!(took >= Duration::from_secs(48), "faster than the rate allows: {took:?}");
}
