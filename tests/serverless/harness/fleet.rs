//! Many deployments to many environments, run by a stand-in for OpenTofu.

use super::deployments::request;
use super::programs;
use super::server::Server;
use super::site::Site;
use super::stand_in::{self, Part, StandIn};
use canyon_api::deployment::Deployment;
use futures::StreamExt as _;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Concurrent callers: each of them needs a process of the API.
const CALLERS: usize = 6;
/// The time between two polls of the list.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long a client retries a call.
const RETRY_LIMIT: Duration = Duration::from_mins(8);

/// An installation with many environments.
pub(crate) struct Fleet {
    pub(crate) site: Site,
    pub(crate) stand_in: StandIn,
    pub(crate) environments: Vec<String>,
    /// The accepted deployments.
    pub(crate) accepted: Vec<AcceptedDeployment>,
}

/// An accepted deployment.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedDeployment {
    pub(crate) id: String,
    pub(crate) env: String,
    /// Its position among the deployments of its environment, from 1.
    pub(crate) number: u32,
    /// How many requests its acceptance took.
    pub(crate) requests: u32,
}

impl Fleet {
    /// Creates an installation with so many environments.
    pub(crate) async fn new(environments: usize) -> Self {
        let stand_in = StandIn::new();
        let server = Server::start_with(&programs::built(), stand_in.search_path()).await;
        let site = Site::on(server, &json!({})).await;
        let environments: Vec<_> = (0..environments).map(|n| format!("env-{n}")).collect();
        let made = futures::stream::iter(&environments).map(|env| site.environment(env));
        made.buffer_unordered(CALLERS).collect::<()>().await;
        Self { site, stand_in, environments, accepted: Vec::new() }
    }

    /// One deployment to each environment, as the `number`th there.
    pub(crate) async fn deploy(&mut self, number: u32, part: impl Fn(&str) -> Part) {
        let accepted: Vec<_> = futures::stream::iter(&self.environments)
            .map(|env| self.accept(env, number, part(env)))
            .buffer_unordered(CALLERS)
            .collect()
            .await;
        self.accepted.extend(accepted);
    }

    /// Requests a deployment, with one idempotency key, until there is an answer.
    async fn accept(&self, env: &str, number: u32, part: Part) -> AcceptedDeployment {
        let body = request(env, Some(stand_in::module(part, env, number)));
        let (key, deadline) = (Uuid::new_v4().to_string(), Instant::now() + RETRY_LIMIT);
        let mut requests = 0;
        loop {
            requests += 1;
            match self.site.client.create_deployment(&body, &key).await {
                Ok(deployment) => {
                    let id = deployment.id.to_string();
                    return AcceptedDeployment { id, env: env.to_owned(), number, requests };
                }
                Err(error) => {
                    let late = Instant::now() > deadline;
                    assert!(error.is_retryable() && !late, "not accepted: {error:?}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// The deployments of the organization, by id, once all have ended.
    pub(crate) async fn ended(&self, limit: Duration) -> BTreeMap<String, Deployment> {
        let deadline = Instant::now() + limit;
        loop {
            let (listed, trouble) = match self.site.client.list(&["deployments"], &[]).await {
                Ok(listed) => (listed, None),
                Err(error) if error.is_retryable() => (Vec::new(), Some(error)),
                Err(error) => panic!("cannot list deployments: {error:?}"),
            };
            let found: Vec<Deployment> =
                listed.into_iter().map(|one| serde_json::from_value(one).unwrap()).collect();
            let (ended, open): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|one| one.completed_at.is_some());
            if trouble.is_none() && open.is_empty() && ended.len() >= self.accepted.len() {
                return ended.into_iter().map(|one| (one.id.to_string(), one)).collect();
            }
            assert!(
                Instant::now() < deadline,
                "after {limit:?} {} of {} have ended ({trouble:?}); open: {open:#?}",
                ended.len(),
                self.accepted.len()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Asserts that exactly these deployments exist and each ran once, one after the other in each environment,
    /// in the order of their acceptance. All succeeded except those for which `fails` holds.
    pub(crate) fn assert_ran_once_in_order(
        &self,
        ended: &BTreeMap<String, Deployment>,
        fails: impl Fn(&AcceptedDeployment) -> bool,
    ) {
        let accepted: BTreeSet<_> = self.accepted.iter().map(|one| &one.id).collect();
        assert_eq!(accepted.len(), self.accepted.len(), "each key has a deployment of its own");
        assert_eq!(ended.keys().collect::<BTreeSet<_>>(), accepted, "one deployment for each key");
        for env in &self.environments {
            let mut of_env: Vec<_> = self.accepted.iter().filter(|one| one.env == *env).collect();
            // Ids sort by acceptance.
            of_env.sort_by(|one, other| one.id.cmp(&other.id));
            let mut expected = Vec::new();
            for one in of_env {
                let (status, lines): (_, &[&str]) = if fails(one) {
                    ("failed", &["begin"])
                } else {
                    ("succeeded", &["begin", "end"])
                };
                assert_eq!(ended[&one.id].status, status, "{:#?}", ended[&one.id]);
                expected.extend(lines.iter().map(|what| ((*what).to_owned(), one.number)));
            }
            assert_eq!(self.stand_in.of(env), expected, "in {env}");
        }
    }
}
