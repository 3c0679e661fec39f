//! A job that an agent launches: offered, taken, run and reported. The test itself plays the agent, so that it
//! can leave out any of its requests.

use crate::harness::deployments::{LIMIT, failure, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::running::Running;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use canyon_api::agent::{JobKey, JobReport, OpenSession, Poll, Reports, TakeJobs, TakenJob, Work};
use canyon_api::client::Client;
use canyon_api::token::NewToken;
use canyon_domain::agent_job::DesiredState;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::RunnerType;
use serde_json::json;
use std::process::Command;
use std::time::Instant;

const AGENT: &str = "berlin-1";
const CODE: &str = "output \"x\" { value = 1 }";

struct Agent {
    client: Client,
    session: u64,
}

/// A server whose only runner is served by agents.
async fn site() -> Site {
    let site = Site::on(Server::start().await, &json!({})).await;
    let runner = json!({
        "id": "far",
        "runner_configuration": { "type": "docker-agent" },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "far", "project_id": "shop" })).await;
    let refreshed = ["projects", "shop", "envs", ENV, "actions", "refresh_runner"];
    site.make(&refreshed, &json!({})).await;
    site
}

impl Agent {
    async fn join(site: &Site, concurrency: u32) -> Self {
        let token = json!({ "role": "agent", "runner_id": "far", "labels": { "region": "eu" } });
        let made = site.make(&["tokens"], &token).await;
        let made: NewToken = serde_json::from_value(made).unwrap();
        let client = site.client.with_token(made.secret.into());
        let opened = client.open_session(AGENT, &opening("first", concurrency)).await.unwrap();
        Self { client, session: opened.session.unwrap() }
    }

    /// Polls until `found` returns a value for the work that Canyon answers.
    async fn until<T>(&self, what: &str, found: impl Fn(&Work) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            let poll = Poll { wait_seconds: 5, ..Poll::default() };
            let work = self.client.poll_work(AGENT, self.session, &poll).await.unwrap();
            if let Some(found) = found(&work) {
                return found;
            }
            assert!(Instant::now() < deadline, "no {what}: {work:?}");
        }
    }

    async fn take(&self, job: JobKey) -> TakenJob {
        let jobs = TakeJobs { jobs: vec![job] };
        let mut answer = self.client.take_jobs(AGENT, self.session, &jobs).await.unwrap();
        assert!(answer.refused.is_empty(), "{:?}", answer.refused);
        answer.taken.remove(0)
    }

    async fn say(&self, report: JobReport) {
        let reports = Reports { reports: vec![report] };
        let answer = self.client.report_jobs(AGENT, self.session, &reports).await.unwrap();
        assert!(answer.refused.is_empty(), "{:?}", answer.refused);
    }
}

fn opening(instance: &str, concurrency: u32) -> OpenSession {
    OpenSession {
        instance: instance.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: canyon_api::agent::PROTOCOL,
        serves: vec![RunnerType::DockerAgent],
        platform_id: "test-machine".to_owned(),
        labels: [].into(),
        run_untagged_jobs: None,
        runner: Some("far".parse().unwrap()),
        reserved: false,
        shared: false,
        standby: false,
        concurrency,
        public_key: None,
        found: vec![],
    }
}

/// Starts the runner as an agent's dispatcher does for a taken job.
fn launch(site: &Site, taken: &TakenJob) -> Running {
    let folder = site.server.path("work");
    std::fs::create_dir_all(&folder).unwrap();
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(programs::built().join("canyon-runner"))
        .current_dir(&folder)
        .env_clear()
        .env("PATH", programs::search_path(None))
        .env("HOME", &folder)
        .envs(&taken.environment)
        // There are no credentials for the state's storage: OpenTofu reports that, and the run ends.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        .env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
        .spawn()
        .unwrap();
    Running::new(child, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_to_an_agent_ends_and_leaves_nothing() {
    let site = site().await;
    let id = site.accept(&request(ENV, Some(inline(CODE)))).await;
    let none = |reason: &str| reason.contains("none has ever connected");
    site.until(&id, "the reason", |deployment| {
        deployment.waiting.as_ref().is_some_and(|waiting| none(&waiting.reason))
    })
    .await;

    let agent = Agent::join(&site, 1).await;
    let job = agent.until("offer", |work| work.offers.first().copied()).await;
    assert_eq!(job.deployment.to_string(), id);
    let taken = agent.take(job).await;
    let again = agent.take(job).await;
    assert_eq!(again.environment, taken.environment, "the answer may have been lost");
    let mut running = launch(&site, &taken);
    agent.say(JobReport { observation: Some(Observation::Alive), ..JobReport::new(job) }).await;
    assert!(running.ended(LIMIT).await.code().is_some(), "it ends by itself");
    agent
        .say(JobReport { observation: Some(Observation::Gone(None)), ..JobReport::new(job) })
        .await;

    let ended = site.end(&id).await;
    let attempts = &ended.attempts;
    assert!(attempts.len() == 1 && attempts[0].claimed_at.is_some(), "{ended:#?}");
    assert_eq!(failure(&ended).0, FailureClass::Config, "its state's store is not there");
    let forget = |work: &Work| {
        work.desired_states.iter().find(|wish| wish.desired == DesiredState::Forget).copied()
    };
    assert_eq!(agent.until("wish", forget).await.job, job);
    agent.say(JobReport { done: Some(DesiredState::Forget), ..JobReport::new(job) }).await;
    let poll = Poll::default();
    let nothing = agent.client.poll_work(AGENT, agent.session, &poll).await.unwrap();
    assert_eq!(nothing, Work::default(), "it is gone");
}
