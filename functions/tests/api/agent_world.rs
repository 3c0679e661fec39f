//! An API with a runner whose jobs agents launch, and the requests of agents.

use crate::harness::{Answer, Api};
use crate::job::{deploy, launch, stored};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use canyon_domain::agent_job::{AgentJob, DesiredState, JobSpec};
use canyon_domain::ids::RunnerUuid;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_identity::agent_key::AgentKey;
use reqwest::Method;
use serde_json::{Value, json};

/// A runner whose jobs agents launch.
pub(crate) fn far(id: &str, configuration: Value) -> Value {
    let mut runner = json!({
        "id": id,
        "runner_configuration": { "type": "docker-agent" },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    let Value::Object(configuration) = configuration else { panic!("{configuration}") };
    for (name, value) in configuration {
        runner["runner_configuration"][name] = value;
    }
    runner
}

/// An API whose environment `main` deploys by the runner `far`.
pub(crate) async fn far_away() -> Api {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/runners", far("far", json!({}))).await;
    api.make("/runner-rules", json!({ "runner_id": "far", "project_id": "shop" })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api
}

/// A token of the role `agent`.
pub(crate) async fn token(api: &Api, more: Value) -> String {
    let mut body = json!({ "role": "agent" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    api.make("/tokens", body).await["secret"].as_str().unwrap().to_owned()
}

/// The body that starts a session of an agent of the runner `far`.
pub(crate) fn opening(instance: &str) -> Value {
    json!({
        "instance": instance, "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
        "serves": ["docker-agent"], "place": "engine", "runner": "far", "concurrency": 10,
    })
}

/// Sends a request with `token` to an agent's path.
pub(crate) async fn say(api: &Api, token: &str, path: &str, body: Value) -> Answer {
    api.call_as(token, Method::POST, &format!("/agents/{path}"), Some(&body)).await
}

/// Starts a session, which must succeed. Returns its number.
pub(crate) async fn open(api: &Api, token: &str, agent: &str, instance: &str) -> u64 {
    let answer = say(api, token, &format!("{agent}/sessions"), opening(instance)).await;
    assert_eq!(answer.0, 201, "{}", answer.1);
    answer.1["session"].as_u64().unwrap()
}

/// Writes what the launcher writes when it starts the first attempt of a new deployment. Returns the claim code and the
/// key of the job.
pub(crate) async fn order(api: &Api) -> (String, Value) {
    order_next(api, &deploy(api).await).await
}

/// The same as [`order`], for an existing deployment.
pub(crate) async fn order_next(api: &Api, id: &str) -> (String, Value) {
    let code = launch(api, id).await;
    let deployment = stored(api, id).await;
    let attempt = deployment.open_attempt().unwrap();
    let org = api.ours.uuid;
    let runner = api.app.table.runner(org, &deployment.runner).await.unwrap().unwrap();
    assert_eq!(runner.id.as_str(), "far");
    let definition: Value = serde_json::from_str(&runner.definition).unwrap();
    let parsed = RunnerDefinition::parse_stored(definition.clone()).unwrap();
    let settings = parsed.configuration.agent_settings();
    let job = AgentJob {
        deployment: deployment.id,
        attempt: attempt.number,
        fence: attempt.fence,
        runner: runner.uuid,
        spec: JobSpec {
            org_id: api.ours.id.parse().unwrap(),
            runner_id: runner.id,
            kind: RunnerType::DockerAgent,
            definition,
            project: deployment.project.clone(),
            env: deployment.env.clone(),
            launched_at: attempt.launched_at,
            container: None,
        },
        target: settings.and_then(|settings| settings.agents.clone()),
        only_agent: None,
        only_for: None,
        priority: 0,
        offer: None,
        holder: None,
        desired: DesiredState::Run,
        applied: DesiredState::Run,
        reported: None,
        tail: None,
        manifest: None,
        polled: None,
        version: 1,
    };
    api.app.table.create_agent_job(org, &job, api.clock.now()).await.unwrap();
    let key = json!({ "runner": job.runner, "deployment": id, "attempt": job.attempt });
    (code, key)
}

/// The status and the code of a refusal.
pub(crate) fn code(answer: &Answer) -> (u16, &str) {
    (answer.0, answer.1["details"]["code"].as_str().unwrap_or_default())
}

/// An agent as users see it.
pub(crate) async fn view(api: &Api, agent: &str) -> Value {
    let (status, view) = api.get(&format!("/agents/{agent}")).await;
    assert_eq!(status, 200, "{view}");
    view
}

/// The job as it is stored.
pub(crate) async fn job(api: &Api, key: &Value) -> Option<AgentJob> {
    let runner = RunnerUuid(key["runner"].as_str().unwrap().parse().unwrap());
    let deployment = key["deployment"].as_str().unwrap().parse().unwrap();
    let attempt = key["attempt"].as_u64().unwrap().try_into().unwrap();
    api.app.table.agent_job(api.ours.uuid, runner, deployment, attempt).await.unwrap()
}

/// The key of an agent.
pub(crate) struct Key {
    pair: Ed25519KeyPair,
}

impl Key {
    pub(crate) fn new() -> Self {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self { pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap() }
    }

    pub(crate) fn pem(&self) -> String {
        let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        let der = [prefix.as_slice(), self.pair.public_key().as_ref()].concat();
        let body = STANDARD.encode(der);
        format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
    }

    pub(crate) fn fingerprint(&self) -> String {
        AgentKey::from_pem(&self.pem()).unwrap().fingerprint()
    }

    /// Signs the parts as they are, also invalid ones.
    pub(crate) fn signed(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    pub(crate) fn header(&self) -> Value {
        json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.fingerprint() })
    }

    /// The token of the agent with this name.
    pub(crate) fn token(&self, api: &Api, agent: &str) -> String {
        self.signed(&self.header(), &claims(api, agent))
    }
}

/// Valid claims.
pub(crate) fn claims(api: &Api, agent: &str) -> Value {
    let now = api.clock.now().as_second();
    let jti = uuid::Uuid::new_v4();
    json!({ "sub": agent, "aud": "canyon:our-org", "iat": now, "exp": now + 60, "jti": jti })
}
