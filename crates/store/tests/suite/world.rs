//! A small organization for the tests of the repository functions. It deploys project `shop` to
//! environment `dev` with the runner `laptop`.

use crate::items::{get, item};
use canyon_domain::attempt::{Limits, SecretHash};
use canyon_domain::audit::AuditRecord;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::deployment::{Deployment, Mode, Status, StoredResults};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{DeploymentId, EnvUuid, OrgUuid, PrincipalId, RunnerUuid};
use canyon_domain::inventory::{Environment, EnvironmentStatus, EnvironmentType, Project, Update};
use canyon_domain::job::{Bundle, Inputs, LogLevel, Module};
use canyon_domain::lifecycle;
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::plan_options::PlanOptions;
use canyon_store::Table;
use canyon_store::conditional::Item;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{Accepted, DeploymentChange, EnvironmentChange, IdempotencyRecord};
use canyon_store::keys::Key;
use canyon_store::outcome::{Created, Saved};
use canyon_store::page::PageRequest;
use canyon_store::runners::RunnerRecord;
use jiff::Timestamp;
use sha2::Digest as _;
use std::str::FromStr;
use uuid::{NoContext, Uuid};

pub(crate) const LIMITS: Limits = Limits { start: 300, run: 3_600, stop: 100, until: None };

/// Parses an id or any other value.
pub(crate) fn id<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A second of the year 2026, with a fraction as clocks have it.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::new(1_790_000_000 + second, 123_456_789).unwrap()
}

/// A version 7 UUID made at `at`.
pub(crate) fn uuid(at: Timestamp) -> Uuid {
    let (seconds, nanoseconds) = (at.as_second(), at.subsec_nanosecond());
    let (seconds, nanoseconds) = (seconds.try_into().unwrap(), nanoseconds.try_into().unwrap());
    Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, nanoseconds))
}

pub(crate) fn principal() -> PrincipalId {
    PrincipalId(Uuid::from_u128(9))
}

pub(crate) fn record_at(at: Timestamp) -> AuditRecord {
    AuditRecord {
        id: uuid(at),
        at,
        by: principal(),
        action: "test.change".to_owned(),
        subject: "projects/shop/envs/dev".to_owned(),
        by_right: "admin".to_owned(),
        details: Vec::new(),
    }
}

pub(crate) fn record() -> AuditRecord {
    record_at(at(0))
}

/// An update that changes the name alone.
pub(crate) fn renamed(name: &DisplayName) -> Update {
    Update { display_name: Some(name.clone()), ..Update::default() }
}

pub(crate) fn env_type(name: &str) -> EnvironmentType {
    EnvironmentType {
        id: id(name),
        uuid: Uuid::now_v7(),
        display_name: DisplayName::from_id(name),
        deletion_protection: None,
        approval: None,
        policy: None,
        created_at: at(0),
    }
}

pub(crate) fn project(name: &str) -> Project {
    Project {
        id: id(name),
        uuid: Uuid::now_v7(),
        display_name: DisplayName::from_id(name),
        profile: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

pub(crate) fn runner(name: &str, runner_type: &str) -> RunnerRecord {
    RunnerRecord {
        uuid: RunnerUuid(Uuid::from_u128(7)),
        id: id(name),
        runner_type: runner_type.to_owned(),
        definition: format!(r#"{{"type":"{runner_type}"}}"#),
        sealed_secrets: None,
        disabled: false,
        former_storages: Vec::new(),
        enabled_roles: std::collections::BTreeMap::new(),
        created_at: at(0),
        updated_at: at(0),
        finds_jobs_since: None,
        version: 1,
    }
}

pub(crate) fn environment(project: &str, name: &str) -> Environment {
    Environment {
        resources: canyon_domain::resource::ResourceSet::default(),
        id: id(name),
        uuid: EnvUuid(Uuid::now_v7()),
        project_id: id(project),
        project_uuid: Uuid::from_u128(4),
        env_type_id: id("testing"),
        display_name: DisplayName::from_id(name),
        status: EnvironmentStatus::Active,
        status_message: None,
        runner_id: id("laptop"),
        fallback_runner_ids: Vec::new(),
        created_at: at(0),
        updated_at: at(0),
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
    }
}

pub(crate) fn queued(environment: &Environment, second: i64) -> Deployment {
    Deployment {
        resource: None,
        container: None,
        id: DeploymentId(uuid(at(second))),
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
        created_at: at(second),
        created_by: principal(),
        reads_in: None,
        status: Status::Queued,
        message: String::new(),
        hold: None,
        due_at: Some(at(second)),
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
    }
}

pub(crate) fn bundle() -> Bundle {
    Bundle {
        resource: None,
        container: None,
        module: Module {
            source: id("inline"),
            source_code: Some("output \"one\" { value = 1 }".to_owned()),
            inputs: Inputs::new(),
        },
        sealed_inputs: std::collections::BTreeMap::new(),
        encrypted_outputs_recipient: None,
        encrypted_logs_recipient: None,
        log_level: LogLevel::Info,
        options: PlanOptions::default(),
        state_command: None,
    }
}

/// A table and one organization.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) table: Table,
    pub(crate) org: OrgUuid,
}

impl World {
    /// An organization with an environment type `testing`, a project `shop` and a runner `laptop`.
    pub(crate) async fn new(table: Table) -> Self {
        Self::of(table, OrgUuid(Uuid::now_v7())).await
    }

    pub(crate) async fn of(table: Table, org: OrgUuid) -> Self {
        table.create_env_type(org, &env_type("testing"), &record()).await.unwrap();
        table.create_project(org, &project("shop"), &record()).await.unwrap();
        table.create_runner(org, &runner("laptop", "local"), &record()).await.unwrap();
        Self { table, org }
    }

    /// Like [`World::new`], with the environment `dev`.
    pub(crate) async fn with_dev(table: Table) -> (Self, Environment) {
        let world = Self::new(table).await;
        let dev = environment("shop", "dev");
        let made = world.table.create_environment(world.org, &dev, &record()).await.unwrap();
        assert_eq!(made, Created::Yes);
        (world, dev)
    }

    /// The environment of that name in `shop`, as it is stored.
    pub(crate) async fn env(&self, name: &str) -> Environment {
        self.table.environment(self.org, &id("shop"), &id(name)).await.unwrap().unwrap()
    }

    pub(crate) async fn stored(&self, of: DeploymentId) -> Deployment {
        self.table.deployment(self.org, of).await.unwrap().unwrap()
    }

    /// Accepts `deployment` into its environment; retries while the environment changes
    /// concurrently.
    pub(crate) async fn accept(&self, deployment: &Deployment) {
        loop {
            if self.try_accept(deployment, None).await == Accepted::Yes {
                return;
            }
        }
    }

    pub(crate) async fn try_accept(
        &self,
        deployment: &Deployment,
        key: Option<&IdempotencyRecord>,
    ) -> Accepted {
        let found = self.table.environment(self.org, &deployment.project, &deployment.env);
        let mut environment = found.await.unwrap().unwrap();
        environment.queue.join(deployment.id).unwrap();
        environment.version += 1;
        let record = record_at(deployment.created_at);
        let accepted = self
            .table
            .accept_deployment(self.org, deployment, &bundle(), &environment, key, &record)
            .await;
        accepted.unwrap()
    }

    /// Takes the turn and writes the next attempt, if it is this deployment's turn.
    pub(crate) async fn launch(&self, of: DeploymentId, now: Timestamp) -> Option<Deployment> {
        let mut deployment = self.stored(of).await;
        let found = self.table.environment(self.org, &deployment.project, &deployment.env);
        let mut environment = found.await.unwrap()?;
        let fence = environment.queue.take(of)?;
        lifecycle::launch(&mut deployment, fence, hash("code"), LIMITS, now).ok()?;
        deployment.version += 1;
        environment.version += 1;
        let step = DeploymentChange {
            deployment: &deployment,
            environment: EnvironmentChange::Save(&environment),
            next: None,
            wake: Wake::None,
            record: None,
        };
        let saved = self.table.change_deployment(self.org, &step).await.unwrap();
        (saved == Saved::Yes).then_some(deployment)
    }

    /// The use count of the item at `key`.
    pub(crate) async fn uses(&self, key: &Key) -> i64 {
        let item = get(&self.table, &format!("{}/{}", key.pk, key.sk)).await.unwrap();
        item.get("uses").map_or(0, |uses| uses.as_n().unwrap().parse().unwrap())
    }

    /// The number of audit records.
    pub(crate) async fn records(&self) -> usize {
        let request = PageRequest { limit: 100, after: None };
        let page = self
            .table
            .audit_records(self.org, at(-86_400), at(86_400), &AuditFilter::default(), &request)
            .await;
        page.unwrap().items.len()
    }
}

/// A valid secret hash: 64 hexadecimal digits.
pub(crate) fn hash(of: &str) -> SecretHash {
    SecretHash(hex::encode(sha2::Sha256::digest(of)))
}

/// Runs 16 futures from `make` concurrently.
pub(crate) async fn race<T, F>(make: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..16).map(|n| tokio::spawn(make(n))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

pub(crate) fn count<T: PartialEq>(results: &[T], of: &T) -> usize {
    results.iter().filter(|result| *result == of).count()
}

/// Every item of the table in the order of its keys, to check that nothing was written.
pub(crate) async fn everything(table: &Table) -> Vec<Item> {
    let mut items = Vec::new();
    let mut start = None;
    loop {
        let scan = table.client().scan().table_name(table.name()).consistent_read(true);
        let page = scan.set_exclusive_start_key(start).send().await.unwrap();
        items.extend(page.items.unwrap_or_default());
        start = page.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    items.sort_by_key(|item: &Item| {
        (item["pk"].as_s().unwrap().clone(), item["sk"].as_s().unwrap().clone())
    });
    items
}

/// The attributes of the item at `key`.
pub(crate) async fn raw(table: &Table, key: &Key) -> Item {
    let mut found = get(table, &format!("{}/{}", key.pk, key.sk)).await.unwrap();
    for name in item("a/b", &[]).keys() {
        found.remove(name);
    }
    found
}
