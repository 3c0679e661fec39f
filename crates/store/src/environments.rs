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
    /// runners, audit; on condition that the name is free and that those exist. 10 write
    /// units, and 2 for each fallback. [`Created::Missing`]: 1 the project, 2 the type, then the runners.
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
    ) -> Vec<TransactWriteItem> {
        let mut items = vec![
            count_use(self, &keys::project(org, &environment.project_id), change),
            count_use(self, &keys::env_type(org, &environment.env_type_id), change),
        ];
        items.extend(self.runner_uses(org, environment.runner_ids(), change));
        items
    }

    /// Parts of a transaction: one use more or less of each runner, on condition that it exists.
    pub(crate) fn runner_uses<'r>(
        &self,
        org: OrgUuid,
        runners: impl IntoIterator<Item = &'r RunnerId>,
        change: i64,
    ) -> Vec<TransactWriteItem> {
        runners.into_iter().map(|id| count_use(self, &keys::runner(org, id), change)).collect()
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

    /// Links an environment to other runners. Keys: the environment, the use counts of those of the
    /// `former` runners that it leaves and of the new ones, audit; on condition that the environment has the version
    /// before and the new runners exist. 4 write units, and 2 for each of these runners.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn relink_environment(
        &self,
        org: OrgUuid,
        environment: &Environment,
        former: &[RunnerId],
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let mut items =
            vec![self.environment_item(org, environment)?, audit::record(self, org, record)?];
        // A transaction may not name one item twice.
        let left = former.iter().filter(|id| environment.runner_ids().all(|kept| kept != *id));
        items.extend(self.runner_uses(org, left, -1));
        let new = environment.runner_ids().filter(|id| !former.contains(id));
        items.extend(self.runner_uses(org, new, 1));
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

    /// Deletes an environment at once with its schedules, on condition that it has the version that was read. 12 write
    /// units, 2 for each KB of its variables, and 2 for each KB of a schedule.
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
        items.extend(self.schedule_removals(org, environment.uuid).await?);
        items.push(audit::record(self, org, record)?);
        let done = self.transact("delete environment", environment.id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
