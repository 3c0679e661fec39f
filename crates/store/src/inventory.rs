//! Environment types, projects and runners: things with a name, which others refer to.
//!
//! Each counts in `uses` how many rules and environments refer to it, in the transaction that makes
//! or removes those; so none is deleted under them. Who they are is looked up only for the message
//! of a refusal.

use crate::items::{Condition, delete, key_item, number, put, text, to_item};
use crate::keys::Key;
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{EnvTypeId, OrgUuid, ProjectId, RunnerId, RunnerUuid};
use canyon_domain::inventory::{EnvironmentType, Project};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A stored runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerRecord {
    /// Its name.
    pub id: RunnerId,
    /// Which life of that name.
    pub uuid: RunnerUuid,
    /// Its type, for filters.
    pub runner_type: String,
    /// The definition as JSON text, as it was given, without secrets.
    pub definition: String,
    /// The secrets of the definition, sealed for [`Self::secrets_place`]: JSON, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secrets: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Grows with every write.
    pub version: u64,
}

impl RunnerRecord {
    /// The place that the secrets of the runner `id` are sealed for. They open nowhere else.
    pub fn secrets_place(org: OrgUuid, id: &RunnerId) -> String {
        format!("runner:{org}:{id}")
    }
}

/// A thing with a name.
trait Named: Serialize + DeserializeOwned {
    const KIND: Kind;
}

/// How messages speak of a kind of thing.
struct Kind {
    create: &'static str,
    read: &'static str,
    list: &'static str,
    delete: &'static str,
}

macro_rules! named {
    ($type:ty, $name:literal) => {
        impl Named for $type {
            const KIND: Kind = Kind {
                create: concat!("create ", $name),
                read: concat!("read ", $name),
                list: concat!("list ", $name, "s"),
                delete: concat!("delete ", $name),
            };
        }
    };
}
named!(EnvironmentType, "environment type");
named!(Project, "project");
named!(RunnerRecord, "runner");

impl Table {
    async fn create_named<T: Named>(
        &self,
        org: OrgUuid,
        key: &Key,
        value: &T,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        let items = vec![
            put(self, to_item(T::KIND.create, key, value)?, Condition::absent()),
            audit::record(self, org, record)?,
        ];
        let done = self.transact(T::KIND.create, &key.sk, items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    async fn list_named<T: Named>(
        &self,
        pk: String,
        request: &PageRequest,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Page<T>, StoreError> {
        let operation = T::KIND.list;
        self.page(Partition { operation, pk, prefix: None, descending: false }, request, keep).await
    }

    async fn delete_named<T: Named>(
        &self,
        org: OrgUuid,
        key: &Key,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let items = vec![delete(self, key, Condition::unused()), audit::record(self, org, record)?];
        let done = self.transact(T::KIND.delete, &key.sk, items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// Gives the thing at `key` another display name, on condition that it is there.
    async fn rename(
        &self,
        operation: &'static str,
        org: OrgUuid,
        key: &Key,
        name: &DisplayName,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(key)))
            .update_expression("SET display_name = :name, updated_at = :at")
            .condition_expression(Condition::present().expression)
            .expression_attribute_values(":name", text(name.as_str()))
            .expression_attribute_values(":at", text(record.at.to_string()))
            .build();
        let update =
            aws_sdk_dynamodb::types::TransactWriteItem::builder().set_update(update.ok()).build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact(operation, &key.sk, items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Makes an environment type, if there is none of its name. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn create_env_type(
        &self,
        org: OrgUuid,
        env_type: &EnvironmentType,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        self.create_named(org, &keys::env_type(org, &env_type.id), env_type, record).await
    }

    /// An environment type. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn env_type(
        &self,
        org: OrgUuid,
        id: &EnvTypeId,
    ) -> Result<Option<EnvironmentType>, StoreError> {
        self.read(EnvironmentType::KIND.read, &keys::env_type(org, id)).await
    }

    /// The environment types by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn env_types(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<EnvironmentType>, StoreError> {
        self.list_named(keys::env_types(org), request, |_| true).await
    }

    /// Renames an environment type, if it is there. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn rename_env_type(
        &self,
        org: OrgUuid,
        id: &EnvTypeId,
        name: &DisplayName,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let key = keys::env_type(org, id);
        self.rename("update environment type", org, &key, name, record).await
    }

    /// Deletes an environment type that nothing uses. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn delete_env_type(
        &self,
        org: OrgUuid,
        id: &EnvTypeId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        self.delete_named::<EnvironmentType>(org, &keys::env_type(org, id), record).await
    }

    /// Makes a project, if there is none of its name. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn create_project(
        &self,
        org: OrgUuid,
        project: &Project,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        self.create_named(org, &keys::project(org, &project.id), project, record).await
    }

    /// A project. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
    ) -> Result<Option<Project>, StoreError> {
        self.read(Project::KIND.read, &keys::project(org, id)).await
    }

    /// The projects by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn projects(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<Project>, StoreError> {
        self.list_named(keys::projects(org), request, |_| true).await
    }

    /// Whether any project lies in the group `id`. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn is_group(&self, org: OrgUuid, id: &ProjectId) -> Result<bool, StoreError> {
        let prefix = keys::projects_in_group(id);
        let partition = Partition {
            operation: Project::KIND.list,
            pk: keys::projects(org),
            prefix: Some(&prefix),
            descending: false,
        };
        let first = PageRequest { limit: 1, after: None };
        Ok(!self.page::<Project>(partition, &first, |_| true).await?.items.is_empty())
    }

    /// Renames a project, if it is there. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn rename_project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
        name: &DisplayName,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        self.rename("update project", org, &keys::project(org, id), name, record).await
    }

    /// Deletes a project that nothing uses. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn delete_project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        self.delete_named::<Project>(org, &keys::project(org, id), record).await
    }

    /// Makes a runner, if there is none of its name. 4 write units up to 1 KB of definition.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
    /// [`StoreError`] as every read.
    pub async fn runner(
        &self,
        org: OrgUuid,
        id: &RunnerId,
    ) -> Result<Option<RunnerRecord>, StoreError> {
        self.read(RunnerRecord::KIND.read, &keys::runner(org, id)).await
    }

    /// The runners by name, of one type if that is given. One read unit for each 4 KB read.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn runners(
        &self,
        org: OrgUuid,
        runner_type: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<RunnerRecord>, StoreError> {
        let keep = |runner: &RunnerRecord| runner_type.is_none_or(|t| runner.runner_type == t);
        self.list_named(keys::runners(org), request, keep).await
    }

    /// Writes a changed runner, on condition that it has the version before. Only what a person
    /// defines is written, so that uses counted meanwhile are kept. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn save_runner(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update runner";
        let secrets = match &runner.sealed_secrets {
            Some(_) => ", sealed_secrets = :s",
            None => " REMOVE sealed_secrets",
        };
        let update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(&keys::runner(org, &runner.id))))
            // `definition` is a reserved word.
            .update_expression(format!(
                "SET #d = :d, runner_type = :type, updated_at = :at, version = :new{secrets}"
            ))
            .expression_attribute_names("#d", "definition")
            .condition_expression(Condition::version(0).expression)
            .expression_attribute_values(":v", number(runner.version.saturating_sub(1)))
            .expression_attribute_values(":new", number(runner.version))
            .expression_attribute_values(":d", text(&runner.definition))
            .expression_attribute_values(":type", text(&runner.runner_type))
            .expression_attribute_values(":at", text(runner.updated_at.to_string()));
        let update = match &runner.sealed_secrets {
            Some(sealed) => update.expression_attribute_values(":s", text(sealed)),
            None => update,
        };
        let update = aws_sdk_dynamodb::types::TransactWriteItem::builder()
            .set_update(update.build().ok())
            .build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact(OPERATION, runner.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes a runner that no environment and no rule uses. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn delete_runner(
        &self,
        org: OrgUuid,
        id: &RunnerId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        self.delete_named::<RunnerRecord>(org, &keys::runner(org, id), record).await
    }
}
