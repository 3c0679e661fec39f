//! An agent and a job's runner, as far as they call Canyon.

use crate::world::{RUNNER, World};
use reqwest::Method;
use serde_json::{Value, json};

const NAME: &str = "companion";

/// An agent in its first session.
pub(crate) struct Agent {
    name: &'static str,
    token: String,
    session: u64,
}

impl Agent {
    pub(crate) async fn join(world: &World) -> Self {
        Self::join_as(world, NAME).await
    }

    /// All agents of the tests have the same place.
    pub(crate) async fn join_as(world: &World, name: &'static str) -> Self {
        let token = world.make("/tokens", json!({ "role": "agent", "runner_id": RUNNER })).await;
        let token = token["secret"].as_str().unwrap().to_owned();
        let opening = json!({
            "instance": "first", "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
            "serves": ["docker-agent"], "place": "engine", "runner": RUNNER, "concurrency": 4,
        });
        let path = format!("/agents/{name}/sessions");
        let (status, opened) = world.call(&token, Method::POST, &path, Some(&opening)).await;
        assert_eq!(status, 201, "{opened}");
        Self { name, token, session: opened["session"].as_u64().unwrap() }
    }

    async fn asks(&self, world: &World, what: &str, body: Value) -> Value {
        let path = format!("/agents/{}/sessions/{}/{what}", self.name, self.session);
        let (status, answer) = world.call(&self.token, Method::POST, &path, Some(&body)).await;
        assert_eq!(status, 200, "{what}: {answer}");
        answer
    }

    pub(crate) async fn poll(&self, world: &World) -> Value {
        self.asks(world, "poll", json!({ "running": 0, "wait_seconds": 0 })).await
    }

    /// The jobs that it is offered now.
    pub(crate) async fn offers(&self, world: &World) -> Vec<Value> {
        self.poll(world).await["offers"].as_array().cloned().unwrap_or_default()
    }

    /// The one job that it is offered now.
    pub(crate) async fn offer(&self, world: &World) -> Value {
        let mut offers = self.offers(world).await;
        assert_eq!(offers.len(), 1, "{offers:?}");
        offers.remove(0)
    }

    /// Takes a job; the answer may be a refusal.
    pub(crate) async fn try_take(&self, world: &World, job: &Value) -> Value {
        self.asks(world, "take", json!({ "jobs": [job] })).await
    }

    /// Takes a job.
    pub(crate) async fn take(&self, world: &World, job: &Value) -> Value {
        let answer = self.try_take(world, job).await;
        assert_eq!(answer["taken"].as_array().map(Vec::len), Some(1), "{answer}");
        answer["taken"][0].clone()
    }

    /// Reports the state of a job, and returns the answer.
    pub(crate) async fn try_report(&self, world: &World, report: Value) -> Value {
        self.asks(world, "reports", json!({ "reports": [report] })).await
    }

    pub(crate) async fn report(&self, world: &World, report: Value) {
        let answer = self.try_report(world, report).await;
        assert!(answer["refused"].as_array().is_none_or(Vec::is_empty), "{answer}");
    }
}

impl Agent {
    /// Reports that a job has ended.
    pub(crate) async fn sees_the_end(&self, world: &World, job: &Value) {
        let gone = json!({ "state": "gone", "reason": null });
        self.report(world, json!({ "job": job, "observation": gone })).await;
    }
}

/// The runner of a job, which has claimed its attempt.
pub(crate) struct Runner {
    path: String,
    deployment: String,
    token: String,
}

fn path_of(taken: &Value) -> (String, String) {
    let (job, deployment) = (&taken["job"], taken["job"]["deployment"].as_str().unwrap());
    let path = format!("/deployments/{deployment}/attempts/{}", job["attempt"]);
    (path, deployment.to_owned())
}

impl Runner {
    pub(crate) async fn try_claim(world: &World, taken: &Value) -> (u16, Value) {
        let code = taken["environment"]["CANYON_CLAIM_CODE"].as_str().unwrap();
        let claim = json!({ "claimant": "the-runner-of-the-test" });
        let path = format!("{}/claim", path_of(taken).0);
        world.call(code, Method::POST, &path, Some(&claim)).await
    }

    pub(crate) async fn claim(world: &World, taken: &Value) -> Self {
        let (status, claimed) = Self::try_claim(world, taken).await;
        assert_eq!(status, 200, "{claimed}");
        let (path, deployment) = path_of(taken);
        Self { path, deployment, token: claimed["token"].as_str().unwrap().to_owned() }
    }

    /// Sends a sign of life, and returns the answer.
    pub(crate) async fn report_phase(&self, world: &World, phase: &str) -> Value {
        let (path, body) = (format!("{}/report", self.path), json!({ "phase": phase }));
        let (status, answer) = world.call(&self.token, Method::POST, &path, Some(&body)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Delivers a result, and returns the status code of the answer.
    pub(crate) async fn report_success(&self, world: &World) -> u16 {
        let path = format!("/deployments/{}/results", self.deployment);
        let body = json!({ "status": "success" });
        world.call(&self.token, Method::POST, &path, Some(&body)).await.0
    }

    pub(crate) async fn succeeds(&self, world: &World) {
        assert_eq!(self.report_success(world).await, 204);
    }
}
