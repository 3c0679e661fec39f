//! The program `canyon-agent`, with a Canyon that makes no connection to the agent: deployments, cancels,
//! and kills at the worst moments.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::ledger;
use crate::harness::module;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::harness::{processes, programs};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "east-1";
const LIMIT: Duration = Duration::from_mins(3);
const STOP_SECONDS: u64 = 5;

/// A server whose runner has its jobs launched by agents named [`NAME`], and the process of one such
/// agent.
pub(crate) struct AgentSite {
    pub(crate) site: Site,
    agent: Child,
}

impl Drop for AgentSite {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
        // An agent that was never adopted has no folder of jobs.
        if let Ok(runners) = fs::read_dir(self.state_dir().join("jobs")) {
            for runner in runners.flatten() {
                processes::kill_jobs_in(&runner.path());
            }
        }
        if std::thread::panicking() {
            println!("--- the agent's log\n{}", self.log());
            return;
        }
        programs::assert_no_secret("the agent's log", &self.log());
    }
}

async fn site() -> Site {
    let server = Server::start().await;
    let client = server.client();
    let site = Site { server, client };
    let runner = json!({
        "id": "far",
        "runner_configuration": {
            "type": "local",
            "agents": { "ids": [NAME, "west-1"] },
            "job": { "timeouts": { "stop_seconds": STOP_SECONDS } },
        },
        "state_storage_configuration": { "type": "local", "path": site.states() },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "far" })).await;
    site.make(&["env-types"], &json!({ "id": "development" })).await;
    site.make(&["projects"], &json!({ "id": PROJECT })).await;
    site.environment(ENV).await;
    site
}

fn start(site: &Site, more: &[&str]) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(site.server.path("agent.log"));
    let log = log.unwrap();
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(programs::of_a_user())
        .arg("--")
        .args(programs::WITH_A_DESCRIPTOR)
        .arg(programs::built().join("canyon-agent"))
        .args(more)
        .env_clear()
        .env("PATH", programs::search_path(None))
        .env("CANYON_API_URL", site.server.url())
        .env("CANYON_RUNNER_PATH", format!("{}/far", site.server.org()))
        .env("CANYON_AGENT_NAME", NAME)
        .env("CANYON_AGENT_STATE_DIR", site.server.path("agent"))
        .env("CANYON_JOB_DISPATCHER_TYPE", "local")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl AgentSite {
    pub(crate) async fn new() -> Self {
        Self::started_with(&[]).await
    }

    async fn started_with(more: &[&str]) -> Self {
        Self::joined(site().await, more).await
    }

    /// An agent of the runner `far` of `site`, with more arguments.
    pub(crate) async fn joined(site: Site, more: &[&str]) -> Self {
        let agent = start(&site, more);
        let far = Self { site, agent };
        far.until("it registers", |found| found["state"] == "pending").await;
        far.site.client.act(&["agents", NAME, "actions", "adopt"], &[]).await.unwrap();
        far.until("it has a session", |found| found["availability"] == "idle").await;
        far
    }

    fn state_dir(&self) -> PathBuf {
        self.site.server.path("agent")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.site.server.path("agent.log")).unwrap_or_default()
    }

    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.site.client.get(&["agents", NAME]).await;
            if let Ok(found) = &found
                && wanted(found)
            {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "{what} did not come: {found:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Deploys `count` resources that take `seconds` each, and waits until the first is being created.
    pub(crate) async fn begin(&self, round: u32, seconds: &str) -> String {
        let path = self.site.server.path("ledger");
        let module = module::ledger(&path, 1, seconds, round);
        let id = self.site.accept(&request(ENV, Some(module))).await;
        let deadline = Instant::now() + LIMIT;
        while ledger::indexes(&path, "begin", round) != [0] {
            assert!(Instant::now() < deadline, "round {round} does not begin\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        id
    }

    fn signal(&self, signal: Signal) {
        processes::signal(self.agent.id().cast_signed(), signal);
    }

    fn kill(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }

    async fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.agent.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the agent does not end\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The agent's folder holds nothing of any job: neither a folder nor a process.
    pub(crate) async fn is_cleared(&self) {
        let (jobs, deadline) = (self.state_dir().join("jobs"), Instant::now() + LIMIT);
        loop {
            let runners = fs::read_dir(&jobs).unwrap();
            let left: usize =
                runners.flatten().map(|runner| fs::read_dir(runner.path()).unwrap().count()).sum();
            let working = processes::working_in(&jobs);
            if left == 0 && working.is_empty() {
                return;
            }
            let late = Instant::now() > deadline;
            assert!(!late, "{left} jobs and {working:?} are left\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_launches_a_deployment_from_before_its_first_connection() {
    let site = site().await;
    let early = site.accept(&request(ENV, Some(module::inline(module::THIRTY)))).await;
    let waits = site
        .until(&early, "a reason to wait", |found| {
            found
                .waiting
                .as_ref()
                .is_some_and(|waiting| waiting.reason.contains("agent of runner `far`"))
        })
        .await;
    assert!(waits.waiting.unwrap().reason.contains("none has ever connected"));
    let agent = start(&site, &[]);
    let far = AgentSite { site, agent };
    let pending = far.until("it registers", |found| found["state"] == "pending").await;
    // An administrator compares this fingerprint with the one that the agent logs at its start.
    let fingerprint = pending["fingerprint"].as_str().unwrap();
    assert!(far.log().contains(fingerprint), "{}", far.log());
    far.site.client.act(&["agents", NAME, "actions", "adopt"], &[]).await.unwrap();
    let ended = far.site.end(&early).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1);
    assert!(far.site.log(&early).await.contains("terraform_data.thing"));
    far.is_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_goes_on_with_the_jobs_of_the_killed_one() {
    let mut far = AgentSite::new().await;
    let id = far.begin(1, "6").await;
    far.kill();
    far.agent = start(&far.site, &[]);
    let ended = far.site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1);
    ledger::assert_once(&far.site.server.path("ledger"), 1, 1);
    assert!(far.log().contains("watching a job of an earlier session"), "{}", far.log());
    far.is_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_job_through_its_agent() {
    let far = AgentSite::new().await;
    let id = far.begin(1, "300").await;
    far.site.client.cancel(&id).await.unwrap();
    let ended = far.site.end(&id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    far.is_cleared().await;
    far.site.deploy(module::inline(module::THIRTY)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ignores_the_request_to_stop_is_killed_by_its_agent_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let runner = folder.path().join("canyon-runner");
    let noted = folder.path().join("ignoring-stop");
    programs::script(&runner, &programs::ignoring_stop(&noted));
    let far = AgentSite::started_with(&["--runner-program", runner.to_str().unwrap()]).await;
    let id = far.site.accept(&request(ENV, Some(module::inline(module::THIRTY)))).await;
    far.until("it runs the job", |found| found["session"]["running"] == 1).await;
    programs::until_ignoring_stop(&noted).await;
    let begun = Instant::now();
    far.site.client.cancel(&id).await.unwrap();
    let ended = far.site.end(&id).await;
    assert_eq!(ended.status, "cancelled", "{ended:#?}");
    let took = begun.elapsed().as_secs();
    assert!((STOP_SECONDS - 1..STOP_SECONDS + 15).contains(&took), "stopped after {took} s");
    far.is_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finishes_its_job_after_the_first_signal_and_ends_at_once_after_the_second() {
    let mut far = AgentSite::new().await;
    let id = far.begin(1, "4").await;
    far.signal(Signal::TERM);
    far.until("it drains", |found| found["availability"] == "draining").await;
    let next = far.site.accept(&request(ENV, Some(module::inline(module::THIRTY)))).await;
    assert_eq!(far.end().await.code(), Some(0));
    assert_succeeded(&far.site.end(&id).await);
    assert_eq!(far.site.client.deployment(&next).await.unwrap().status, "launching");
    // The next process takes the job that the ended one left. A second signal ends that process at once,
    // and its job goes on.
    far.agent = start(&far.site, &[]);
    assert_succeeded(&far.site.end(&next).await);
    let id = far.begin(2, "5").await;
    far.signal(Signal::TERM);
    far.until("it drains", |found| found["availability"] == "draining").await;
    far.signal(Signal::TERM);
    assert_eq!(far.end().await.code(), Some(0));
    far.agent = start(&far.site, &[]);
    assert_succeeded(&far.site.end(&id).await);
    ledger::assert_once(&far.site.server.path("ledger"), 2, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_agent_ends_after_one_job() {
    let mut far = AgentSite::started_with(&["--single"]).await;
    let first = far.begin(1, "1").await;
    let second = far.site.accept(&request(ENV, Some(module::inline(module::THIRTY)))).await;
    assert_eq!(far.end().await.code(), Some(0));
    assert_succeeded(&far.site.end(&first).await);
    assert_eq!(far.site.client.deployment(&second).await.unwrap().status, "launching");
    far.is_cleared().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_name_the_older_leaves_its_jobs_to_the_newer() {
    let mut far = AgentSite::new().await;
    let id = far.begin(1, "5").await;
    let newer = start(&far.site, &[]);
    let mut older = std::mem::replace(&mut far.agent, newer);
    far.until("the newer one speaks", |found| found["session"]["number"] == 2).await;
    let ended = far.site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1);
    ledger::assert_once(&far.site.server.path("ledger"), 1, 1);
    let deadline = Instant::now() + LIMIT;
    while !far.log().contains("This process stands by") {
        assert!(Instant::now() < deadline, "{}", far.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(older.try_wait().unwrap().is_none(), "it waits for the end of the newer one");
    older.kill().unwrap();
    older.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_agent_ends_and_logs_the_reason() {
    let mut far = AgentSite::new().await;
    far.site.client.act(&["agents", NAME, "actions", "reject"], &[]).await.unwrap();
    assert_eq!(far.end().await.code(), Some(77));
    assert!(far.log().contains("was rejected"), "{}", far.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_agent_waits_to_be_adopted_again() {
    let far = AgentSite::new().await;
    far.site.client.delete(&["agents", NAME], &[]).await.unwrap();
    far.until("it registers again", |found| found["state"] == "pending").await;
    far.site.client.act(&["agents", NAME, "actions", "adopt"], &[]).await.unwrap();
    far.site.deploy(module::inline(module::THIRTY)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canyon_that_stops_and_restarts_loses_nothing() {
    let mut far = AgentSite::new().await;
    let id = far.begin(1, "3").await;
    far.site.server.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    far.site.server.restart().await;
    let ended = far.site.end(&id).await;
    assert_succeeded(&ended);
    ledger::assert_once(&far.site.server.path("ledger"), 1, 1);
    far.is_cleared().await;
}

#[test]
fn every_wrong_setting_is_named_and_the_program_ends() {
    let output = Command::new(programs::built().join("canyon-agent"))
        .env_clear()
        .env("CANYON_RUNNER_PATH", "acme/far")
        .env("CANYON_JOB_DISPATCHER_TYPE", "nomad")
        .env("CANYON_AGENT_NAME", NAME)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    let said = String::from_utf8_lossy(&output.stderr);
    for expected in [
        "CANYON_API_URL is not set",
        "CANYON_JOB_DISPATCHER_TYPE is not one of",
        "CANYON_AGENT_STATE_DIR is not set",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}
