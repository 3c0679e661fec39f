//! A job without a launcher and a runner: the test writes the attempt as the launcher does, and sends the runner's HTTP
//! requests.

use crate::harness::{Answer, Api};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::attempt::{Limits, Outcome};
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::RunnerDefinition;
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

/// A module's code.
pub(crate) const CODE: &str = "output \"x\" { value = 1 }";

/// An API with the environment `main` of the project `shop`.
pub(crate) async fn furnished() -> Api {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api
}

/// A request to deploy to that environment.
pub(crate) fn order() -> Value {
    let module = json!({ "source": "inline", "source_code": CODE });
    json!({ "project_id": "shop", "env_id": "main", "mode": "deploy", "module": module })
}

/// Deploys, and returns the deployment's id.
pub(crate) async fn deploy(api: &Api) -> String {
    let made = api.make("/deployments", order()).await;
    made["id"].as_str().unwrap().to_owned()
}

/// The deployment as it is stored.
pub(crate) async fn stored(api: &Api, id: &str) -> Deployment {
    api.app.table.deployment(api.ours.uuid, id.parse().unwrap()).await.unwrap().unwrap()
}

/// The environment `main` as it is stored.
pub(crate) async fn environment(api: &Api) -> Environment {
    let (project, env) = ("shop".parse().unwrap(), "main".parse().unwrap());
    api.app.table.environment(api.ours.uuid, &project, &env).await.unwrap().unwrap()
}

/// Writes the next attempt as the launcher does before it starts the job: with the environment's turn, which a check for drift
/// does not need and every other deployment takes from the open check. Returns the claim code.
pub(crate) async fn launch(api: &Api, id: &str) -> String {
    let (app, org) = (&api.app, api.ours.uuid);
    let mut deployment = stored(api, id).await;
    let mut environment = environment(api).await;
    let runner = app.table.runner(org, &deployment.runner).await.unwrap().unwrap();
    let definition = serde_json::from_str(&runner.definition).unwrap();
    let definition = RunnerDefinition::parse_stored(definition).unwrap();
    let fence = if deployment.mode.takes_turn() {
        environment.overtake_check();
        environment.queue.take(deployment.id).unwrap()
    } else {
        environment.queue.fence
    };
    let number = u32::try_from(deployment.attempts.len()).unwrap() + 1;
    let attempt = AttemptRef { org, deployment: deployment.id, number };
    let key = app.master_keys.get().await.unwrap();
    let code = key.claim_code(attempt, fence).expose_secret().to_owned();
    let limits = Limits::new(definition.timeouts(), deployment.created_at);
    let now = api.clock.now();
    let limits = deployment.container.as_ref().map_or(limits, |run| limits.of_container(run));
    lifecycle::launch(&mut deployment, fence, bearer::hash(&code), limits, now).unwrap();
    deployment.attempts.last_mut().unwrap().runner_version = Some(runner.version);
    environment.record_launch(&deployment);
    deployment.version += 1;
    environment.version += 1;
    let step = DeploymentChange {
        deployment: &deployment,
        environment: EnvironmentChange::Save(&environment),
        next: None,
        wake: canyon_store::deployment_item::Wake::None,
        record: None,
    };
    assert_eq!(app.table.change_deployment(org, &step).await.unwrap(), Saved::Yes);
    code
}

/// Ends the open attempt as the launcher does when the platform removed the job's machine.
pub(crate) async fn lose(api: &Api, id: &str) {
    let mut deployment = stored(api, id).await;
    let number = deployment.open_attempt().unwrap().number;
    let outcome = Outcome::Failed(Failure::new(FailureClass::Spot, "the machine was taken back"));
    lifecycle::end(&mut deployment, number, outcome, api.clock.now()).unwrap();
    deployment.version += 1;
    let saved = api
        .app
        .table
        .save_deployment(api.ours.uuid, &deployment, canyon_store::deployment_item::Wake::None)
        .await
        .unwrap();
    assert_eq!(saved, Saved::Yes);
}

/// Claims attempt `number` of `id`.
pub(crate) async fn claim(api: &Api, id: &str, number: u32, code: &str, claimant: &str) -> Answer {
    let path = format!("/deployments/{id}/attempts/{number}/claim");
    api.call_as(code, Method::POST, &path, Some(&json!({ "claimant": claimant }))).await
}

/// A runner that has claimed an attempt.
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) number: u32,
    pub(crate) token: String,
}

impl Job {
    /// Deploys, launches and claims.
    pub(crate) async fn start(api: &Api) -> Self {
        Self::of(api, deploy(api).await).await
    }

    /// Launches and claims the next attempt of a deployment.
    pub(crate) async fn of(api: &Api, id: String) -> Self {
        let code = launch(api, &id).await;
        let number = u32::try_from(stored(api, &id).await.attempts.len()).unwrap();
        let (status, claimed) = claim(api, &id, number, &code, "claimant-of-the-test").await;
        assert_eq!(status, 200, "{claimed}");
        Self { id, number, token: claimed["token"].as_str().unwrap().to_owned() }
    }

    /// Its identity, as a type.
    pub(crate) fn deployment(&self) -> DeploymentId {
        self.id.parse().unwrap()
    }

    pub(crate) async fn report(&self, api: &Api, phase: &str, chunks: Value) -> Answer {
        let path = format!("/deployments/{}/attempts/{}/report", self.id, self.number);
        let body = json!({ "phase": phase, "chunks": chunks });
        api.call_as(&self.token, Method::POST, &path, Some(&body)).await
    }

    pub(crate) async fn result(&self, api: &Api, body: Value) -> Answer {
        let path = format!("/deployments/{}/results", self.id);
        api.call_as(&self.token, Method::POST, &path, Some(&body)).await
    }

    /// The run succeeds.
    pub(crate) async fn succeed(&self, api: &Api) {
        assert_eq!(self.result(api, json!({ "status": "success" })).await.0, 204);
    }
}

/// Deploys, and returns the id and the job as a runner that understands format 5 claims it. The job succeeds.
pub(crate) async fn run(api: &Api, body: Value) -> (String, Value) {
    let made = api.make("/deployments", body).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let code = launch(api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": 5 });
    let (status, claimed) = api.call_as(&code, Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    let fetched = json!({ "phase": "apply", "fetched": { "secret_inputs": [] } });
    let path = format!("/deployments/{id}/attempts/1/report");
    assert_eq!(api.call_as(&token, Method::POST, &path, Some(&fetched)).await.0, 200);
    Job { id: id.clone(), number: 1, token }.succeed(api).await;
    (id, claimed["job"].clone())
}

/// A piece of the log.
pub(crate) fn piece(offset: u64, data: &[u8]) -> Value {
    json!({ "stream": "log", "offset": offset, "data": STANDARD.encode(data) })
}

/// An answer that is not JSON.
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends a request with `token` below our organization, for methods that the harness does not offer.
pub(crate) fn request(api: &Api, token: &str, method: Method, path: &str) -> RequestBuilder {
    let url = format!("{}/orgs/{}{path}", api.url, api.ours.id);
    api.http.request(method, url).bearer_auth(token)
}

/// Sends a request and returns the raw answer.
pub(crate) async fn raw(request: RequestBuilder) -> Raw {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Raw { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

/// Everything that a deployment may change, to prove that nothing changed.
pub(crate) async fn everything(api: &Api) -> (Vec<String>, Value, Environment) {
    (api.audit().await, api.get("/deployments?per_page=100").await.1, environment(api).await)
}
