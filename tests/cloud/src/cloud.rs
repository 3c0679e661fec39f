//! An installation of Canyon in an AWS for tests: the functions as real processes, configured as the
//! template says, with the rights that the template gives them.

use crate::api_gateway::{ApiConfig, ApiGateway, Routes};
use crate::compute::{self, Organization};
use crate::event_bus::{BusSettings, EventBus};
use crate::front::{Account, Front, Policy, Upstreams};
use crate::region::{ACCOUNT, REGION, Region};
use crate::runtime::{Credentials, Function, FunctionConfig};
use crate::stack::{EventSourceMapping, Rule, Statement};
use crate::streams::{Mapping, Settings, StreamSource};
use crate::target::{Asynchronous, Target};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use uuid::Uuid;

/// The functions.
pub const FUNCTIONS: [&str; 5] = ["api", "events", "issuer", "launcher", "sweep"];

/// The settings of one cloud.
#[derive(Clone, Debug)]
pub struct CloudConfig {
    /// The folder with the programs of [`FUNCTIONS`].
    pub programs: PathBuf,
    /// The program `canyon-runner`.
    pub runner: PathBuf,
    /// The `PATH` of functions and jobs.
    pub path: OsString,
    /// The folder of logs and jobs.
    pub folder: PathBuf,
    /// The factor by which AWS's waits are shortened: 30 makes two seconds of a minute.
    pub scale: u32,
    /// The seed of random decisions.
    pub seed: u64,
}

/// A running installation.
pub struct Cloud {
    /// The proxy between the functions and the services behind it: it checks rights, makes faults
    /// and records calls.
    pub front: Front,
    /// The bus.
    pub bus: EventBus,
    /// The stream and its mapping to the launcher.
    pub stream: Mapping,
    /// The stack's description, as `stack.py` prints it.
    pub stack: Value,
    /// The access key of its database in `DynamoDB` Local.
    pub database: String,
    functions: BTreeMap<&'static str, Function>,
    gateway: ApiGateway,
    organization: Organization,
    _tasks: JoinSet<()>,
}

impl Cloud {
    /// Starts an installation with a table and a bucket of its own. The bus's schedules run.
    ///
    /// # Panics
    /// If a program that it needs is missing or does not start.
    pub async fn start(config: CloudConfig) -> Self {
        let region = tokio::task::spawn_blocking(Region::shared).await;
        let region = region.unwrap_or_else(|error| panic!("no region: {error}"));
        let own = Uuid::new_v4().simple().to_string()[..12].to_owned();
        let stack = region.stack(&own);
        let table = text(&stack["table"]["create"]["TableName"]);
        create_table(region, &stack, &own).await;
        region.minio.create_bucket(&text(&stack["bucket"]["name"]));
        let front = front(region, &stack, &table, &own, config.seed);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.unwrap_or_else(|error| panic!("no listener: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
        let mut functions = BTreeMap::new();
        let mut endpoints = BTreeMap::new();
        for name in FUNCTIONS {
            let mut statements: Vec<Statement> = parse(&stack["roles"][name]);
            // The bucket policy's denials apply to every role.
            let of_bucket = &stack["bucket"]["policy"]["PolicyDocument"]["Statement"];
            statements.extend(parse::<Vec<Statement>>(of_bucket));
            let policy = Policy::read(&statements).unwrap_or_else(|e| panic!("role {name}: {e}"));
            let endpoint = front.open(name, policy).await.unwrap_or_else(|e| panic!("{e}"));
            let url = format!("http://{address}");
            let function = function(region, &config, &stack, name, &endpoint, &url);
            endpoints.insert(name, endpoint);
            functions.insert(name, Function::new(function));
        }
        let bus = event_bus(&stack, &functions, &config);
        front.on_put_events(bus.intake());
        let stream = stream(region, &stack, &table, &endpoints["launcher"], &functions, &front);
        let stream = stream.await.unwrap_or_else(|error| panic!("no stream: {error}"));
        let routes = routes(&stack, &functions);
        let gateway = ApiGateway::serve(listener, ApiConfig::default(), routes);
        let organization = Organization::default();
        let mut tasks = JoinSet::new();
        let jobs = config.folder.join("jobs");
        tasks.spawn(compute::watch(jobs, organization.clone(), bus.clone()));
        bus.run_schedules(true);
        let database = own;
        Self {
            front,
            bus,
            stream,
            stack,
            database,
            functions,
            gateway,
            organization,
            _tasks: tasks,
        }
    }

    /// The URL of its API.
    pub fn url(&self) -> String {
        self.gateway.url()
    }

    /// The routes of its API, for another API in front of the same functions.
    pub fn routes(&self) -> Routes {
        routes(&self.stack, &self.functions)
    }

    /// One of [`FUNCTIONS`].
    ///
    /// # Panics
    /// If no function has that name.
    pub fn function(&self, name: &str) -> &Function {
        &self.functions[name]
    }

    /// From now on the bus gets an event when a job of this organization stops.
    pub fn jobs_belong_to(&self, organization: Uuid) {
        // One organization is enough for a test.
        let _ = self.organization.set(organization);
    }

    /// Kills every process of every function, and prevents new ones from starting.
    pub async fn go_down(&self) {
        for function in self.functions.values() {
            function.limit_concurrency(0);
            function.restart_all().await;
        }
    }

    /// Allows processes to start again.
    pub fn come_up(&self) {
        for function in self.functions.values() {
            function.limit_concurrency(function.config().max_concurrency);
        }
    }

    /// The logs of all functions.
    pub fn log(&self) -> String {
        let logs = self.functions.iter().map(|(name, function)| {
            let log = function.log();
            let start = log.char_indices().rev().nth(6_000).map_or(0, |(at, _)| at);
            format!("--- {name}\n{}", &log[start..])
        });
        let denied: Vec<_> = self.front.denied();
        format!("{}\n--- denied: {denied:?}", logs.collect::<String>())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("the stack's description lacks a text")).to_owned()
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_else(|error| panic!("the stack's description: {error}"))
}

fn front(region: &Region, stack: &Value, table: &str, database: &str, seed: u64) -> Front {
    let account = Account {
        id: ACCOUNT.to_owned(),
        region: REGION.to_owned(),
        streams: BTreeMap::from([(table.to_owned(), text(&stack["table"]["stream_arn"]))]),
        key_aliases: BTreeMap::new(),
    };
    let upstreams = Upstreams {
        dynamodb: region.dynamodb.url().to_owned(),
        database: Some(database.to_owned()),
        s3: region.minio.url().to_owned(),
        other: region.moto.url().to_owned(),
    };
    Front::new(account, upstreams, seed)
}

/// The most sweeps at once.
const SWEEPS: usize = 3;

fn function(
    region: &Region,
    config: &CloudConfig,
    stack: &Value,
    name: &str,
    endpoint: &str,
    url: &str,
) -> FunctionConfig {
    let described = &stack["functions"][name];
    let program = config.programs.join(name);
    let mut function = FunctionConfig::new(text(&described["name"]), program, &config.folder);
    function.environment = parse(&described["environment"]);
    function.timeout = Duration::from_secs(described["timeout"].as_u64().unwrap_or(3));
    function.memory_mb = parse(&described["memory"]);
    function.path.clone_from(&config.path);
    // For fifty callers with long polls, and the others.
    function.max_concurrency = 200;
    if name == "sweep" {
        // On AWS a sweep ends before the next one begins: its time limit is shorter than a minute. The minutes of a test are
        // so short that, on a busy machine, dozens would run at once, and keep it busy.
        function.max_concurrency = SWEEPS;
    }
    if name == "events" {
        let retries = &described["asynchronous"]["MaximumRetryAttempts"];
        function.asynchronous.maximum_retry_attempts = parse(retries);
        function.asynchronous.time_scale = config.scale;
    }
    // All functions share these credentials: MinIO has only this user.
    function.credentials = Credentials {
        access_key_id: region.minio.access_key_id().to_owned(),
        secret_access_key: region.minio.secret_access_key().to_owned(),
        session_token: String::new(),
    };
    let jobs = config.folder.join("jobs");
    function
        .with("AWS_ENDPOINT_URL", endpoint)
        .with("CANYON_API_URL", url)
        .with("CANYON_LOCAL_JOBS", jobs.display().to_string())
        // A cluster at an unreachable address is a closed port of this machine.
        .with("CANYON_ALLOW_LOCAL_CLUSTERS", "true".to_owned())
        .with("CANYON_RUNNER_PROGRAM", config.runner.display().to_string())
}

/// The routes that the template gives the API.
fn routes(stack: &Value, functions: &BTreeMap<&'static str, Function>) -> Routes {
    let described: BTreeMap<String, String> = parse(&stack["api"]["routes"]);
    Routes::new(described.into_iter().map(|(key, name)| (key, functions[name.as_str()].clone())))
}

fn event_bus(
    stack: &Value,
    functions: &BTreeMap<&'static str, Function>,
    config: &CloudConfig,
) -> EventBus {
    let target = |function: &Function| -> (String, Arc<dyn Target>) {
        (function.arn(), Arc::new(Asynchronous(function.clone())))
    };
    let settings = BusSettings {
        account: ACCOUNT.to_owned(),
        region: REGION.to_owned(),
        rules: parse::<Vec<Rule>>(&stack["rules"]),
        targets: functions.values().map(target).collect(),
        scale: config.scale.into(),
        seed: config.seed,
    };
    EventBus::start(settings).unwrap_or_else(|error| panic!("no bus: {error}"))
}

async fn stream(
    region: &Region,
    stack: &Value,
    table: &str,
    endpoint: &str,
    functions: &BTreeMap<&'static str, Function>,
    front: &Front,
) -> Result<Mapping, String> {
    let mapping: EventSourceMapping = parse(&stack["event_source_mapping"]);
    let launcher = functions["launcher"].clone();
    let role = front.clone();
    let settings = Settings {
        source: StreamSource {
            // Lambda reads with the launcher's role, which must therefore allow it.
            endpoint: endpoint.to_owned(),
            access_key: region.minio.access_key_id().to_owned(),
            region: REGION.to_owned(),
            table: table.to_owned(),
        },
        function_arn: launcher.arn(),
        target: Arc::new(launcher),
        may_send: Box::new(move |queue| role.authorize("launcher", "sqs:SendMessage", queue)),
        scale: 10.0,
        seed: 1,
    };
    Mapping::start(&mapping, settings).await
}

/// The table as the template describes it, in the database of this access key.
async fn create_table(region: &Region, stack: &Value, database: &str) {
    let create = &stack["table"]["create"];
    let ttl = json!({
        "TableName": create["TableName"], "TimeToLiveSpecification": stack["table"]["ttl"],
    });
    for (operation, body) in [("CreateTable", create), ("UpdateTimeToLive", &ttl)] {
        let scope = format!("{database}/20260101/{REGION}/dynamodb/aws4_request");
        let signed = "SignedHeaders=host;x-amz-date;x-amz-target, Signature=00";
        let answer = reqwest::Client::new()
            .post(region.dynamodb.url())
            .header("authorization", format!("AWS4-HMAC-SHA256 Credential={scope}, {signed}"))
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("content-type", "application/x-amz-json-1.0")
            .body(body.to_string())
            .send()
            .await
            .unwrap_or_else(|error| panic!("{operation}: {error}"));
        let (status, said) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "{operation}: {status} {said}");
    }
}

/// Whether a folder holds the functions' programs.
///
/// # Panics
/// With the command that builds what is missing.
pub fn check_programs(folder: &Path) {
    for name in FUNCTIONS {
        assert!(
            folder.join(name).is_file(),
            "`{}` is missing; run `cargo build -p canyon-functions -p canyon-launcher --features \
             canyon-launcher/local-jobs`",
            folder.join(name).display()
        );
    }
}
