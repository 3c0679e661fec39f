//! A separate API for each test, with two organizations and a token of each role.

use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::ports::{Clock, Entropy};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_functions::app::agent_registry::AgentRegistry;
use canyon_functions::app::authentication::RecentTokens;
use canyon_functions::app::names::RecentNames;
use canyon_functions::app::token_exchange::SignInVerifier;
use canyon_functions::http::{self, HttpSettings, Issuers};
use canyon_functions::{App, changes::Changes};
use canyon_identity::bearer;
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::{Issuer, jobs_issuer_url};
use canyon_identity::master_key::MasterKey;
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::PrivateIssuers;
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use canyon_store::embedded::Embedded;
use canyon_store::meter::Meter;
use canyon_store::organizations::TokenRecord;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// The token of the installation's operator.
pub(crate) const OPERATOR: &str = "cya_b3BlcmF0b3Itb3BlcmF0b3Itb3BlcmF0b3ItMDAwMDA";

/// A clock that tests advance.
#[derive(Debug)]
pub(crate) struct TestClock(Mutex<Timestamp>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        // Each read is a millisecond later than the last one, so that records are sorted by creation.
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_millis(1);
        *now
    }
}

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

/// An organization with a token of each role.
#[derive(Clone, Debug)]
pub(crate) struct Org {
    pub(crate) id: String,
    pub(crate) uuid: OrgUuid,
    pub(crate) viewer: String,
    pub(crate) deployer: String,
    pub(crate) admin: String,
}

/// A running API. Most calls use the administrator's token of `ours`.
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) app: App,
    pub(crate) issuers: Issuers,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) ours: Org,
    pub(crate) theirs: Org,
    pub(crate) http: reqwest::Client,
    _folder: TempDir,
}

/// The status of an answer and its body, `null` if it has none.
pub(crate) type Answer = (u16, Value);

impl Api {
    pub(crate) async fn start() -> Self {
        Self::start_with(true).await
    }

    /// As on a laptop if it serves local runners, else as on AWS.
    pub(crate) async fn start_with(serves_local_runners: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let changes = Changes::new(Duration::from_millis(200));
        let hints = changes.clone();
        let on_write = Arc::new(move |request: &[u8]| hints.written(request));
        let embedded =
            Embedded::open_with_request_hook(&folder.path().join("canyon.db"), on_write).unwrap();
        let table = embedded.table("canyon");
        let table = if serves_local_runners { table } else { table.with_published_ends() };
        table.ensure().await.unwrap();
        let clock = Arc::new(TestClock(Mutex::new("2026-01-15T12:00:00Z".parse().unwrap())));
        let ours = organization(&table, clock.as_ref(), "our-org").await;
        let theirs = organization(&table, clock.as_ref(), "their-org").await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = |url: &str, key: &str| {
            let signer = Arc::new(FileSigner::new(&folder.path().join(key)));
            Arc::new(Issuer::new(url, signer, vec![], clock.clone(), Arc::new(System)))
        };
        let issuers = Issuers {
            runners: issuer(&url, "issuer.pk8"),
            jobs: issuer(&jobs_issuer_url(&url), "job-issuer.pk8"),
        };
        let app = App {
            table,
            blobs: Blobs::folder(&folder.path().join("blobs")).unwrap(),
            clock: clock.clone(),
            entropy: Arc::new(System),
            master_keys: Arc::new(MasterKeys::known(MasterKey::new(&[7; 32]).unwrap())),
            issuer_url: url.clone(),
            job_issuer: issuers.jobs.clone(),
            operator: Some(bearer::hash(OPERATOR)),
            changes,
            sign_in_verifier: Arc::new(SignInVerifier::new(
                PrivateIssuers::default(),
                clock.clone(),
            )),
            authenticated: RecentTokens::default(),
            names: RecentNames::default(),
            agents: AgentRegistry::default(),
            api_url: url.clone(),
            up_since: jiff::Timestamp::MIN,
            job_token_life: canyon_functions::app::job_tokens::LIFE,
            serves_local_runners,
        };
        let router = http::router(app.clone(), Some(issuers.clone()), &HttpSettings::default());
        // It ends with the test's runtime.
        let router = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, app, issuers, clock, ours, theirs, http, _folder: folder }
    }

    /// Serves the same organizations at another address, after `change`.
    pub(crate) async fn serve_again(
        &mut self,
        change: impl FnOnce(App) -> App,
        settings: &HttpSettings,
    ) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.url = format!("http://{}", listener.local_addr().unwrap());
        self.app = change(self.app.clone());
        let router = http::router(self.app.clone(), Some(self.issuers.clone()), settings);
        let router = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await });
    }

    /// Serves the same organizations again, and counts the requests to the table from now on. As on AWS, each read is then one.
    pub(crate) async fn serve_metered(&mut self) -> Meter {
        let meter = Meter::default();
        let change = |app: App| App { table: meter.watch(&app.table), ..app };
        self.serve_again(change, &HttpSettings::default()).await;
        meter
    }

    /// Lets the clock run in real time until the test ends.
    pub(crate) fn run_clock(&self) {
        const TICK: Duration = Duration::from_millis(50);
        let clock = self.clock.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                clock.advance(TICK);
            }
        });
    }

    /// Sends a request unchanged; `body` has the content type JSON.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Vec<u8>>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let mut body =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        // It differs in each answer; `request_ids` tests it.
        if let Some(refusal) = body.as_object_mut() {
            refusal.remove("request_id");
        }
        (status, body)
    }

    /// Sends with `token` to `path` below our organization.
    pub(crate) async fn call_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(|body| body.to_string().into_bytes());
        self.send(method, &format!("/orgs/{}{path}", self.ours.id), Some(token), body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call_as(&self.ours.admin, Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call_as(&self.ours.admin, Method::POST, path, Some(&body)).await
    }

    /// Sends without a body.
    pub(crate) async fn act(&self, path: &str) -> Answer {
        self.call_as(&self.ours.admin, Method::POST, path, None).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call_as(&self.ours.admin, Method::PATCH, path, Some(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call_as(&self.ours.admin, Method::DELETE, path, None).await
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn make(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, 201, "{path}: {answer}");
        answer
    }

    /// A project, a type, a runner and a rule for everything: the prerequisites of an environment.
    pub(crate) async fn furnish(&self) {
        self.make("/projects", json!({ "id": "shop" })).await;
        self.make("/env-types", json!({ "id": "dev" })).await;
        self.make("/runners", local_runner("shared")).await;
        self.make("/runner-rules", json!({ "runner_id": "shared" })).await;
    }

    /// The audit list, newest first: `action subject`.
    pub(crate) async fn audit(&self) -> Vec<String> {
        let (status, page) = self.get("/audit-records?per_page=100").await;
        assert_eq!(status, 200, "{page}");
        let text = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
        let items = page["items"].as_array().unwrap();
        items.iter().map(|r| format!("{} {}", text(r, "action"), text(r, "subject"))).collect()
    }
}

pub(crate) fn local_runner(id: &str) -> Value {
    json!({
        "id": id,
        "runner_configuration": { "type": "local" },
        "state_storage_configuration": { "type": "local", "path": "/var/lib/state" },
    })
}

/// `value` with every part replaced that differs between runs.
pub(crate) fn settled(value: &Value) -> String {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(members) => members.values_mut().for_each(walk),
            Value::Array(items) => items.iter_mut().for_each(walk),
            Value::String(text) if text.parse::<uuid::Uuid>().is_ok() => "[uuid]".clone_into(text),
            Value::String(text) if text.parse::<Timestamp>().is_ok() => "[time]".clone_into(text),
            _ => {}
        }
    }
    let mut value = value.clone();
    walk(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

/// The message of a refusal.
pub(crate) fn message(answer: &Answer) -> &str {
    answer.1["message"].as_str().unwrap()
}

/// The path of each faulty field of a refusal.
pub(crate) fn faults(answer: &Answer) -> Vec<&str> {
    let fields = answer.1["details"]["fields"].as_array();
    fields.into_iter().flatten().map(|field| field["path"].as_str().unwrap()).collect()
}

async fn organization(table: &Table, clock: &TestClock, id: &str) -> Org {
    let at = clock.now();
    let uuid = OrgUuid(System.id(at));
    let token = |role: Role, operator: bool| {
        let secret = bearer::api_token(&System).expose_secret().to_owned();
        let principal = Principal {
            id: PrincipalId(System.id(at)),
            org: uuid,
            org_id: id.parse().unwrap(),
            role,
            scoped_roles: Vec::new(),
            runner: None,
            operator,
            sign_in: SignIn::default(),
        };
        let record = TokenRecord {
            hash: bearer::hash(&secret),
            principal,
            description: role.as_str().to_owned(),
            created_at: at,
            expires_at: None,
            labels: [].into(),
            grant: None,
        };
        (secret, record)
    };
    let record = |by: PrincipalId, action: &str| canyon_domain::audit::AuditRecord {
        id: System.id(at),
        at,
        by,
        action: action.to_owned(),
        subject: "the test".to_owned(),
        by_right: "canyon".to_owned(),
        details: Vec::new(),
    };
    let (admin, stored) = token(Role::Admin, id == "our-org");
    let by = stored.principal.id;
    let made = Organization::new(id.parse().unwrap(), uuid, at, by);
    table.create_organization(&made, &stored, &record(by, "organization.create")).await.unwrap();
    let mut others = Vec::new();
    for role in [Role::Viewer, Role::Deployer] {
        let (secret, stored) = token(role, false);
        table.create_token(&stored, &record(by, "token.create")).await.unwrap();
        others.push(secret);
    }
    let [viewer, deployer] = others.try_into().unwrap();
    Org { id: id.to_owned(), uuid, viewer, deployer, admin }
}
