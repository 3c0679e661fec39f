//! An account with a cluster, simulated by `tests/strict/ecs`: a second implementation of ECS.

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use canyon_dispatch::ecs::{EcsDefaults, EcsPlatform};
use canyon_dispatch::{
    AmbientAws, Dispatcher, JobRef, Permit, Platform as _, Rate, RateLimiter, Target,
};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::ports::Clock;
use canyon_domain::runner::RunnerDefinition;
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::bearer::AttemptRef;
use canyon_identity::federation::{Endpoints, Federation, RunnerIdentity};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::Issuer;
use canyon_identity::job_name::job_name;
use canyon_identity::system::System;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const ACCOUNT: &str = "111122223333";
pub(crate) const REGION: &str = "eu-west-1";
/// The image of `act.c`.
pub(crate) const IMAGE: &str = "canyon.test/act:1";
pub(crate) const LOG_GROUP: &str = "/canyon/runner";
pub(crate) const ORG: OrgUuid = OrgUuid(Uuid::from_u128(7));

/// The simulated service, for one test.
pub(crate) struct Account {
    folder: TempDir,
    program: Child,
    addresses: HashMap<String, String>,
    runner: RunnerUuid,
    clock: Arc<MovedClock>,
    pub(crate) platform: Arc<EcsPlatform>,
}

/// A clock that moves with that of the service.
#[derive(Default)]
pub(crate) struct MovedClock(AtomicI64);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        let ahead = Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs());
        System.now() + ahead
    }
}

struct NoRateLimiter;

#[async_trait]
impl RateLimiter for NoRateLimiter {
    async fn acquire(&self, _: &Rate, _: Duration) -> Result<Permit, Box<dyn Error + Send + Sync>> {
        Ok(Permit::Granted(Duration::ZERO))
    }
}

impl Account {
    /// An account that allows everything that the documentation asks for. `behaviour` has the
    /// settings of `tests/strict/ecs/settings.py`.
    pub(crate) fn new(behaviour: &Value) -> Self {
        Self::with(behaviour, |_| {})
    }

    /// The same account with a changed state.
    pub(crate) fn with(behaviour: &Value, change: impl FnOnce(&mut Value)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state(behaviour);
        change(&mut state);
        let config = folder.path().join("state.json");
        std::fs::write(&config, state.to_string()).unwrap();
        let (program, addresses) = start(&["strict.ecs", "--believe"], &config);
        let clock = Arc::<MovedClock>::default();
        let platform = platform(folder.path(), &addresses, &clock, Arc::new(NoRateLimiter));
        let runner = RunnerUuid(Uuid::now_v7());
        Self { folder, program, addresses, runner, clock, platform }
    }

    /// A second Canyon process, with empty caches.
    pub(crate) fn another_canyon(&self) -> Arc<EcsPlatform> {
        self.canyon_at(Arc::new(NoRateLimiter))
    }

    /// A Canyon that shares its rate limiter with others.
    pub(crate) fn canyon_at(&self, limiter: Arc<dyn RateLimiter>) -> Arc<EcsPlatform> {
        platform(self.folder.path(), &self.addresses, &self.clock, limiter)
    }

    pub(crate) fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.runner(|_| {})
    }

    /// The platform of an agent in the account, with its own role's credentials and these settings.
    pub(crate) async fn in_place(&self, defaults: EcsDefaults) -> Arc<EcsPlatform> {
        let (federation, found) = self.agents_role().await;
        let endpoints = federation.endpoints().clone();
        let provider = SharedCredentialsProvider::new(found);
        let ambient = AmbientAws::new(provider, federation.aws_http(), endpoints);
        let platform = EcsPlatform::for_agent(Arc::new(ambient), Arc::new(NoRateLimiter), defaults);
        Arc::new(platform.with_clock(self.clock.clone()))
    }

    async fn agents_role(&self) -> (Federation, Credentials) {
        let federation = federation(self.folder.path(), &self.addresses);
        let auth = AwsAuth {
            role_arn: format!("arn:aws:iam::{ACCOUNT}:role/canyon"),
            ..AwsAuth::default()
        };
        let who = RunnerIdentity { org: ORG, runner: self.runner };
        let found = federation.aws(who, &auth, REGION, "agent").await.unwrap();
        (federation, found)
    }

    /// The environment of an agent that runs as its own process, with the same credentials.
    #[allow(dead_code, reason = "for jobs by an agent")]
    pub(crate) async fn in_place_variables(&self) -> Vec<(String, String)> {
        let (_, found) = self.agents_role().await;
        let credentials = [
            ("AWS_ACCESS_KEY_ID", found.access_key_id()),
            ("AWS_SECRET_ACCESS_KEY", found.secret_access_key()),
            ("AWS_SESSION_TOKEN", found.session_token().unwrap()),
        ];
        let credentials = credentials.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.endpoint_variables().into_iter().chain(credentials).collect()
    }

    /// The variables that name the addresses of its services.
    #[allow(dead_code, reason = "for other processes")]
    pub(crate) fn endpoint_variables(&self) -> [(String, String); 3] {
        [
            ("AWS_ENDPOINT_URL_STS", "aws_sts"),
            ("AWS_ENDPOINT_URL_ECS", "aws_ecs"),
            ("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", "aws_logs"),
        ]
        .map(|(name, service)| (name.to_owned(), self.addresses[service].clone()))
    }

    /// A runner of type `ecs-agent`.
    pub(crate) fn target_by_agent(&self, job: &Value) -> Arc<Target> {
        let definition = json!({
            "runner_configuration": { "type": "ecs-agent", "job": job },
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        });
        Arc::new(Target {
            definition: RunnerDefinition::parse(definition).unwrap(),
            ..(*self.target(|_| {})).clone()
        })
    }

    /// The dispatcher of a runner with a changed `job`.
    pub(crate) fn runner(&self, change: impl FnOnce(&mut Value)) -> Arc<dyn Dispatcher> {
        let target = self.target(change);
        self.platform.dispatcher(&target)
    }

    pub(crate) fn target(&self, change: impl FnOnce(&mut Value)) -> Arc<Target> {
        let mut job = job();
        change(&mut job);
        let definition = json!({
            "runner_configuration": {
                "type": "serverless-ecs",
                "auth": { "role_arn": format!("arn:aws:iam::{ACCOUNT}:role/canyon") },
                "job": job,
            },
            "state_storage_configuration": { "type": "s3", "bucket": "states", "path_prefix": "c" },
        });
        Arc::new(Target {
            org: ORG,
            org_id: "acme".parse().unwrap(),
            agent: None,
            runner: self.runner,
            runner_id: "on-fargate".parse().unwrap(),
            definition: RunnerDefinition::parse(definition).unwrap(),
        })
    }

    pub(crate) fn faults(&self, faults: &Value) {
        self.tell("/faults", faults);
    }

    /// Moves the service's clock and Canyon's.
    pub(crate) fn time_passes(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
        self.tell("/clock", &json!({ "seconds": seconds }));
    }

    pub(crate) fn tell(&self, path: &str, what: &Value) {
        self.ask("ecs_control", "POST", path, what);
    }

    pub(crate) fn all_tasks(&self) -> Vec<Value> {
        let all = self.ask("ecs_control", "GET", "/tasks", &Value::Null);
        all.as_array().unwrap().clone()
    }

    /// The tasks that were started for this job.
    pub(crate) fn tasks(&self, job: &JobRef) -> Vec<Value> {
        let name = started_by(job);
        let mut all = self.all_tasks();
        all.retain(|task| task["startedBy"] == name.as_str());
        all
    }

    /// How many calls of this action ECS has throttled.
    #[allow(dead_code, reason = "not for jobs by an agent")]
    pub(crate) fn throttled(&self, action: &str) -> usize {
        let calls = self.ask("admin", "GET", "/calls", &Value::Null);
        let calls = calls.as_array().unwrap().iter().filter(|call| call["action"] == action);
        calls.filter(|call| call["code"] == "ThrottlingException").count()
    }

    pub(crate) fn task(&self, job: &JobRef) -> Value {
        let mut tasks = self.tasks(job);
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        tasks.remove(0)
    }

    /// The bodies of all calls of this action.
    pub(crate) fn bodies(&self, action: &str) -> Vec<Value> {
        let all = self.ask("ecs_control", "GET", "/bodies", &Value::Null);
        let all = all.as_array().unwrap().iter().filter(|call| call["action"] == action);
        all.map(|call| serde_json::from_str(call["body"].as_str().unwrap()).unwrap()).collect()
    }

    fn ask(&self, service: &str, method: &str, path: &str, body: &Value) -> Value {
        let address = self.addresses[service].trim_start_matches("http://");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut connection = TcpStream::connect(address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        write!(connection, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The program ends when its input does, and removes its containers.
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

pub(crate) fn started_by(job: &JobRef) -> String {
    job_name(AttemptRef { org: ORG, deployment: job.deployment, number: job.attempt })
}

/// The `job` of a runner.
fn job() -> Value {
    json!({
        "region": REGION,
        "cluster": "jobs",
        "subnets": ["subnet-0a", "subnet-0b", "subnet-0c"],
        "security_groups": ["sg-0a"],
        "execution_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/execution"),
        "task_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/task"),
        "cpu": 256,
        "memory": 512,
        "log_group": LOG_GROUP,
    })
}

fn state(behaviour: &Value) -> Value {
    let allow = |actions: &[&str], resource: &str| json!({ "Effect": "Allow", "Action": actions, "Resource": resource });
    let trust = json!({
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": { "Federated": format!("arn:aws:iam::{ACCOUNT}:oidc-provider/tests") },
            "Action": "sts:AssumeRoleWithWebIdentity",
        },
    });
    let policy = json!({
        "Version": "2012-10-17",
        "Statement": [
            allow(&["ecs:RegisterTaskDefinition", "ecs:DescribeTaskDefinition", "ecs:ListTasks"], "*"),
            allow(&["ecs:RunTask"], &format!("arn:aws:ecs:*:{ACCOUNT}:task-definition/canyon-*")),
            allow(&["ecs:DescribeTasks", "ecs:StopTask"], &format!("arn:aws:ecs:*:{ACCOUNT}:task/jobs/*")),
            allow(&["ecs:TagResource"], &format!("arn:aws:ecs:*:{ACCOUNT}:task*")),
            allow(&["ecs:DescribeClusters"], &format!("arn:aws:ecs:*:{ACCOUNT}:cluster/jobs")),
            allow(&["iam:PassRole"], &format!("arn:aws:iam::{ACCOUNT}:role/execution")),
            allow(&["iam:PassRole"], &format!("arn:aws:iam::{ACCOUNT}:role/task")),
            allow(&["logs:GetLogEvents"], &format!("arn:aws:logs:*:{ACCOUNT}:log-group:{LOG_GROUP}:*")),
        ],
    });
    let account = json!({
        "oidc_providers": [],
        "roles": { "canyon": { "trust_policy": trust, "policies": [policy] } },
        "ecs": {
            "clusters": ["jobs"],
            "subnets": {
                "subnet-0a": { "az": "a" }, "subnet-0b": { "az": "b" }, "subnet-0c": { "az": "c" },
            },
            "security_groups": ["sg-0a"],
            "log_groups": [LOG_GROUP],
        },
    });
    json!({ "aws": { "accounts": { ACCOUNT: account }, "ecs": behaviour } })
}

/// Starts a module of `tests` with its arguments; returns the addresses of its servers.
pub(crate) fn start(module: &[&str], config: &Path) -> (Child, HashMap<String, String>) {
    let missing = "CANYON_TEST_AWS_PYTHON is not set; run ./scripts/setup aws-tools";
    let python = std::env::var("CANYON_TEST_AWS_PYTHON").unwrap_or_else(|_| panic!("{missing}"));
    let mut program = Command::new(python)
        .args(["-B", "-m"])
        .args(module)
        .arg("--config")
        .arg(config)
        .current_dir(tests_folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut addresses = HashMap::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        match line.unwrap().split_once('=') {
            Some((name, address)) => addresses.insert(name.to_owned(), address.to_owned()),
            None => return (program, addresses),
        };
    }
    panic!("{module:?} ended: {:?}", program.wait());
}

fn platform(
    folder: &Path,
    addresses: &HashMap<String, String>,
    clock: &Arc<MovedClock>,
    limiter: Arc<dyn RateLimiter>,
) -> Arc<EcsPlatform> {
    let image = Some(IMAGE.to_owned());
    let platform = EcsPlatform::new(Arc::new(federation(folder, addresses)), limiter, image);
    Arc::new(platform.with_clock(clock.clone()))
}

fn federation(folder: &Path, addresses: &HashMap<String, String>) -> Federation {
    let signer = Arc::new(FileSigner::new(&folder.join("issuer.pk8")));
    let system = || Arc::new(System);
    let issuer = Issuer::new("https://canyon.example", signer, vec![], system(), system());
    let endpoints = Endpoints::from_variables(&|name| {
        let service = match name {
            "AWS_ENDPOINT_URL_STS" => "aws_sts",
            "AWS_ENDPOINT_URL_ECS" => "aws_ecs",
            "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS" => "aws_logs",
            _ => return None,
        };
        addresses.get(service).cloned()
    });
    Federation::new(Arc::new(issuer), endpoints, system())
}

/// The folder `tests` of the workspace, from whichever crate this file is built.
fn tests_folder() -> std::path::PathBuf {
    let mut folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    while !folder.join("Cargo.lock").exists() {
        folder = folder.parent().unwrap();
    }
    folder.join("tests")
}
