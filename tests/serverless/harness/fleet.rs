//! Many deployments to many environments, run by the stand-in for OpenTofu.

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

/// Callers at once: each of them needs a process of the API.
const CALLERS: usize = 6;
/// Between two looks at the list.
const LOOK: Duration = Duration::from_millis(500);
/// For calls that a client repeats.
const PATIENCE: Duration = Duration::from_mins(8);

/// An installation with many environments.
pub(crate) struct Fleet {
    pub(crate) site: Site,
    pub(crate) stand_in: StandIn,
    pub(crate) environments: Vec<String>,
    /// What was accepted.
    pub(crate) orders: Vec<Order>,
}

/// An accepted deployment.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) env: String,
    /// The how manieth of its environment.
    pub(crate) number: u32,
    /// How many requests it took.
    pub(crate) requests: u32,
}

impl Fleet {
    /// With so many environments.
    pub(crate) async fn new(environments: usize) -> Self {
        let stand_in = StandIn::new();
        let server = Server::start_with(&programs::built(), stand_in.search_path()).await;
        let site = Site::on(server, &json!({})).await;
        let environments: Vec<_> = (0..environments).map(|n| format!("env-{n}")).collect();
        let made = futures::stream::iter(&environments).map(|env| site.environment(env));
        made.buffer_unordered(CALLERS).collect::<()>().await;
        Self { site, stand_in, environments, orders: Vec::new() }
    }

    /// One deployment to each environment, as the `number`th there.
    pub(crate) async fn deploy(&mut self, number: u32, part: impl Fn(&str) -> Part) {
        let orders: Vec<_> = futures::stream::iter(&self.environments)
            .map(|env| self.order(env, number, part(env)))
            .buffer_unordered(CALLERS)
            .collect()
            .await;
        self.orders.extend(orders);
    }

    /// Asks for a deployment, with one key, until there is an answer.
    async fn order(&self, env: &str, number: u32, part: Part) -> Order {
        let body = request(env, Some(stand_in::module(part, env, number)));
        let (key, deadline) = (Uuid::new_v4().to_string(), Instant::now() + PATIENCE);
        let mut requests = 0;
        loop {
            requests += 1;
            match self.site.client.create_deployment(&body, &key).await {
                Ok(deployment) => {
                    let id = deployment.id.to_string();
                    return Order { id, env: env.to_owned(), number, requests };
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
            if trouble.is_none() && open.is_empty() && ended.len() >= self.orders.len() {
                return ended.into_iter().map(|one| (one.id.to_string(), one)).collect();
            }
            assert!(
                Instant::now() < deadline,
                "after {limit:?} {} of {} have ended ({trouble:?}); open: {open:#?}",
                ended.len(),
                self.orders.len()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Those deployments and no others are there, each of them run once, one after the other in each environment,
    /// in the order of their acceptance. All succeeded but those that `fails` names.
    pub(crate) fn assert_ran_once_in_order(
        &self,
        ended: &BTreeMap<String, Deployment>,
        fails: impl Fn(&Order) -> bool,
    ) {
        let accepted: BTreeSet<_> = self.orders.iter().map(|order| &order.id).collect();
        assert_eq!(accepted.len(), self.orders.len(), "each key has a deployment of its own");
        assert_eq!(ended.keys().collect::<BTreeSet<_>>(), accepted, "one deployment for each key");
        for env in &self.environments {
            let mut orders: Vec<_> = self.orders.iter().filter(|one| one.env == *env).collect();
            // Ids sort by acceptance.
            orders.sort_by(|one, other| one.id.cmp(&other.id));
            let mut expected = Vec::new();
            for order in orders {
                let (status, lines): (_, &[&str]) = if fails(order) {
                    ("failed", &["begin"])
                } else {
                    ("succeeded", &["begin", "end"])
                };
                assert_eq!(ended[&order.id].status, status, "{:#?}", ended[&order.id]);
                expected.extend(lines.iter().map(|what| ((*what).to_owned(), order.number)));
            }
            assert_eq!(self.stand_in.of(env), expected, "in {env}");
        }
    }
}
