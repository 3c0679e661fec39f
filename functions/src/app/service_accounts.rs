//! Creates, changes and deletes service accounts.

use super::App;
use super::narrowing::Narrowing;
use crate::app::error::AppError;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{RunnerId, ServiceAccountId};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::scoped_role::{ScopedRole, check_together, granted};
use canyon_domain::service_account::ServiceAccount;
use canyon_domain::trust_policy::TrustPolicy;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};

/// A request to create a service account, parsed.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAccountRequest {
    pub(crate) id: ServiceAccountId,
    pub(crate) description: String,
    pub(crate) role: Role,
    pub(crate) scoped_roles: Vec<ScopedRole>,
    pub(crate) runner: Option<RunnerId>,
    pub(crate) trust_policies: Vec<TrustPolicy>,
}

/// The fields of a service account to change.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAccountChange {
    pub(crate) description: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) scoped_roles: Option<Vec<ScopedRole>>,
    pub(crate) runner: Narrowing<RunnerId>,
    pub(crate) trust_policies: Option<Vec<TrustPolicy>>,
}

impl App {
    /// A page of the service accounts.
    pub(crate) async fn service_accounts(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<ServiceAccount>, AppError> {
        Ok(self.table.service_accounts(by.org, page).await?)
    }

    /// Creates a service account.
    pub(crate) async fn create_service_account(
        &self,
        by: &Principal,
        order: ServiceAccountRequest,
    ) -> Result<ServiceAccount, AppError> {
        let ServiceAccountRequest { id, description, role, scoped_roles, runner, trust_policies } =
            order;
        let mut record =
            self.record(by, "service_account.create", format!("service-accounts/{id}"));
        let account = ServiceAccount {
            uuid: self.entropy.id(record.at),
            id,
            description,
            role,
            scoped_roles,
            runner,
            trust_policies,
            created_at: record.at,
            updated_at: record.at,
            version: 1,
        };
        self.check_account(by, &account).await?;
        record.details = granted(account.role, &account.scoped_roles);
        match self.table.create_service_account(by.org, &account, &record).await? {
            Created::Yes => Ok(account),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "service account `{0}` exists already; change it with: canyon update \
                 service-account {0}",
                account.id
            ))),
        }
    }

    /// Checks that the roles are compatible. Only an account with the role `agent` may name a runner, and that runner
    /// must exist: another runner could later be created with its name.
    async fn check_account(
        &self,
        by: &Principal,
        account: &ServiceAccount,
    ) -> Result<(), AppError> {
        let mut faults = FieldErrors::default();
        check_together(&mut faults, account.role, &account.scoped_roles);
        account.check_policies(&mut faults);
        faults.into_result(())?;
        let Some(runner) = &account.runner else { return Ok(()) };
        if account.role != Role::Agent {
            return Err(AppError::invalid(
                "runner_id",
                "is for the role `agent` alone; leave it out",
            ));
        }
        if self.table.runner(by.org, runner).await?.is_none() {
            return Err(AppError::invalid(
                "runner_id",
                format!("names no runner; create it first: canyon create runner {runner}"),
            ));
        }
        Ok(())
    }

    /// A service account. 404 if it does not exist.
    pub(crate) async fn service_account(
        &self,
        by: &Principal,
        id: &ServiceAccountId,
    ) -> Result<ServiceAccount, AppError> {
        let found = self.table.service_account(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("service account", id))
    }

    /// Changes the fields that `change` gives. Tokens that were issued before become invalid.
    pub(crate) async fn update_service_account(
        &self,
        by: &Principal,
        id: &ServiceAccountId,
        change: &ServiceAccountChange,
    ) -> Result<ServiceAccount, AppError> {
        for _ in 0..MAX_TRIES {
            let before = self.service_account(by, id).await?;
            let mut record =
                self.record(by, "service_account.update", format!("service-accounts/{id}"));
            let change = change.clone();
            let after = ServiceAccount {
                description: change.description.unwrap_or(before.description),
                role: change.role.unwrap_or(before.role),
                scoped_roles: change.scoped_roles.unwrap_or(before.scoped_roles),
                runner: change.runner.of(before.runner),
                trust_policies: change.trust_policies.unwrap_or(before.trust_policies),
                updated_at: record.at,
                version: before.version + 1,
                ..before
            };
            self.check_account(by, &after).await?;
            record.details = granted(after.role, &after.scoped_roles);
            let saved =
                self.table.save_service_account(by.org, before.version, &after, &record).await?;
            if saved == Saved::Yes {
                self.authenticated.forget();
                return Ok(after);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes a service account: sign-ins as it are refused, and its tokens become invalid. Deployments that it
    /// requested continue.
    pub(crate) async fn delete_service_account(
        &self,
        by: &Principal,
        id: &ServiceAccountId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let account = self.service_account(by, id).await?;
            let record =
                self.record(by, "service_account.delete", format!("service-accounts/{id}"));
            let deleted = self.table.delete_service_account(by.org, &account, &record).await?;
            if deleted == Deleted::Yes {
                self.authenticated.forget();
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }
}
