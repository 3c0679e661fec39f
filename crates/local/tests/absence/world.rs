//! Canyon in this process, with a clock that the test controls: the API over HTTP, and a launcher that makes its passes
//! as that clock advances.

use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::ports::{Clock, Entropy as _};
use canyon_domain::principal::{Principal, Role, SignIn};
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
use canyon_launcher::{Launcher, Sweeper, agents};
use canyon_store::blobs::Blobs;
use canyon_store::embedded::Embedded;
use canyon_store::organizations::TokenRecord;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use uuid::Uuid;

/// The runner of every deployment.
pub(crate) const RUNNER: &str = "far";
const ORG: &str = "acme";
/// The time between two passes of the launcher, in seconds.
const STEP: i64 = 5;
/// After so many passes, nothing may be due any more.
const MAX_PASSES: usize = 50;

/// The system's time, plus what the test adds to it.
#[derive(Clone, Default)]
struct AdjustedClock(Arc<Mutex<SignedDuration>>);

impl Clock for AdjustedClock {
    fn now(&self) -> Timestamp {
        System.now() + *self.0.lock().unwrap()
    }
}

/// A running Canyon. It ends with the test's runtime.
pub(crate) struct World {
    clock: AdjustedClock,
    sweeper: Sweeper,
    url: String,
    http: reqwest::Client,
    admin: String,
    _folder: TempDir,
}

impl World {
    /// Starts Canyon with a runner that agents serve, and two environments.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock = AdjustedClock::default();
        let app = app(&folder, &url, &clock).await;
        let admin = organization(&app).await;
        let served = router(app.clone(), None, &HttpSettings::default());
        tokio::spawn(async move { axum::serve(listener, served).await });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let sweeper = Sweeper::new(launcher(app));
        let world = Self { clock, sweeper, url, http, admin, _folder: folder };
        let runner = json!({
            "id": RUNNER,
            // Long enough for every job of these tests.
            "runner_configuration": { "type": "docker-agent", "job": { "timeouts": { "run_seconds": 7200 } } },
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        });
        world.make("/runners", runner).await;
        world.make("/runner-rules", json!({ "runner_id": RUNNER })).await;
        world.make("/env-types", json!({ "id": "dev" })).await;
        world.make("/projects", json!({ "id": "shop" })).await;
        for env in ["one", "two"] {
            world.make("/projects/shop/envs", json!({ "id": env, "env_type_id": "dev" })).await;
        }
        world
    }

    /// Sends a request with `token`, below the organization.
    pub(crate) async fn call(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let url = format!("{}/orgs/{ORG}{path}", self.url);
        // The runner that the test plays understands every job.
        let format = canyon_domain::job::FORMAT.to_string();
        let mut request =
            self.http.request(method, url).bearer_auth(token).header("canyon-job-format", format);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// Creates something; must succeed.
    pub(crate) async fn make(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(&self.admin, Method::POST, path, Some(&body)).await;
        assert_eq!(status, 201, "{path}: {answer}");
        answer
    }

    /// Creates a deployment, and lets the launcher make its passes.
    pub(crate) async fn deploy(&self, env: &str) -> String {
        let module = json!({ "source": "inline", "source_code": "# nothing" });
        let body =
            json!({ "project_id": "shop", "env_id": env, "mode": "deploy", "module": module });
        let made = self.make("/deployments", body).await;
        self.launcher_passes().await;
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn deployment(&self, id: &str) -> Value {
        let path = format!("/deployments/{id}");
        let (status, found) = self.call(&self.admin, Method::GET, &path, None).await;
        assert_eq!(status, 200, "{found}");
        found
    }

    /// Lets so many seconds pass, and the launcher do what becomes due.
    pub(crate) async fn pass(&self, seconds: i64) {
        for _ in 0..seconds / STEP {
            *self.clock.0.lock().unwrap() += SignedDuration::from_secs(STEP);
            self.launcher_passes().await;
        }
    }

    async fn launcher_passes(&self) {
        for _ in 0..MAX_PASSES {
            let mut tasks = JoinSet::new();
            let pass = self.sweeper.pass(&mut tasks).await.unwrap();
            tasks.join_all().await;
            if pass.due.is_empty() {
                return;
            }
        }
        panic!("something stays due after every pass");
    }
}

async fn app(folder: &TempDir, url: &str, clock: &AdjustedClock) -> App {
    let embedded = Embedded::open(&folder.path().join("canyon.db"), Arc::new(|| {})).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let issuer = |url: &str, key: &str| {
        let signer = Arc::new(FileSigner::new(&folder.path().join(key)));
        Arc::new(Issuer::new(url, signer, vec![], clock.clone(), Arc::new(System)))
    };
    App {
        table,
        blobs: Blobs::folder(&folder.path().join("blobs")).unwrap(),
        clock: clock.clone(),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::known(MasterKey::new(&[7; 32]).unwrap())),
        issuer_url: url.to_owned(),
        job_issuer: issuer(&jobs_issuer_url(url), "job-issuer.pk8"),
        operator: None,
        changes: Changes::new(Duration::from_secs(1)),
        sign_in_verifier: Arc::new(SignInVerifier::new(PrivateIssuers::default(), clock)),
        authenticated: RecentTokens::default(),
        names: RecentNames::default(),
        agents: AgentRegistry::default(),
        api_url: url.to_owned(),
        up_since: Timestamp::MIN,
        job_token_life: canyon_functions::app::job_tokens::LIFE,
        serves_local_runners: false,
    }
}

/// The wiring of `canyon local`, but the test decides when the launcher makes a pass.
fn launcher(app: App) -> Launcher {
    let hints = app.agents.hints.clone();
    let hint = Arc::new(move |org, agent: &_| hints.hint(org, agent));
    Launcher {
        platforms: agents::platforms(&app.table, &app.clock, hint, None, None),
        table: app.table,
        blobs: app.blobs,
        clock: app.clock,
        entropy: app.entropy,
        master_keys: app.master_keys,
        up_since: Timestamp::MIN,
        api_url: app.api_url,
        organizations: Arc::default(),
        last_job_lists: Arc::default(),
        limits: Arc::default(),
        publisher: None,
        signed_requests: None,
    }
}

/// Creates the organization, and returns its admin's token.
async fn organization(app: &App) -> String {
    let (now, secret) = (app.now(), bearer::api_token(&System).expose_secret().to_owned());
    let (org, by) = (OrgUuid(System.id(now)), PrincipalId(System.id(now)));
    let principal = Principal {
        id: by,
        org,
        org_id: ORG.parse().unwrap(),
        role: Role::Admin,
        scoped_roles: Vec::new(),
        runner: None,
        operator: false,
        sign_in: SignIn::default(),
    };
    let token = TokenRecord {
        hash: bearer::hash(&secret),
        principal,
        description: "the test's".to_owned(),
        created_at: now,
        expires_at: None,
        labels: [].into(),
        grant: None,
    };
    let record = AuditRecord {
        id: Uuid::now_v7(),
        at: now,
        by,
        action: "organization.create".to_owned(),
        subject: format!("orgs/{ORG}"),
        by_right: "canyon".to_owned(),
        details: Vec::new(),
    };
    let made = Organization::new(ORG.parse().unwrap(), org, now, by);
    app.table.create_organization(&made, &token, &record).await.unwrap();
    secret
}
