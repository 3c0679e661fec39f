//! Canyon with one runner that agents serve: its table, its API over HTTP, and the runner's dispatcher. No launcher runs
//! here, so that every call to the dispatcher is the test's.

use canyon_dispatch::{Dispatcher, JobRef, Platform as _, Target};
use canyon_domain::attempt::Limits;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Mode, Priority, Status, StoredResults};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{EnvUuid, OrgUuid, PrincipalId, RunnerUuid};
use canyon_domain::inventory::{
    Environment, EnvironmentStatus, EnvironmentType, Organization, Project,
};
use canyon_domain::job::{Bundle, Inputs, LogLevel, Module};
use canyon_domain::lifecycle;
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::plan_options::PlanOptions;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::runner::RunnerDefinition;
use canyon_functions::App;
use canyon_functions::app::agent_registry::AgentRegistry;
use canyon_functions::app::authentication::RecentTokens;
use canyon_functions::app::names::RecentNames;
use canyon_functions::app::token_exchange::SignInVerifier;
use canyon_functions::changes::Changes;
use canyon_functions::http::{HttpSettings, router};
use canyon_identity::bearer;
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::{Issuer, jobs_issuer_url};
use canyon_identity::master_key::MasterKey;
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::PrivateIssuers;
use canyon_launcher::agents::AgentPlatform;
use canyon_store::blobs::Blobs;
use canyon_store::embedded::Embedded;
use canyon_store::organizations::TokenRecord;
use canyon_store::runners::RunnerRecord;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use uuid::Uuid;

pub(crate) const ORG: &str = "acme";
pub(crate) const RUNNER: &str = "far";
/// The name of the only agent.
pub(crate) const AGENT: &str = "companion";

/// A running Canyon. It ends with the test's runtime.
pub(crate) struct Canyon {
    pub(crate) url: String,
    pub(crate) runner: RunnerUuid,
    pub(crate) dispatcher: Arc<dyn Dispatcher>,
    app: App,
    org: OrgUuid,
    _folder: TempDir,
}

impl Canyon {
    pub(crate) async fn with_runner(definition: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app(&folder, &url).await;
        let served = router(app.clone(), None, &HttpSettings::default());
        tokio::spawn(async move { axum::serve(listener, served).await });
        let hints = app.agents.hints.clone();
        let hint = Arc::new(move |org, agent: &_| hints.hint(org, agent));
        let agents = AgentPlatform::new(&app.table, &app.clock, hint, None);
        let (org, runner) = (OrgUuid(Uuid::now_v7()), RunnerUuid(Uuid::now_v7()));
        let definition = RunnerDefinition::parse(definition).unwrap();
        assert!(definition.needs_agent());
        let (org_id, runner_id) = (ORG.parse().unwrap(), RUNNER.parse().unwrap());
        let target =
            Target { org, org_id, runner, runner_id, definition: definition.clone(), agent: None };
        let dispatcher = agents.dispatcher(&Arc::new(target));
        let canyon = Self { url, runner, dispatcher, app, org, _folder: folder };
        canyon.create_inventory(&definition).await;
        canyon
    }

    async fn create_inventory(&self, definition: &RunnerDefinition) {
        let (table, now) = (&self.app.table, System.now());
        let (_, admin) = self.token(Role::Admin);
        let id = ORG.parse().unwrap();
        let by = admin.principal.id;
        let made = Organization::new(id, self.org, now, by);
        table.create_organization(&made, &admin, &record()).await.unwrap();
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
        let runner = RunnerRecord {
            uuid: self.runner,
            id: RUNNER.parse().unwrap(),
            runner_type: definition.runner_type().as_str().to_owned(),
            definition: definition.to_value().to_string(),
            sealed_secrets: None,
            disabled: false,
            former_storages: Vec::new(),
            enabled_roles: std::collections::BTreeMap::new(),
            created_at: now,
            updated_at: now,
            finds_jobs_since: None,
            version: 1,
        };
        table.create_env_type(self.org, &env_type, &record()).await.unwrap();
        table.create_project(self.org, &project, &record()).await.unwrap();
        table.create_runner(self.org, &runner, &record()).await.unwrap();
    }

    /// A token with which an agent of the runner signs in.
    pub(crate) async fn agents_token(&self) -> SecretString {
        let (secret, stored) = self.token(Role::Agent);
        self.app.table.create_token(&stored, &record()).await.unwrap();
        secret
    }

    /// How many sessions the agent has begun.
    pub(crate) async fn sessions(&self) -> u64 {
        let found = self.app.table.agent(self.org, &AGENT.parse().unwrap()).await.unwrap();
        found.map_or(0, |agent| agent.sessions)
    }

    fn token(&self, role: Role) -> (SecretString, TokenRecord) {
        let now = System.now();
        let secret = bearer::api_token(&System);
        let principal = Principal {
            id: PrincipalId(System.id(now)),
            org: self.org,
            org_id: ORG.parse().unwrap(),
            role,
            scoped_roles: Vec::new(),
            runner: (role == Role::Agent).then(|| RUNNER.parse().unwrap()),
            operator: false,
            sign_in: SignIn::default(),
        };
        let stored = TokenRecord {
            hash: bearer::hash(secret.expose_secret()),
            principal,
            description: role.as_str().to_owned(),
            created_at: now,
            expires_at: None,
            labels: [].into(),
            grant: None,
        };
        (secret, stored)
    }

    /// Writes the deployment with its first attempt, as the launcher does before it starts the job.
    pub(crate) async fn accept(&self, job: &JobRef) {
        let (table, now) = (&self.app.table, System.now());
        if table.deployment(self.org, job.deployment).await.unwrap().is_some() {
            return;
        }
        let mut environment = environment(job, now);
        table.create_environment(self.org, &environment, &record()).await.unwrap();
        let mut deployment = queued(job, &environment, now);
        environment.queue.join(deployment.id).unwrap();
        let fence = environment.queue.take(deployment.id).unwrap();
        environment.version += 1;
        let timeouts = RunnerDefinition::parse_stored(self.definition().await).unwrap().timeouts();
        let limits = Limits::new(timeouts, now);
        let hash = bearer::hash("never claimed");
        lifecycle::launch(&mut deployment, fence, hash, limits, now).unwrap();
        assert_eq!(deployment.open_attempt().unwrap().number, job.attempt);
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
        let record = record();
        let stored =
            table.accept_deployment(self.org, &deployment, &bundle, &environment, None, &record);
        stored.await.unwrap();
    }

    async fn definition(&self) -> Value {
        let found = self.app.table.runner(self.org, &RUNNER.parse().unwrap()).await.unwrap();
        serde_json::from_str(&found.unwrap().definition).unwrap()
    }
}

async fn app(folder: &TempDir, url: &str) -> App {
    let embedded = Embedded::open(&folder.path().join("canyon.db"), Arc::new(|| {})).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    let issuer = |url: &str, key: &str| {
        let signer = Arc::new(FileSigner::new(&folder.path().join(key)));
        Arc::new(Issuer::new(url, signer, vec![], Arc::new(System), Arc::new(System)))
    };
    App {
        table,
        blobs: Blobs::folder(&folder.path().join("blobs")).unwrap(),
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::known(MasterKey::new(&[7; 32]).unwrap())),
        issuer_url: url.to_owned(),
        job_issuer: issuer(&jobs_issuer_url(url), "job-issuer.pk8"),
        operator: None,
        changes: Changes::new(Duration::from_secs(1)),
        sign_in_verifier: Arc::new(SignInVerifier::new(
            PrivateIssuers::default(),
            Arc::new(System),
        )),
        authenticated: RecentTokens::default(),
        names: RecentNames::default(),
        agents: AgentRegistry::default(),
        api_url: url.to_owned(),
        up_since: Timestamp::MIN,
        job_token_life: canyon_functions::app::job_tokens::LIFE,
        serves_local_runners: true,
    }
}

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

/// An environment for each deployment, so that none waits for another.
fn environment(job: &JobRef, now: Timestamp) -> Environment {
    let name = format!("env-{}", job.deployment.0.simple());
    Environment {
        resources: canyon_domain::resource::ResourceSet::default(),
        id: name.parse().unwrap(),
        uuid: EnvUuid(Uuid::now_v7()),
        project_id: "shop".parse().unwrap(),
        project_uuid: Uuid::from_u128(4),
        env_type_id: "testing".parse().unwrap(),
        display_name: DisplayName::from_id(&name),
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

fn queued(job: &JobRef, environment: &Environment, now: Timestamp) -> Deployment {
    Deployment {
        resource: None,
        container: None,
        id: job.deployment,
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
        priority: Priority::Normal,
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
