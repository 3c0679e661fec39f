//! A `canyon local` whose jobs an agent launches, as processes in a folder of its own.

use super::agent::{Agent, Spec};
use super::gate::{Gate, Held};
use crate::harness::deployments::{assert_succeeded, end, request};
use crate::harness::ledger;
use crate::harness::module::{self};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::agent::AgentView;
use canyon_api::deployment::Deployment;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The runner whose jobs agents launch.
pub(crate) const RUNNER: &str = "far-away";
/// The agent of most tests.
pub(crate) const AGENT: &str = "companion";
/// How long an agent may take to act on what it receives.
const LIMIT: Duration = Duration::from_mins(3);

/// The programs that are killed and restarted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Victims {
    Agent,
    Canyon,
    Both,
}

impl Victims {
    /// Kills them while a request is held, which is lost with them, and starts them again.
    pub(crate) async fn die_and_return(self, world: &mut World, agent: &mut Agent, held: Held) {
        let is_agent = matches!(self, Self::Agent | Self::Both);
        let is_canyon = matches!(self, Self::Canyon | Self::Both);
        if is_agent {
            agent.kill();
        }
        if is_canyon {
            world.site.server.kill();
        }
        held.lose();
        if is_agent {
            agent.start_again();
        }
        if is_canyon {
            world.site.server.restart().await;
        }
    }
}

/// A server, its runner of agents, and the gate between agents and the server.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) gate: Gate,
    pub(crate) token: String,
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = Server::start().await;
        let gate = Gate::start(&server.url()).await;
        let site = Site { client: server.client(), server };
        let runner = json!({
            "id": RUNNER,
            "runner_configuration": { "type": "local", "agents": { "labels": { "place": "far" } } },
            "state_storage_configuration": { "type": "local", "path": site.server.path("states") },
        });
        site.make(&["runners"], &runner).await;
        site.make(&["runner-rules"], &json!({ "runner_id": RUNNER })).await;
        site.make(&["env-types"], &json!({ "id": "development" })).await;
        site.make(&["projects"], &json!({ "id": PROJECT })).await;
        site.environment(ENV).await;
        let token = new_token(&site).await;
        let token = token["secret"].as_str().unwrap().to_owned();
        Self { site, gate, token }
    }

    /// How to start an agent of this world. Its jobs reach Canyon through another gate than the agent.
    pub(crate) fn spec(&self, name: &str) -> Spec {
        let server = self.site.server.url();
        let runner = format!("{}/{RUNNER}", self.site.server.org());
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Spec {
            name: name.to_owned(),
            folder: self.site.server.path(name),
            variables: vec![
                variable("CANYON_API_URL", &self.gate.url),
                variable("CANYON_JOB_DISPATCHER_DATA_API_URL", &server),
                variable("CANYON_RUNNER_PATH", &runner),
                variable("CANYON_AGENT_LABELS", "place=far"),
                variable("CANYON_TOKEN", &self.token),
            ],
            prefix: Vec::new(),
        }
    }

    /// An agent that is connected and waits for work.
    pub(crate) async fn agent(&self, name: &str) -> Agent {
        let agent = Agent::start(self.spec(name));
        self.until_agent(&agent, name, "wait for work", |view| view.availability == "idle").await;
        agent
    }

    /// An agent that is starting.
    pub(crate) fn agent_that_starts(&self, name: &str) -> Agent {
        Agent::start(self.spec(name))
    }

    /// Waits until `wanted` holds of an agent.
    pub(crate) async fn until_agent(
        &self,
        agent: &Agent,
        name: &str,
        what: &str,
        wanted: impl Fn(&AgentView) -> bool,
    ) -> AgentView {
        let deadline = Instant::now() + LIMIT;
        loop {
            let view = self.site.client.agent(name).await;
            if let Ok(view) = &view
                && wanted(view)
            {
                return view.clone();
            }
            let late = Instant::now() > deadline;
            assert!(!late, "agent `{name}` does not {what}: {view:?}\n{}", agent.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The file in which the resources of modules write what they do.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.site.server.path("ledger")
    }

    /// Asks for a deployment of `count` resources that each take `seconds`.
    pub(crate) async fn accept(&self, round: u32, count: u32, seconds: &str) -> String {
        let module = module::ledger(&self.ledger(), count, seconds, round);
        self.site.accept(&request(ENV, Some(module))).await
    }

    /// Waits for a deployment's end: it has succeeded, each resource was made once, and its end stays.
    pub(crate) async fn assert_done_once(&self, id: &str, round: u32, count: u32) -> Deployment {
        let ended = end(&self.site.client, id).await;
        assert_succeeded(&ended);
        ledger::assert_once(&self.ledger(), round, count);
        assert_eq!(self.site.state(ENV).await.len(), count as usize, "in the state");
        ended
    }

    /// Waits until nothing is left of a deployment's jobs in an agent's place: no process, no folder.
    pub(crate) async fn assert_nothing_left(&self, agent: &Agent, id: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left: Vec<_> = agent.jobs().into_iter().filter(|job| job.starts_with(id)).collect();
            let working = agent.working_for(id);
            if left.is_empty() && working.is_empty() {
                // That it has cleared the job away, the agent says after it has.
                return self.gate.is_past(id);
            }
            let late = Instant::now() > deadline;
            let logs = || format!("{}\n{}", agent.log(), self.site.server.log());
            assert!(!late, "{left:?} and {working:?} are left\n{}", logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a resource of `round` is being created.
    pub(crate) async fn until_begun(&self, round: u32) {
        let deadline = Instant::now() + LIMIT;
        while ledger::indexes(&self.ledger(), "begin", round).is_empty() {
            let late = Instant::now() > deadline;
            assert!(!late, "round {round} did not begin\n{}", self.site.server.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Creates a token with which agents of the runner sign in.
pub(crate) async fn new_token(site: &Site) -> Value {
    let body = json!({
        "role": "agent",
        "runner_id": RUNNER,
        "labels": { "place": "far" },
        "description": "for the companions",
    });
    site.make(&["tokens"], &body).await
}

/// Waits for the first process of a deployment's job in an agent's folder.
pub(crate) async fn job_process(agent: &Agent, id: &str) -> i32 {
    let deadline = Instant::now() + LIMIT;
    loop {
        let of = |(name, _): &(String, i32)| name.starts_with(id);
        if let Some((_, pid)) = agent.runners().into_iter().find(of) {
            return pid;
        }
        assert!(Instant::now() < deadline, "no job for {id}\n{}", agent.log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
