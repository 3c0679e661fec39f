//! Creates, changes and deletes environment types.

use super::App;
use super::environments::approval_in_words;
use crate::app::error::AppError;
use canyon_domain::approval::ApprovalRule;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::EnvTypeId;
use canyon_domain::inventory::{DeletionProtection, EnvironmentType, Update};
use canyon_domain::policy::Policy;
use canyon_domain::principal::Principal;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use canyon_store::runner_rules::RuleFilter;

/// What a new environment type asks of its environments.
#[derive(Debug, Default)]
pub(crate) struct TypeRules {
    pub(crate) deletion_protection: Option<DeletionProtection>,
    pub(crate) approval: Option<ApprovalRule>,
    pub(crate) policy: Option<Box<Policy>>,
}

/// A policy for an audit record: its digest, and not its text.
fn policy_in_words(policy: Option<&Policy>) -> String {
    policy.map_or_else(|| "no policy".to_owned(), |policy| format!("policy {}", policy.digest()))
}

impl App {
    /// A page of the environment types.
    pub(crate) async fn env_types(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<EnvironmentType>, AppError> {
        Ok(self.table.env_types(by.org, page).await?)
    }

    /// Creates an environment type.
    pub(crate) async fn create_env_type(
        &self,
        by: &Principal,
        id: EnvTypeId,
        display_name: DisplayName,
        rules: TypeRules,
    ) -> Result<EnvironmentType, AppError> {
        let mut record = self.record(by, "env_type.create", format!("env-types/{id}"));
        let TypeRules { deletion_protection, approval, policy } = rules;
        self.check_approver_groups(by, approval.as_ref()).await?;
        record.details.extend(policy.as_deref().map(|policy| policy_in_words(Some(policy))));
        let uuid = self.entropy.id(record.at);
        let created_at = record.at;
        let env_type = EnvironmentType {
            id,
            uuid,
            display_name,
            deletion_protection,
            approval,
            policy,
            created_at,
        };
        match self.table.create_env_type(by.org, &env_type, &record).await? {
            Created::Yes => Ok(env_type),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "environment type `{}` exists already",
                env_type.id
            ))),
        }
    }

    /// An environment type. 404 if it does not exist.
    pub(crate) async fn env_type(
        &self,
        by: &Principal,
        id: &EnvTypeId,
    ) -> Result<EnvironmentType, AppError> {
        let found = self.table.env_type(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("environment type", id))
    }

    /// Changes the fields that are given.
    pub(crate) async fn update_env_type(
        &self,
        by: &Principal,
        id: &EnvTypeId,
        update: &Update,
    ) -> Result<EnvironmentType, AppError> {
        self.check_approver_groups(by, update.approval.value()).await?;
        let mut record = self.record(by, "env_type.update", format!("env-types/{id}"));
        record.details.extend(approval_in_words(&update.approval));
        if !update.policy.is_keep() {
            record.details.push(policy_in_words(update.policy.value().map(|policy| &**policy)));
        }
        match self.table.update_env_type(by.org, id, update, &record).await? {
            Saved::Yes => {
                let changed = self.env_type(by, id).await?;
                if !update.approval.is_keep() || !update.policy.is_keep() {
                    self.copy_type_rules(by, &changed).await?;
                }
                Ok(changed)
            }
            Saved::Lost => Err(AppError::not_found("environment type", id)),
        }
    }

    /// Deletes an environment type that no environment has and no rule names.
    pub(crate) async fn delete_env_type(
        &self,
        by: &Principal,
        id: &EnvTypeId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let record = self.record(by, "env_type.delete", format!("env-types/{id}"));
            if self.table.delete_env_type(by.org, id, &record).await? == Deleted::Yes {
                return Ok(());
            }
            self.env_type(by, id).await?;
            let filter = RuleFilter { env_type: Some(id.clone()), ..RuleFilter::default() };
            let users = self.users(by, |env| env.env_type_id == *id, Some(&filter)).await?;
            if !users.is_empty() {
                return Err(users.refusal(
                    &format!("environment type `{id}`"),
                    "delete those first: canyon delete environment PROJECT ENV, \
                     canyon delete runner-rule ID",
                ));
            }
        }
        Err(AppError::contended(id))
    }
}

/// 400: the body names an environment type that does not exist.
pub(super) fn missing_env_type(id: &EnvTypeId) -> AppError {
    AppError::invalid(
        "env_type_id",
        format!("names no environment type; create it: canyon create environment-type {id}"),
    )
}
