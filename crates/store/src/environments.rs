//! Environments: their link to a runner, and their queue of deployments.

use crate::items::{Condition, count_use, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{EnvId, OrgUuid, ProjectId, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::variable_scope::VariableScope;

impl Table {
    /// Creates an environment. Keys: the environment, the use counts of its project, type and
    /// runner, audit; on condition that the name is free and that those three exist. 10 write
    /// units. [`Created::Missing`]: 1 the project, 2 the type, 3 the runner.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_environment(
        &self,
        org: OrgUuid,
        environment: &Environment,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let key = keys::environment(org, &environment.project_id, &environment.id);
        let mut items =
            vec![put(self, to_item("create environment", &key, environment)?, Condition::absent())];
        items.extend(self.environment_uses(org, environment, 1));
        items.push(audit::record(self, org, record)?);
        match self.transact("create environment", &key.sk, items).await? {
            Ok(()) => Ok(Created::Yes),
            Err(cancelled) if cancelled.includes(0) => Ok(Created::Exists),
            Err(cancelled) => Ok(Created::Missing(cancelled.first())),
        }
    }

    fn environment_uses(
        &self,
        org: OrgUuid,
        environment: &Environment,
        change: i64,
    ) -> [TransactWriteItem; 3] {
        [
            count_use(self, &keys::project(org, &environment.project_id), change),
            count_use(self, &keys::env_type(org, &environment.env_type_id), change),
            count_use(self, &keys::runner(org, &environment.runner_id), change),
        ]
    }

    /// An environment. One read unit up to 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn environment(
        &self,
        org: OrgUuid,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<Option<Environment>, StoreError> {
        self.read("read environment", &keys::environment(org, project, env)).await
    }

    /// The environments by project and name, of one project if it is given, filtered by `keep`. One
    /// read unit for each 4 KB read, also for what `keep` leaves out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn environments(
        &self,
        org: OrgUuid,
        project: Option<&ProjectId>,
        request: &PageRequest,
        keep: impl Fn(&Environment) -> bool,
    ) -> Result<Page<Environment>, StoreError> {
        let prefix = project.map(keys::environments_of_project);
        let partition = Partition {
            operation: "list environments",
            pk: keys::environments(org),
            prefix: prefix.as_deref(),
            descending: false,
        };
        self.page(partition, request, keep).await
    }

    /// Part of a transaction: stores the environment, on condition that it has the version before.
    pub(crate) fn environment_item(
        &self,
        org: OrgUuid,
        environment: &Environment,
    ) -> Result<TransactWriteItem, StoreError> {
        let key = keys::environment(org, &environment.project_id, &environment.id);
        let item = to_item("update environment", &key, environment)?;
        let before = environment.version.saturating_sub(1);
        Ok(put(self, item, Condition::unchanged(environment.created_at, before)))
    }

    /// Writes a changed environment, on condition that it has the version before. 4 write units at
    /// 1 KB for each item.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_environment(
        &self,
        org: OrgUuid,
        environment: &Environment,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let items =
            vec![self.environment_item(org, environment)?, audit::record(self, org, record)?];
        let done = self.transact("update environment", environment.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Links an environment to another runner. Keys: the environment, the use counts of the
    /// `former` and the new runner, audit; on condition that the environment has the version before
    /// and the new runner exists. 8 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn relink_environment(
        &self,
        org: OrgUuid,
        environment: &Environment,
        former: &RunnerId,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        if *former == environment.runner_id {
            // A transaction may not name one item twice.
            return self.save_environment(org, environment, record).await;
        }
        let items = vec![
            self.environment_item(org, environment)?,
            count_use(self, &keys::runner(org, former), -1),
            count_use(self, &keys::runner(org, &environment.runner_id), 1),
            audit::record(self, org, record)?,
        ];
        let done = self.transact("refresh runner of", environment.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Parts of a transaction: deletes the environment as it was read and its variables, and
    /// decrements the use counts.
    pub(crate) fn environment_removal(
        &self,
        org: OrgUuid,
        environment: &Environment,
    ) -> Vec<TransactWriteItem> {
        let key = keys::environment(org, &environment.project_id, &environment.id);
        let as_read = Condition::unchanged(environment.created_at, environment.version);
        let mut items = vec![delete(self, &key, as_read)];
        items.extend(self.environment_uses(org, environment, -1));
        let (project, env) = (environment.project_id.clone(), environment.id.clone());
        items.push(self.variable_set_removal(org, &VariableScope::Environment(project, env)));
        items
    }

    /// Deletes an environment at once, on condition that it has the version that was read. 12 write
    /// units, and 2 for each KB of its variables.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_environment(
        &self,
        org: OrgUuid,
        environment: &Environment,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let mut items = self.environment_removal(org, environment);
        items.push(audit::record(self, org, record)?);
        let done = self.transact("delete environment", environment.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
