//! A server with everything that a deployment needs.

use super::server::Server;
use canyon_api::client::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// The project of each site.
pub(crate) const PROJECT: &str = "shop";
/// The environment of each site.
pub(crate) const ENV: &str = "dev";
/// The runner of each site.
pub(crate) const RUNNER: &str = "laptop";

/// A server with a runner, a rule for everything, a project and an environment.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Site {
    /// Creates a site on a server of its own.
    pub(crate) async fn new() -> Self {
        Self::on(Server::start().await, &json!({})).await
    }

    /// Creates a site on `server`, with a `job` in the runner's configuration.
    pub(crate) async fn on(server: Server, job: &Value) -> Self {
        let states = json!({ "type": "local", "path": server.path("states") });
        Self::keeping(server, job, &states).await
    }

    /// The same, with states kept in this storage.
    pub(crate) async fn keeping(server: Server, job: &Value, storage: &Value) -> Self {
        let client = server.client();
        let site = Self { server, client };
        let mut configuration = json!({ "type": "local" });
        if job.as_object().is_some_and(|members| !members.is_empty()) {
            configuration["job"] = job.clone();
        }
        let runner = json!({
            "id": RUNNER,
            "runner_configuration": configuration,
            "state_storage_configuration": storage,
        });
        site.make(&["runners"], &runner).await;
        site.make(&["runner-rules"], &json!({ "runner_id": RUNNER })).await;
        site.make(&["env-types"], &json!({ "id": "development" })).await;
        site.make(&["projects"], &json!({ "id": PROJECT })).await;
        site.environment(ENV).await;
        site
    }

    /// Creates something that must not be refused.
    pub(crate) async fn make(&self, path: &[&str], body: &Value) -> Value {
        let made = self.client.create(path, body).await;
        made.unwrap_or_else(|error| panic!("cannot make {path:?}: {error}\n{}", self.server.log()))
    }

    /// Creates one more environment.
    pub(crate) async fn environment(&self, id: &str) {
        let body = json!({ "id": id, "env_type_id": "development" });
        self.make(&["projects", PROJECT, "envs"], &body).await;
    }

    /// Where the runner keeps states.
    pub(crate) fn states(&self) -> PathBuf {
        self.server.path("states")
    }

    /// The file of an environment's state.
    pub(crate) async fn state_file(&self, env: &str) -> PathBuf {
        let environment = self.client.get(&["projects", PROJECT, "envs", env]).await.unwrap();
        self.states().join(format!("{}.tfstate", environment["uuid"].as_str().unwrap()))
    }

    /// The addresses of the resource instances in an environment's state, sorted.
    pub(crate) async fn state(&self, env: &str) -> Vec<String> {
        let path = self.state_file(env).await;
        let Ok(text) = fs::read(&path) else { return Vec::new() };
        let state: Value = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{} is no state: {error}", path.display()));
        let mut found = Vec::new();
        for resource in state["resources"].as_array().into_iter().flatten() {
            let (kind, name) =
                (resource["type"].as_str().unwrap(), resource["name"].as_str().unwrap());
            for instance in resource["instances"].as_array().into_iter().flatten() {
                let index = &instance["index_key"];
                let index = if index.is_null() { String::new() } else { format!("[{index}]") };
                found.push(format!("{kind}.{name}{index}"));
            }
        }
        found.sort();
        found
    }
}
