//! What the description of a deployment's job is made of, in one request.

use crate::conditional::Item;
use crate::deployment_item::from_deployment_item;
use crate::deployments::BundleItem;
use crate::items::{from_item, key_item, text};
use crate::keys::{self, Key};
use crate::runners::RunnerRecord;
use crate::table::{PK, SK};
use crate::variable_sets::VariableSetItem;
use crate::{StoreError, Table};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, EnvId, OrgUuid, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::job::Bundle;
use canyon_domain::variable_scope::{VariableScope, VariableTarget};
use canyon_domain::variables::VariableSet;

/// What the description of a deployment's job is made of, beside the deployment itself.
#[derive(Debug)]
pub struct JobParts {
    /// The bundle.
    pub bundle: Option<Bundle>,
    /// The runner.
    pub runner: Option<RunnerRecord>,
    /// The environment that has the name of the deployment's now: perhaps a later one.
    pub environment: Option<Environment>,
    /// The sets of variables that cover the run, in no order. `None` for a deployment of an earlier version, which does
    /// not say its environment's type.
    pub variable_sets: Option<Vec<VariableSet>>,
}

impl Table {
    /// What the description of a deployment's job is made of. One request; one read unit for each 4 KB of an item, and one
    /// for each missing item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn job_parts(&self, org: OrgUuid, of: &Deployment) -> Result<JobParts, StoreError> {
        const OPERATION: &str = "read a job's parts";
        let bundle = keys::bundle(org, of.id);
        let runner = keys::runner(org, &of.runner);
        let environment = keys::environment(org, &of.project, &of.env);
        let covering = of.env_type.as_ref().map(|env_type| {
            let (runner, project, env) = (&of.runner, &of.project, &of.env);
            VariableScope::covering(VariableTarget { runner, project, env, env_type })
        });
        let sets = covering.iter().flatten().map(|scope| keys::variable_set(org, scope));
        let sets = sets.map(|key| key_item(&key));
        let keys = [&bundle, &runner, &environment].map(key_item).into_iter().chain(sets).collect();
        let mut found = self.batch(OPERATION, keys).await?;
        let bundle: Option<BundleItem> =
            taken(&mut found, &bundle).map(|item| from_item(OPERATION, item)).transpose()?;
        let runner =
            taken(&mut found, &runner).map(|item| from_item(OPERATION, item)).transpose()?;
        let environment =
            taken(&mut found, &environment).map(|item| from_item(OPERATION, item)).transpose()?;
        let set = |item| from_item::<VariableSetItem>(OPERATION, item)?.read();
        let sets = found.into_iter().map(set).collect::<Result<_, _>>()?;
        Ok(JobParts {
            bundle: bundle.map(BundleItem::read).transpose()?,
            runner,
            environment,
            variable_sets: covering.map(|_| sets),
        })
    }

    /// A deployment, and the environment that has this name now. One request; one read unit for each 4 KB of an item, and one
    /// if the environment is missing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn deployment_and_environment(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<(Option<Deployment>, Option<Environment>), StoreError> {
        const OPERATION: &str = "read deployment and environment";
        let keys = [keys::deployment(org, id), keys::environment(org, project, env)];
        let mut found = self.batch(OPERATION, keys.iter().map(key_item).collect()).await?;
        let [deployment, environment] = keys.map(|key| taken(&mut found, &key));
        let deployment =
            deployment.map(|item| from_deployment_item(OPERATION, item)).transpose()?;
        let environment = environment.map(|item| from_item(OPERATION, item)).transpose()?;
        Ok((deployment, environment))
    }

    /// The runner of a deployment, and the environment that has the name of the deployment's now. One request; one read unit
    /// for each 4 KB of an item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn runner_and_environment(
        &self,
        org: OrgUuid,
        of: &Deployment,
    ) -> Result<(Option<RunnerRecord>, Option<Environment>), StoreError> {
        const OPERATION: &str = "read runner and environment";
        let keys = [keys::runner(org, &of.runner), keys::environment(org, &of.project, &of.env)];
        let mut found = self.batch(OPERATION, keys.iter().map(key_item).collect()).await?;
        let [runner, environment] = keys.map(|key| taken(&mut found, &key));
        let runner = runner.map(|item| from_item(OPERATION, item)).transpose()?;
        Ok((runner, environment.map(|item| from_item(OPERATION, item)).transpose()?))
    }
}

/// Takes the item at `key` out of `items`, if it is there.
fn taken(items: &mut Vec<Item>, key: &Key) -> Option<Item> {
    let (pk, sk) = (text(&key.pk), text(&key.sk));
    let at = items.iter().position(|item| item.get(PK) == Some(&pk) && item.get(SK) == Some(&sk));
    at.map(|at| items.swap_remove(at))
}
