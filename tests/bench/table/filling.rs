//! Fills the table with deployments that have ended.

use crate::{Bench, Error, audit};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::job::Bundle;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use canyon_store::deployments::Accepted;
use futures::future::try_join_all;

/// Environments that are filled at once, so that their writes share an fsync.
const ENVIRONMENTS: usize = 8;

/// Their ids. The first is that of the measured deployments.
pub(crate) fn environments() -> impl Iterator<Item = String> {
    (0..ENVIRONMENTS).map(|number| format!("e{number}"))
}

/// What is copied, and the last copy of the first environment.
pub(crate) struct Filling {
    bundle: Bundle,
    last: Deployment,
}

impl Filling {
    /// Copies `pattern`.
    pub(crate) async fn new(bench: &Bench, pattern: Deployment) -> Result<Self, Error> {
        let bundle = bench.table.bundle(bench.org, pattern.id).await?;
        Ok(Self { bundle: bundle.ok_or("no bundle")?, last: pattern })
    }

    /// Adds `count` deployments.
    pub(crate) async fn add(&mut self, bench: &Bench, count: usize) -> Result<(), Error> {
        let shares = environments()
            .enumerate()
            .map(|(number, id)| self.add_to(bench, id, (count + number) / ENVIRONMENTS));
        let added = try_join_all(shares).await?;
        if let Some(last) = added.into_iter().next().flatten() {
            self.last = last;
        }
        Ok(())
    }

    /// A deployment of an environment with many.
    pub(crate) fn last(&self) -> &Deployment {
        &self.last
    }

    async fn add_to(
        &self,
        bench: &Bench,
        id: String,
        count: usize,
    ) -> Result<Option<Deployment>, Error> {
        let found = bench.table.environment(bench.org, &self.last.project, &id.parse()?).await?;
        let mut environment = found.ok_or("the environment is gone")?;
        let mut last = None;
        for _ in 0..count {
            let now = System.now();
            let deployment = Deployment {
                id: DeploymentId(System.id(now)),
                env: environment.id.clone(),
                env_uuid: environment.uuid,
                created_at: now,
                ..self.last.clone()
            };
            environment.version += 1;
            let record = audit("deployment.create", format!("deployments/{}", deployment.id));
            let write = bench.table.accept_deployment(
                bench.org,
                &deployment,
                &self.bundle,
                &environment,
                None,
                &record,
            );
            if !matches!(write.await?, Accepted::Yes) {
                return Err("another process changes the environment".into());
            }
            last = Some(deployment);
        }
        Ok(last)
    }
}
