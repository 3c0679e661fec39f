//! Runners: where and how jobs run.

use crate::items::{Condition, key_item, number, text, to_item};
use crate::named::{Named as _, named};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::audit::AuditRecord;
use canyon_domain::enabled_role::EnabledRole;
use canyon_domain::ids::{OrgUuid, RunnerId, RunnerUuid};
use canyon_domain::requested_role::RoleName;
use canyon_domain::state_storage::StateStorage;
use canyon_domain::variable_scope::VariableScope;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A stored runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerRecord {
    /// Its name.
    pub id: RunnerId,
    /// Distinguishes it from earlier runners of the same name.
    pub uuid: RunnerUuid,
    /// Its type, for filters.
    pub runner_type: String,
    /// The definition as JSON text, as the caller sent it, without secrets.
    pub definition: String,
    /// The secrets of the definition, sealed for [`Self::sealing_context`]: JSON, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secrets: Option<String>,
    /// Whether an administrator has disabled the runner: nothing new is launched with it. `version`
    /// does not count this change, because running jobs are not affected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Storages that it kept state in before. The next run of an environment whose state is in one
    /// of them may move the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_storages: Vec<StateStorage>,
    /// Disabled roles that administrators have enabled; some may have expired. `version` does not count this change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub enabled_roles: BTreeMap<RoleName, EnabledRole>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// The oldest version whose jobs this one finds, because later changes concerned only jobs to come; `None`: this
    /// version itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finds_jobs_since: Option<u64>,
    /// Grows with every write.
    pub version: u64,
}

impl RunnerRecord {
    /// The sealing context of the secrets of the runner `id`. They cannot be opened with any other.
    pub fn sealing_context(org: OrgUuid, id: &RunnerId) -> String {
        format!("runner:{org}:{id}")
    }
}

named!(RunnerRecord, "runner");

impl Table {
    /// Creates a runner, on condition that the name is free. 4 write units up to 1 KB of
    /// definition.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_runner(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        self.create_named(org, &keys::runner(org, &runner.id), runner, record).await
    }

    /// A runner. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn runner(
        &self,
        org: OrgUuid,
        id: &RunnerId,
    ) -> Result<Option<RunnerRecord>, StoreError> {
        self.read(RunnerRecord::KIND.read, &keys::runner(org, id)).await
    }

    /// The runners by name, of one type if it is given. One read unit for each 4 KB read.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn runners(
        &self,
        org: OrgUuid,
        runner_type: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<RunnerRecord>, StoreError> {
        let keep = |runner: &RunnerRecord| runner_type.is_none_or(|t| runner.runner_type == t);
        self.list_named(keys::runners(org), request, keep).await
    }

    /// Every runner of an organization, by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn all_runners(&self, org: OrgUuid) -> Result<Vec<RunnerRecord>, StoreError> {
        let partition = Partition {
            operation: RunnerRecord::KIND.list,
            pk: keys::runners(org),
            prefix: None,
            descending: false,
        };
        self.all(partition, usize::MAX).await
    }

    /// Writes a changed runner, on condition that it has the version before. Writes only what a
    /// user defines, so that concurrent changes of the use count are kept. Writes `disabled` only
    /// if it is given, because [`Self::set_runner_disabled`] changes it without a version. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_runner(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        disabled: Option<bool>,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update runner";
        let key = keys::runner(org, &runner.id);
        // Only parts of it are written; what it is afterwards must fit.
        to_item(OPERATION, &key, runner)?;
        // `definition` is a reserved word.
        let mut set = vec!["#d = :d", "runner_type = :type", "updated_at = :at"];
        set.extend(["version = :new", "former_storages = :former"]);
        set.extend(disabled.map(|_| "disabled = :disabled"));
        set.extend(runner.sealed_secrets.as_ref().map(|_| "sealed_secrets = :s"));
        set.extend(runner.finds_jobs_since.map(|_| "finds_jobs_since = :since"));
        let mut absent = Vec::new();
        absent.extend(runner.sealed_secrets.is_none().then_some("sealed_secrets"));
        absent.extend(runner.finds_jobs_since.is_none().then_some("finds_jobs_since"));
        let remove = if absent.is_empty() { "" } else { " REMOVE " };
        let former: AttributeValue = serde_dynamo::to_attribute_value(&runner.former_storages)
            .map_err(|source| StoreError::corrupt(OPERATION, runner.id.to_string(), source))?;
        let update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(&key)))
            .update_expression(format!("SET {}{remove}{}", set.join(", "), absent.join(", ")))
            .expression_attribute_names("#d", "definition")
            .condition_expression(Condition::version(0).expression)
            .expression_attribute_values(":v", number(runner.version.saturating_sub(1)))
            .expression_attribute_values(":new", number(runner.version))
            .expression_attribute_values(":d", text(&runner.definition))
            .expression_attribute_values(":type", text(&runner.runner_type))
            .expression_attribute_values(":former", former)
            .expression_attribute_values(":at", text(runner.updated_at.to_string()));
        let update = match &runner.sealed_secrets {
            Some(sealed) => update.expression_attribute_values(":s", text(sealed)),
            None => update,
        };
        let update = match runner.finds_jobs_since {
            Some(since) => update.expression_attribute_values(":since", number(since)),
            None => update,
        };
        let update = match disabled {
            Some(disabled) => {
                update.expression_attribute_values(":disabled", AttributeValue::Bool(disabled))
            }
            None => update,
        };
        let update = aws_sdk_dynamodb::types::TransactWriteItem::builder()
            .set_update(update.build().ok())
            .build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact(OPERATION, runner.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Disables or enables a runner, on condition that it exists. Its version does not change,
    /// because running jobs are not affected. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn set_runner_disabled(
        &self,
        org: OrgUuid,
        id: &RunnerId,
        disabled: bool,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::runner(org, id))))
            .update_expression("SET disabled = :disabled, updated_at = :at")
            .condition_expression(Condition::present().expression)
            .expression_attribute_values(":disabled", AttributeValue::Bool(disabled))
            .expression_attribute_values(":at", text(record.at.to_string()))
            .build();
        let update =
            aws_sdk_dynamodb::types::TransactWriteItem::builder().set_update(update.ok()).build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact("switch runner", id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Writes the enabled roles of `runner`, on condition that it was not changed since it had the time `read_at`. Its
    /// version does not change, because running jobs are not affected. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_enabled_roles(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        read_at: Timestamp,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "enable role";
        let roles: AttributeValue = serde_dynamo::to_attribute_value(&runner.enabled_roles)
            .map_err(|source| StoreError::corrupt(OPERATION, runner.id.to_string(), source))?;
        let update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::runner(org, &runner.id))))
            .update_expression("SET enabled_roles = :roles, updated_at = :at")
            .condition_expression("updated_at = :read")
            .expression_attribute_values(":roles", roles)
            .expression_attribute_values(":read", text(read_at.to_string()))
            .expression_attribute_values(":at", text(runner.updated_at.to_string()))
            .build();
        let update =
            aws_sdk_dynamodb::types::TransactWriteItem::builder().set_update(update.ok()).build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact(OPERATION, runner.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes a runner and its variables, on condition that no environment and no rule uses it. 6 write units, and 2
    /// for each KB of the variables.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_runner(
        &self,
        org: OrgUuid,
        id: &RunnerId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let variables = self.variable_set_removal(org, &VariableScope::Runner(id.clone()));
        let key = keys::runner(org, id);
        self.delete_named::<RunnerRecord>(org, &key, vec![variables], record).await
    }
}
