//! A server with everything that a deployment to a cluster needs.

use super::bed::{Bed, Namespace, bed};
use super::kinds::{Kind, Place};
use super::server::Server;
use canyon_api::client::Client;
use serde_json::{Value, json};

/// The project of each site.
pub(crate) const PROJECT: &str = "shop";
/// The environment of each site.
pub(crate) const ENV: &str = "dev";
/// The runner of each site.
pub(crate) const RUNNER: &str = "cluster";
/// The service account of its jobs.
pub(crate) const ACCOUNT: &str = "canyon-runner";

/// A server with a runner for the cluster, a rule for everything, a project and an environment.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    /// The servers that play the cloud of the runner's kind, if it has one.
    pub(crate) place: Place,
}

impl Site {
    /// Creates a site with a runner of this kind, and with the trust that Canyon prints for it.
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, |_| {}).await
    }

    /// The same, after `change` to the runner's definition.
    pub(crate) async fn with(kind: Kind, change: impl FnOnce(&mut Value)) -> Self {
        let site = Self::untrusted(kind, change).await;
        site.trust().await;
        site
    }

    /// Creates a site before Canyon has any access.
    pub(crate) async fn untrusted(kind: Kind, change: impl FnOnce(&mut Value)) -> Self {
        let namespace = Namespace(Bed::unique("canyon"));
        let place = Place::prepare(kind, &namespace.0).await;
        let server = Server::start_at(place.listens_at(), place.variables()).await;
        let client = server.client();
        let site = Self { server, client, namespace, place };
        let mut runner = site.place.definition(&site.namespace.0);
        runner["id"] = json!(RUNNER);
        change(&mut runner);
        site.make(&["runners"], &runner).await;
        site.make(&["runner-rules"], &json!({ "runner_id": RUNNER })).await;
        site.make(&["env-types"], &json!({ "id": "development" })).await;
        site.make(&["projects"], &json!({ "id": PROJECT })).await;
        let env = json!({ "id": ENV, "env_type_id": "development" });
        site.make(&["projects", PROJECT, "envs"], &env).await;
        site
    }

    /// Configures what Canyon prints. The documents for the cluster are applied as they are, except
    /// for the user name of a stored credential.
    pub(crate) async fn trust(&self) {
        let trust = self.client.get(&["runners", RUNNER, "trust"]).await.unwrap();
        for document in trust["documents"].as_array().unwrap() {
            let [place, text] = ["place", "text"].map(|name| document[name].as_str().unwrap());
            if place.contains("kubectl apply") {
                bed().apply(&self.place.named(text));
            }
        }
        self.place.trust(&trust).await;
    }

    /// Creates something that must not be refused.
    pub(crate) async fn make(&self, path: &[&str], body: &Value) -> Value {
        let made = self.client.create(path, body).await;
        made.unwrap_or_else(|error| panic!("cannot make {path:?}: {error}\n{}", self.server.log()))
    }

    /// The namespace's objects of these kinds.
    #[track_caller]
    pub(crate) fn objects(&self, kinds: &str) -> Vec<Value> {
        bed().list(&self.namespace.0, kinds)
    }
}
