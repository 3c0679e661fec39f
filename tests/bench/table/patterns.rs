//! Requests, read units and time of each access pattern.

use crate::{Bench, Error};
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::ports::Clock as _;
use canyon_identity::system::System;
use canyon_store::StoreError;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::page::PageRequest;
use serde_json::{Map, Value, json};
use std::time::Instant;

/// How often each pattern is measured.
const READS: u32 = 200;
/// As many as the API returns without `per_page`.
const PAGE: PageRequest = PageRequest { limit: 50, after: None };

impl Bench {
    /// Requests, read units and the median time in microseconds of each pattern. `of` is a deployment of the table.
    pub(crate) async fn patterns(&self, of: &Deployment) -> Result<Value, Error> {
        let (org, table) = (self.org, &self.meter.watch(&self.table));
        let search = |scope: DeploymentFilter, status| DeploymentSearch {
            status,
            lists_ends: true,
            ..DeploymentSearch::of(scope)
        };
        let list = async |scope: DeploymentFilter, status| {
            table.search_deployments(org, &search(scope, status), &PAGE).await
        };
        let environment = || DeploymentFilter::Environment(of.env_uuid);
        let project = || DeploymentFilter::Project(of.project.clone());
        let mut found = Map::new();
        let mut add = |name: &str, reading| found.insert(name.to_owned(), reading);
        add("a deployment", self.pattern(async || table.deployment(org, of.id).await).await?);
        add(
            "an environment",
            self.pattern(async || table.environment(org, &of.project, &of.env).await).await?,
        );
        add(
            "the newest of an organization",
            self.pattern(async || list(DeploymentFilter::All, None).await).await?,
        );
        add("the newest of a project", self.pattern(async || list(project(), None).await).await?);
        add(
            "the newest of an environment",
            self.pattern(async || list(environment(), None).await).await?,
        );
        let failed = Some(Status::Failed);
        add("the newest that failed", self.pattern(async || list(project(), failed).await).await?);
        let running = Some(Status::Running);
        add("those that run", self.pattern(async || list(project(), running).await).await?);
        add("what is due", self.pattern(async || table.due(System.now(), 100).await).await?);
        Ok(Value::Object(found))
    }

    async fn pattern<T>(
        &self,
        read: impl AsyncFn() -> Result<T, StoreError>,
    ) -> Result<Value, Error> {
        self.meter.take();
        let mut times = Vec::new();
        for _ in 0..READS {
            let begun = Instant::now();
            read().await?;
            times.push(begun.elapsed());
        }
        let taken = self.meter.take();
        times.sort_unstable();
        let median = times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1e6);
        let requests = f64::from(u32::try_from(taken.requests())?) / f64::from(READS);
        Ok(json!([requests, taken.read_units() / f64::from(READS), median]))
    }
}
