//! A real table with organizations, and a launcher whose clock the test moves.

use crate::platform::{Script, Scripted};
pub(crate) use crate::time::{passes, until};
use canyon_domain::attempt::{Claim, SecretHash};
use canyon_domain::audit::AuditRecord;
use canyon_domain::container::{ContainerJob, ContainerTask};
use canyon_domain::deployment::{Deployment, Mode, Status, StoredResults};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{DeploymentId, EnvUuid, OrgId, OrgUuid, PrincipalId};
use canyon_domain::inventory::{Environment, EnvironmentStatus, EnvironmentType, Project};
use canyon_domain::job::Bundle;
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::ports::{Clock, Entropy as _};
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_identity::master_key::{KEY_LENGTH, MasterKey};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_launcher::{Launcher, ReconcileTrigger};
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::embedded::Embedded;
use canyon_store::outcome::Saved;
use canyon_store::runners::RunnerRecord;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use uuid::Uuid;

/// The runner of every deployment.
pub(crate) const RUNNER: &str = "somewhere";

/// The system's time plus the time that the test adds.
#[derive(Clone, Default)]
pub(crate) struct Moved(Arc<Mutex<SignedDuration>>);

impl Moved {
    pub(crate) fn by(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        System.now() + *self.0.lock().unwrap()
    }
}

pub(crate) struct World {
    pub(crate) embedded: Embedded,
    pub(crate) launcher: Launcher,
    pub(crate) table: Table,
    pub(crate) clock: Moved,
    scripted: Scripted,
    _folder: TempDir,
}

pub(crate) fn record() -> AuditRecord {
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

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(&folder.path().join("canyon.db"), Arc::new(|| {})).unwrap();
        let table = embedded.table("canyon");
        table.ensure().await.unwrap();
        let (clock, scripted) = (Moved::default(), Scripted::default());
        let key = MasterKey::new(&[7; KEY_LENGTH]).unwrap();
        let launcher = Launcher {
            table: table.clone(),
            blobs: Blobs::folder(&folder.path().join("blobs")).unwrap(),
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(System),
            master_keys: Arc::new(MasterKeys::known(key)),
            up_since: Timestamp::MIN,
            api_url: "https://canyon.example".to_owned(),
            organizations: Arc::default(),
            platforms: [RunnerType::Local, RunnerType::DockerAgent]
                .map(|kind| (kind, Arc::new(scripted.clone()) as _))
                .into(),
            last_job_lists: Arc::default(),
            limits: Arc::default(),
            publisher: None,
            signed_requests: None,
        };
        Self { embedded, launcher, table, clock, scripted, _folder: folder }
    }

    /// A new organization with a project and a runner; returns its platform's script.
    pub(crate) async fn organization(&self, name: &str) -> (OrgUuid, Arc<Script>) {
        let (org, now) = (OrgUuid(Uuid::now_v7()), self.clock.now());
        let known: OrgId = name.parse().unwrap();
        self.launcher.organizations.lock().unwrap().insert(org, known);
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
        self.table.create_env_type(org, &env_type, &record()).await.unwrap();
        self.table.create_project(org, &project, &record()).await.unwrap();
        self.runner(org, RUNNER, "/srv/state").await;
        (org, self.scripted.of(org))
    }

    /// Creates a runner that keeps states in the folder `states`.
    pub(crate) async fn runner(&self, org: OrgUuid, id: &str, states: &str) {
        let state = json!({ "type": "local", "path": states });
        self.runner_of(org, id, json!({ "type": "local" }), state).await;
    }

    /// Creates a runner that launches jobs on a Docker engine with these settings.
    pub(crate) async fn engine(&self, org: OrgUuid, id: &str, job: Value) {
        let configuration = json!({ "type": "docker-agent", "job": job });
        let state = json!({ "type": "s3", "bucket": "states" });
        self.runner_of(org, id, configuration, state).await;
    }

    async fn runner_of(&self, org: OrgUuid, id: &str, configuration: Value, state: Value) {
        let runner = runner(id, &configuration, &state, self.clock.now());
        self.table.create_runner(org, &runner, &record()).await.unwrap();
    }

    /// Accepts a deployment into its own environment, due now.
    pub(crate) async fn accept(&self, org: OrgUuid) -> Due {
        self.accept_with(org, json!({})).await
    }

    /// The same with variables of the module.
    pub(crate) async fn accept_with(&self, org: OrgUuid, variables: Value) -> Due {
        self.accept_on(org, variables, &[]).await
    }

    /// The same in an environment with fallbacks.
    pub(crate) async fn accept_on(
        &self,
        org: OrgUuid,
        variables: Value,
        fallbacks: &[&str],
    ) -> Due {
        let mut bundle = bundle();
        bundle.module.inputs = serde_json::from_value(variables).unwrap();
        self.accept_bundle(org, &bundle, RUNNER, fallbacks).await
    }

    /// Accepts the container job `job` into its own environment, which has the runner `runner`.
    pub(crate) async fn accept_container(
        &self,
        org: OrgUuid,
        job: Value,
        runner: &str,
        fallbacks: &[&str],
    ) -> Due {
        let job = ContainerJob::parse(job).unwrap();
        let task = ContainerTask::new("s3#photos".parse().unwrap(), job);
        let bundle = Bundle { container: Some(task), ..bundle() };
        self.accept_bundle(org, &bundle, runner, fallbacks).await
    }

    async fn accept_bundle(
        &self,
        org: OrgUuid,
        bundle: &Bundle,
        runner: &str,
        fallbacks: &[&str],
    ) -> Due {
        let now = self.clock.now();
        let id = DeploymentId(System.id(now));
        let mut environment = environment(&format!("env-{}", id.0.simple()), now);
        environment.runner_id = runner.parse().unwrap();
        environment.fallback_runner_ids = fallbacks.iter().map(|id| id.parse().unwrap()).collect();
        self.table.create_environment(org, &environment, &record()).await.unwrap();
        environment.queue.join(id).unwrap();
        environment.version += 1;
        let (mut new, record) = (deployment(id, &environment, now), record());
        new.container = bundle.container.as_ref().map(|task| Box::new(task.into()));
        let stored = self.table.accept_deployment(org, &new, bundle, &environment, None, &record);
        stored.await.unwrap();
        Due { org, id }
    }

    /// Accepts a check for drift of its own environment, due now.
    pub(crate) async fn accept_check(&self, org: OrgUuid) -> Due {
        let (now, id) = (self.clock.now(), System.id(self.clock.now()).simple());
        let environment = environment(&format!("env-{id}"), now);
        self.table.create_environment(org, &environment, &record()).await.unwrap();
        self.accept_check_of(org, environment).await
    }

    /// Accepts a check for drift of an environment that is stored, beside its queue.
    pub(crate) async fn accept_check_of(&self, org: OrgUuid, mut environment: Environment) -> Due {
        let now = self.clock.now();
        let id = DeploymentId(System.id(now));
        environment.begin_check(id);
        environment.version += 1;
        let priority = canyon_domain::deployment::Priority::Background;
        let of_check = deployment(id, &environment, now);
        let new = Deployment { mode: Mode::Drift, plan_only: true, priority, ..of_check };
        let (bundle, record) = (bundle(), record());
        let stored = self.table.accept_deployment(org, &new, &bundle, &environment, None, &record);
        stored.await.unwrap();
        Due { org, id }
    }

    /// Accepts another deployment into the environment of `before`, due now.
    pub(crate) async fn accept_after(&self, before: Due) -> Due {
        let (org, now) = (before.org, self.clock.now());
        let id = DeploymentId(System.id(now));
        let mut environment = self.environment(before).await;
        environment.queue.join(id).unwrap();
        environment.version += 1;
        let (new, bundle, record) = (deployment(id, &environment, now), bundle(), record());
        let stored = self.table.accept_deployment(org, &new, &bundle, &environment, None, &record);
        stored.await.unwrap();
        Due { org, id }
    }

    /// The environment of a deployment.
    pub(crate) async fn environment(&self, of: Due) -> Environment {
        let deployment = self.read(of).await;
        let found = self.table.environment(of.org, &deployment.project, &deployment.env).await;
        found.unwrap().unwrap()
    }

    pub(crate) async fn read(&self, due: Due) -> Deployment {
        self.table.deployment(due.org, due.id).await.unwrap().unwrap()
    }

    /// A runner claims the attempt, as the API writes it.
    pub(crate) async fn claim(&self, due: Due) {
        let (mut deployment, now) = (self.read(due).await, self.clock.now());
        let attempt = deployment.attempts.last_mut().unwrap();
        attempt.claim = Some(Claim {
            claimant: "one".to_owned(),
            at: now,
            token_hash: SecretHash(String::new()),
            heartbeat_at: now,
            host: None,
            user: None,
            streams_from: (0, 0),
        });
        deployment.status = Status::Running;
        deployment.version += 1;
        let saved = self.table.save_deployment(due.org, &deployment, Wake::None).await;
        assert_eq!(saved.unwrap(), Saved::Yes);
    }

    /// An administrator changes where the runner's jobs run.
    pub(crate) async fn change_runner(&self, org: OrgUuid) {
        self.save_runner(org, None).await;
    }

    /// An administrator changes what concerns only jobs to come, as the API writes it.
    pub(crate) async fn change_jobs_to_come(&self, org: OrgUuid) {
        self.save_runner(org, Some(1)).await;
    }

    async fn save_runner(&self, org: OrgUuid, finds_jobs_since: Option<u64>) {
        let mut runner = self.table.runner(org, &RUNNER.parse().unwrap()).await.unwrap().unwrap();
        runner.finds_jobs_since = finds_jobs_since;
        runner.version += 1;
        let saved = self.table.save_runner(org, &runner, None, &record()).await.unwrap();
        assert_eq!(saved, Saved::Yes);
    }

    pub(crate) async fn reconcile(&self, due: Due) {
        self.launcher.reconcile(due, ReconcileTrigger::Due).await.unwrap();
    }
}

fn runner(id: &str, configuration: &Value, state: &Value, now: Timestamp) -> RunnerRecord {
    let runner_type = configuration["type"].as_str().unwrap().to_owned();
    let definition = RunnerDefinition::parse(json!({
        "runner_configuration": configuration,
        "state_storage_configuration": state,
    }));
    RunnerRecord {
        uuid: canyon_domain::ids::RunnerUuid(Uuid::now_v7()),
        id: id.parse().unwrap(),
        runner_type,
        definition: definition.unwrap().to_value().to_string(),
        sealed_secrets: None,
        disabled: false,
        former_storages: Vec::new(),
        enabled_roles: std::collections::BTreeMap::new(),
        created_at: now,
        updated_at: now,
        finds_jobs_since: None,
        version: 1,
    }
}

fn environment(name: &str, now: Timestamp) -> Environment {
    Environment {
        resources: canyon_domain::resource::ResourceSet::default(),
        id: name.parse().unwrap(),
        uuid: EnvUuid(Uuid::now_v7()),
        project_id: "shop".parse().unwrap(),
        project_uuid: Uuid::from_u128(4),
        env_type_id: "testing".parse().unwrap(),
        display_name: DisplayName::from_id(name),
        status: EnvironmentStatus::Active,
        status_message: None,
        runner_id: RUNNER.parse().unwrap(),
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
    }
}

fn deployment(id: DeploymentId, environment: &Environment, now: Timestamp) -> Deployment {
    Deployment {
        resource: None,
        container: None,
        id,
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
    }
}

fn bundle() -> Bundle {
    let module = json!({ "source": "inline", "source_code": "" });
    serde_json::from_value(json!({ "module": module })).unwrap()
}
