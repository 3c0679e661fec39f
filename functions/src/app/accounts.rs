//! Creates, changes and deletes accounts: identities at clouds that resource definitions name.

use super::App;
use crate::app::error::AppError;
use canyon_domain::account::{Account, AccountCredentials, AccountId};
use canyon_domain::definition::Definition;
use canyon_domain::definition::account_reference::accounts_of;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::merge_patch::merge_patch;
use canyon_domain::principal::Principal;
use canyon_store::accounts::MAX_ACCOUNTS;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use serde_json::Value;

/// The fields of an account to change.
#[derive(Clone, Debug)]
pub(crate) struct AccountChange {
    pub(crate) name: Option<String>,
    /// Must be the stored type.
    pub(crate) account_type: Option<String>,
    /// Merged into the stored credentials.
    pub(crate) credentials: Option<Value>,
}

impl App {
    /// A page of the accounts.
    pub(crate) async fn accounts(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<Account>, AppError> {
        Ok(self.table.accounts(by.org, page).await?)
    }

    /// Creates an account.
    pub(crate) async fn create_account(
        &self,
        by: &Principal,
        id: AccountId,
        name: Option<String>,
        credentials: AccountCredentials,
    ) -> Result<Account, AppError> {
        if self.table.all_accounts(by.org).await?.len() >= MAX_ACCOUNTS {
            return Err(AppError::conflict(format!(
                "an organization has at most {MAX_ACCOUNTS} accounts; delete some first"
            )));
        }
        let record = self.record(by, "account.create", path_of(&id));
        let (created_at, updated_at) = (record.at, record.at);
        let name = name.filter(|text| !text.is_empty());
        let account = Account { id, name, credentials, created_at, updated_at, version: 1 };
        match self.table.create_account(by.org, &account, &record).await? {
            Created::Yes => Ok(account),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "account `{0}` exists already; change it with: canyon update account {0}",
                account.id
            ))),
        }
    }

    /// An account. 404 if it does not exist.
    pub(crate) async fn account(
        &self,
        by: &Principal,
        id: &AccountId,
    ) -> Result<Account, AppError> {
        let found = self.table.account(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("account", id))
    }

    /// Changes the fields that `change` gives.
    pub(crate) async fn update_account(
        &self,
        by: &Principal,
        id: &AccountId,
        change: &AccountChange,
    ) -> Result<Account, AppError> {
        for _ in 0..MAX_TRIES {
            let mut account = self.account(by, id).await?;
            account.credentials = changed(&account, change)?;
            if let Some(name) = &change.name {
                account.name = Some(name.clone()).filter(|text| !text.is_empty());
            }
            let record = self.record(by, "account.update", path_of(id));
            account.updated_at = record.at;
            account.version += 1;
            if self.table.save_account(by.org, &account, &record).await? == Saved::Yes {
                return Ok(account);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes an account that no resource definition names.
    pub(crate) async fn delete_account(
        &self,
        by: &Principal,
        id: &AccountId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let account = self.account(by, id).await?;
            self.refuse_named(by, id).await?;
            let record = self.record(by, "account.delete", path_of(id));
            if self.table.delete_account(by.org, &account, &record).await? == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }

    /// Reads all definitions of the organization.
    async fn refuse_named(&self, by: &Principal, id: &AccountId) -> Result<(), AppError> {
        let definitions = self.table.all_resource_definitions(by.org).await?;
        let names_it = |one: &&Definition| accounts_of(one).contains(id);
        let naming: Vec<_> = definitions.iter().filter(names_it).collect();
        let Some(first) = naming.first() else { return Ok(()) };
        let more = match naming.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Err(AppError::conflict(format!(
            "resource definition `{0}`{more} names account `{id}`; change it with: canyon update definition {0}, or delete it with: \
             canyon delete definition {0}",
            first.id
        )))
    }
}

/// The credentials after `change`.
fn changed(account: &Account, change: &AccountChange) -> Result<AccountCredentials, AppError> {
    let of = account.credentials.account_type();
    let mut faults = FieldErrors::default();
    if change.account_type.as_deref().is_some_and(|given| given != of.as_str()) {
        let reason = format!(
            "cannot be changed: account `{0}` is of type `{of}`; delete it and create it again, or create another one",
            account.id
        );
        faults.add("type", reason);
    }
    let Some(patch) = &change.credentials else {
        return Ok(faults.into_result(account.credentials.clone())?);
    };
    let mut merged = Value::Object(account.credentials.members());
    merge_patch(&mut merged, patch.clone());
    let read = AccountCredentials::read(of, merged, &mut faults);
    Ok(faults.into_result(read)?.unwrap_or_else(|| account.credentials.clone()))
}

fn path_of(id: &AccountId) -> String {
    format!("resources/accounts/{id}")
}
