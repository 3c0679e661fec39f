//! A server with everything that a deployment to a cluster needs.

use super::bed::{Bed, Namespace, bed};
use super::kinds::{Kind, Place};
use super::server::Server;
use canyon_api::client::Client;
use serde_json::{Value, json};

/// The project that each site has.
pub(crate) const PROJECT: &str = "shop";
/// The environment that each site has.
pub(crate) const ENV: &str = "dev";
/// The runner that each site has.
pub(crate) const RUNNER: &str = "cluster";
/// What its jobs run as.
pub(crate) const ACCOUNT: &str = "canyon-runner";

/// A server with a runner for the cluster, a rule for everything, a project and an environment.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    /// What stands in for the cloud of the runner's kind, if there is one.
    pub(crate) place: Place,
}

impl Site {
    /// With a runner of this kind, and the trust that Canyon says to configure for it.
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, |_| {}).await
    }

    /// The same, after `change` to the runner's definition.
    pub(crate) async fn with(kind: Kind, change: impl FnOnce(&mut Value)) -> Self {
        let site = Self::untrusted(kind, change).await;
        site.trust().await;
        site
    }

    /// Before anybody has let Canyon in.
    pub(crate) async fn untrusted(kind: Kind, change: impl FnOnce(&mut Value)) -> Self {
        let namespace = Namespace(Bed::unique("canyon"));
        let place = Place::prepare(kind, &namespace.0).await;
        let server = Server::start_with(place.variables()).await;
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

    /// Configures what Canyon names: the documents for the cluster go there as they are, but for the
    /// name of whoever holds a stored credential.
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

    /// Makes something that must not be refused.
    pub(crate) async fn make(&self, path: &[&str], body: &Value) -> Value {
        let made = self.client.create(path, body).await;
        made.unwrap_or_else(|error| panic!("cannot make {path:?}: {error}\n{}", self.server.log()))
    }

    /// What the namespace has of these kinds.
    #[track_caller]
    pub(crate) fn objects(&self, kinds: &str) -> Vec<Value> {
        bed().list(&self.namespace.0, kinds)
    }
}
