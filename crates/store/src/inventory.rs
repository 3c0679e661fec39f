//! Environment types and projects.

use crate::items::{Condition, key_item, text};
use crate::keys::Key;
use crate::named::{Named as _, named};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::audit::AuditRecord;
use canyon_domain::change::Change;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{EnvTypeId, OrgUuid, ProjectId};
use canyon_domain::inventory::{EnvironmentType, Project, Update};
use canyon_domain::runner::agents::ProfileName;
use canyon_domain::variable_scope::VariableScope;
use serde::Serialize;

named!(EnvironmentType, "environment type");
named!(Project, "project");

impl Table {
    /// Sets attributes of an existing item; removes those that are given as `None`.
    async fn change(
        &self,
        operation: &'static str,
        org: OrgUuid,
        key: &Key,
        changes: Vec<(&'static str, Option<AttributeValue>)>,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let mut update = aws_sdk_dynamodb::types::Update::builder()
            .table_name(self.name())
            .set_key(Some(key_item(key)))
            .condition_expression(Condition::present().expression)
            .expression_attribute_values(":at", text(record.at.to_string()));
        let mut set = vec!["updated_at = :at".to_owned()];
        let mut removed = Vec::new();
        for (name, value) in changes {
            match value {
                Some(value) => {
                    set.push(format!("{name} = :{name}"));
                    update = update.expression_attribute_values(format!(":{name}"), value);
                }
                None => removed.push(name),
            }
        }
        let set = format!("SET {}", set.join(", "));
        let removed = removed.join(", ");
        let expression = if removed.is_empty() { set } else { format!("{set} REMOVE {removed}") };
        let update = update.update_expression(expression).build();
        let update =
            aws_sdk_dynamodb::types::TransactWriteItem::builder().set_update(update.ok()).build();
        let items = vec![update, audit::record(self, org, record)?];
        let done = self.transact(operation, &key.sk, items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Creates an environment type, on condition that the name is free. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_env_type(
        &self,
        org: OrgUuid,
        env_type: &EnvironmentType,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        self.create_named(org, &keys::env_type(org, &env_type.id), env_type, record).await
    }

    /// An environment type. One read unit, and one more for each 4 KB of its policy.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
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
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn env_types(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<EnvironmentType>, StoreError> {
        self.list_named(keys::env_types(org), request, |_| true).await
    }

    /// Changes an environment type: its display name and the deletion protection of new
    /// environments, each if it is given. 4 write units. [`Saved::Lost`] if there is no such type.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn update_env_type(
        &self,
        org: OrgUuid,
        id: &EnvTypeId,
        update: &Update,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update environment type";
        let mut changes = Vec::new();
        if let Some(name) = &update.display_name {
            changes.push(("display_name", Some(text(name.as_str()))));
        }
        let corrupt = |source| StoreError::corrupt(OPERATION, id.to_string(), source);
        let protection = attribute("deletion_protection", &update.deletion_protection);
        let approval = attribute("approval", &update.approval);
        changes.extend(protection.map_err(corrupt)?);
        let policy = attribute("policy", &update.policy);
        changes.extend(approval.map_err(corrupt)?);
        changes.extend(policy.map_err(corrupt)?);
        self.change(OPERATION, org, &keys::env_type(org, id), changes, record).await
    }

    /// Deletes an environment type and its variables, on condition that nothing refers to it. 6 write
    /// units, and 2 for each KB of the variables.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_env_type(
        &self,
        org: OrgUuid,
        id: &EnvTypeId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let variables = self.variable_set_removal(org, &VariableScope::EnvType(id.clone()));
        let key = keys::env_type(org, id);
        self.delete_named::<EnvironmentType>(org, &key, vec![variables], record).await
    }

    /// Creates a project, on condition that the name is free. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
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
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
    ) -> Result<Option<Project>, StoreError> {
        self.read(Project::KIND.read, &keys::project(org, id)).await
    }

    /// The projects by name, filtered by `keep`. One read unit for each 4 KB read, also for what
    /// `keep` leaves out.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn projects(
        &self,
        org: OrgUuid,
        request: &PageRequest,
        keep: impl Fn(&Project) -> bool,
    ) -> Result<Page<Project>, StoreError> {
        self.list_named(keys::projects(org), request, keep).await
    }

    /// Whether the group `id` contains a project. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
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

    /// Whether a project other than `except` has the id `group` or is in that group. Two read units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn has_other_project(
        &self,
        org: OrgUuid,
        group: &ProjectId,
        except: &ProjectId,
    ) -> Result<bool, StoreError> {
        if group != except && self.project(org, group).await?.is_some() {
            return Ok(true);
        }
        let prefix = keys::projects_in_group(group);
        let partition = Partition {
            operation: Project::KIND.list,
            pk: keys::projects(org),
            prefix: Some(&prefix),
            descending: false,
        };
        let two = PageRequest { limit: 2, after: None };
        let found = self.page::<Project>(partition, &two, |_| true).await?;
        Ok(found.items.iter().any(|project| project.id != *except))
    }

    /// Changes a project, on condition that it exists. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn change_project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
        name: Option<&DisplayName>,
        profile: Change<&ProfileName>,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        let name = name.map(|name| ("display_name", Some(text(name.as_str()))));
        let profile = match profile {
            Change::Keep => None,
            Change::Remove => Some(("profile", None)),
            Change::Set(profile) => Some(("profile", Some(text(profile.as_str())))),
        };
        let changes = name.into_iter().chain(profile).collect();
        self.change("update project", org, &keys::project(org, id), changes, record).await
    }

    /// Deletes a project, on condition that nothing refers to it. 4 write units. Its variables go
    /// with it, and those of groups that are empty then (`without`), for 2 more each and 2 for each KB
    /// of them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_project(
        &self,
        org: OrgUuid,
        id: &ProjectId,
        without: &[ProjectId],
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let removal =
            |of: &ProjectId| self.variable_set_removal(org, &VariableScope::Project(of.clone()));
        let dependent = without.iter().map(removal).collect();
        self.delete_named::<Project>(org, &keys::project(org, id), dependent, record).await
    }
}

/// The attribute that a change writes, or removes; none if it keeps what is there.
fn attribute<T: Serialize>(
    name: &'static str,
    change: &Change<T>,
) -> Result<Option<(&'static str, Option<AttributeValue>)>, serde_dynamo::Error> {
    Ok(match change {
        Change::Keep => None,
        Change::Remove => Some((name, None)),
        Change::Set(value) => Some((name, Some(serde_dynamo::to_attribute_value(value)?))),
    })
}
