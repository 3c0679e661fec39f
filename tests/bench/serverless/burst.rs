//! A burst of deployments on ECS, with AWS's rates of calls and launches.
//!
//! The functions run as published, and the clock starts `sweep` every minute. ECS is `tests/strict/ecs`. The jobs have no
//! work, so the reading is what Canyon and ECS's rates allow. All are accepted before the first is launched, so that all
//! wait at once, however few this machine accepts in a second.

use crate::ecs_bed::{Account, IMAGE};
use crate::installation::Installation;
use crate::{Error, null_job, print};
use axum::extract::{Json, State};
use axum::routing::post;
use canyon_api::client::Client;
use canyon_cloud::event_bus::EventBus;
use canyon_identity::job_name::parse_job_name;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Deployments of each environment, which run one after the other.
const OF_AN_ENVIRONMENT: usize = 10;
/// Callers that create them concurrently.
const CALLERS: usize = 8;
/// From `RunTask` to the claim. On Fargate it takes 20 to 90 s.
const START: Duration = Duration::from_secs(2);
/// From the result until ECS shows that the container has stopped: the launcher asks until then, and ECS limits such calls.
const STOP: Duration = Duration::from_secs(3);
/// 10,000 launches take some 500 s at least.
const PATIENCE: Duration = Duration::from_mins(40);
const LOOK: Duration = Duration::from_secs(1);

/// Plays the tasks that ECS starts.
struct Player {
    client: Client,
    account: Arc<Account>,
    bus: EventBus,
    known: Mutex<HashSet<String>>,
}

pub(crate) async fn measure(installation: &Installation, size: usize) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let sink = format!("http://{}/", listener.local_addr()?);
    let account = Arc::new(Account::new(&json!({"event_sink": sink, "step_seconds": 0})));
    let mut variables = account.endpoint_variables().to_vec();
    variables.push(("CANYON_RUNNER_IMAGE".to_owned(), IMAGE.to_owned()));
    installation.watch_with(false, &variables).await?;
    let client = installation.client()?;
    let environments = size.div_ceil(OF_AN_ENVIRONMENT);
    prepare(&client, &account, environments).await?;
    let player = Arc::new(Player {
        client: client.clone(),
        account: account.clone(),
        bus: installation.cloud.bus.clone(),
        known: Mutex::default(),
    });
    let router = axum::Router::new().route("/", post(state_change)).with_state(player);
    tokio::spawn(axum::serve(listener, router).into_future());
    installation.meter.take();

    let begun = Instant::now();
    let launcher = installation.cloud.function("launcher");
    launcher.limit_concurrency(0);
    stream::iter(0..size)
        .map(|number| create(&client, number % environments, number))
        .buffer_unordered(CALLERS)
        .try_collect::<Vec<_>>()
        .await?;
    let accepted = begun.elapsed();
    let begun = Instant::now();
    launcher.limit_concurrency(launcher.config().max_concurrency);
    installation.cloud.bus.run_schedules(true);
    // An end may be published twice.
    let ended = |what: &str| {
        let events = installation.cloud.bus.published(what);
        events
            .iter()
            .filter_map(|event| event["detail"]["deployment_id"].as_str())
            .map(str::to_owned)
            .collect::<HashSet<_>>()
    };
    let failed = || ended("deployment.failed").len() + ended("deployment.cancelled").len();
    while ended("deployment.succeeded").len() + failed() < size {
        if begun.elapsed() > PATIENCE {
            let problem = format!("{} of {size} succeeded", ended("deployment.succeeded").len());
            return Err(format!("{problem}\n{}", installation.cloud.log()).into());
        }
        tokio::time::sleep(LOOK).await;
    }
    let drained = begun.elapsed();
    let requests: f64 = installation.meter.take().values().map(|usage| usage.requests).sum();
    let tasks = account.all_tasks();
    let attempts: HashSet<_> = tasks.iter().filter_map(|task| task["startedBy"].as_str()).collect();
    let run: HashSet<_> = attempts
        .iter()
        .filter_map(|name| Some(parse_job_name(name)?.deployment.to_string()))
        .collect();
    let never_ran: Vec<_> = ended("deployment.succeeded").difference(&run).cloned().collect();
    let calls: HashMap<_, _> = ["RunTask", "DescribeTasks", "ListTasks"]
        .map(|action| (action, [account.bodies(action).len(), account.throttled(action)]))
        .into_iter()
        .collect();
    let cpu: HashMap<_, _> = canyon_cloud::cloud::FUNCTIONS
        .map(|name| (name, cpu_seconds(installation, name)))
        .into_iter()
        .collect();
    print(&json!({
        "deployments": size, "environments": environments, "accepted_seconds": accepted.as_secs_f64(),
        "drained_seconds": drained.as_secs_f64(), "failed": failed(), "never_ran": never_ran,
        "tasks": tasks.len(), "attempts": attempts.len(), "calls": calls, "requests": requests,
        "cpu_seconds": cpu,
    }));
    Ok(())
}

/// Creates the runner, and the environments of a project that uses it.
async fn prepare(client: &Client, account: &Account, environments: usize) -> Result<(), Error> {
    let mut runner = account.target(|_| {}).definition.to_value();
    runner["id"] = json!("on-fargate");
    client.create(&["runners"], &runner).await?;
    client.create(&["projects"], &json!({"id": "burst"})).await?;
    let rule = json!({"runner_id": "on-fargate", "project_id": "burst"});
    client.create(&["runner-rules"], &rule).await?;
    let path = ["projects", "burst", "envs"];
    stream::iter(0..environments)
        .map(|number| async move {
            let body = json!({"id": format!("e{number}"), "env_type_id": "bench"});
            client.create(&path, &body).await.map(|_| ())
        })
        .buffer_unordered(CALLERS)
        .try_collect::<()>()
        .await?;
    Ok(())
}

async fn create(client: &Client, environment: usize, number: usize) -> Result<(), Error> {
    let body = json!({
        "mode": "deploy", "project_id": "burst", "env_id": format!("e{environment}"),
        "module": {"source": "inline", "source_code": "# nothing\n", "inputs": {}},
    });
    client.create_deployment(&serde_json::from_value(body)?, &format!("burst-{number}")).await?;
    Ok(())
}

/// ECS reports the state of a task, sometimes twice. A new task begins; a stopped one is told to the bus, as on AWS.
async fn state_change(State(player): State<Arc<Player>>, Json(event): Json<Value>) {
    let task = &event["detail"];
    let arn = task["taskArn"].as_str().unwrap_or_default().to_owned();
    if task["lastStatus"] == "STOPPED" {
        player.bus.put("default", event);
    } else if player.known.lock().unwrap_or_else(PoisonError::into_inner).insert(arn.clone()) {
        let variables = variables(task);
        tokio::spawn(async move { player.play(arn, variables).await });
    }
}

/// The variables of a task's container.
fn variables(task: &Value) -> HashMap<String, String> {
    let containers = task["overrides"]["containerOverrides"].as_array().into_iter().flatten();
    let all = containers.flat_map(|one| one["environment"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|pair| (text(&pair["name"]), text(&pair["value"]))).collect()
}

impl Player {
    async fn play(self: Arc<Self>, arn: String, variables: HashMap<String, String>) {
        tokio::time::sleep(START).await;
        let value = |name: &str| variables.get(name).cloned().unwrap_or_default();
        let attempt = value("CANYON_ATTEMPT").parse().unwrap_or_default();
        let claimant = arn.rsplit('/').next().unwrap_or_default().to_owned();
        let (deployment, code) = (value("CANYON_DEPLOYMENT_ID"), value("CANYON_CLAIM_CODE"));
        // A job that fails is found at the end: its deployment fails or stays open.
        let done = null_job::run(&self.client, &deployment, attempt, code, claimant).await;
        tokio::time::sleep(STOP).await;
        let end = json!({"task": arn, "exit_code": i32::from(done.is_err())});
        let account = self.account.clone();
        let _ = tokio::task::spawn_blocking(move || account.tell("/end", &end)).await;
    }
}

/// Processor time of all invocations so far, those of the preparation too.
fn cpu_seconds(installation: &Installation, function: &str) -> f64 {
    let reports = installation.cloud.function(function).reports();
    reports.iter().filter_map(|report| report.cpu).sum::<Duration>().as_secs_f64()
}
