//! Creates, changes and deletes secret stores. Canyon never calls one: jobs do.

use super::App;
use crate::app::error::AppError;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgUuid;
use canyon_domain::merge_patch::merge_patch;
use canyon_domain::principal::Principal;
use canyon_domain::secret_reference::{SecretReference, SecretStoreId};
use canyon_domain::secret_store::{SecretStore, StoreConfiguration};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::{VariableKey, VariableValue};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use canyon_store::secret_stores::MAX_SECRET_STORES;
use serde_json::{Value, json};

/// The fields of a store to change.
#[derive(Clone, Debug)]
pub(crate) struct SecretStoreChange {
    pub(crate) description: Option<String>,
    /// Merged into the stored configuration.
    pub(crate) configuration: Option<Value>,
}

impl App {
    /// A page of the secret stores.
    pub(crate) async fn secret_stores(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<SecretStore>, AppError> {
        Ok(self.table.secret_stores(by.org, page).await?)
    }

    /// Creates a store.
    pub(crate) async fn create_secret_store(
        &self,
        by: &Principal,
        id: SecretStoreId,
        description: Option<String>,
        configuration: StoreConfiguration,
    ) -> Result<SecretStore, AppError> {
        if self.table.all_secret_stores(by.org).await?.len() >= MAX_SECRET_STORES {
            return Err(AppError::conflict(format!(
                "an organization has at most {MAX_SECRET_STORES} secret stores; delete some first"
            )));
        }
        let record = self.record(by, "secret_store.create", format!("secret-stores/{id}"));
        let (created_at, updated_at) = (record.at, record.at);
        let store =
            SecretStore { id, description, configuration, created_at, updated_at, version: 1 };
        match self.table.create_secret_store(by.org, &store, &record).await? {
            Created::Yes => Ok(store),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "secret store `{0}` exists already; change it with: canyon update secret-store {0}",
                store.id
            ))),
        }
    }

    /// A store. 404 if it does not exist.
    pub(crate) async fn secret_store(
        &self,
        by: &Principal,
        id: &SecretStoreId,
    ) -> Result<SecretStore, AppError> {
        let found = self.table.secret_store(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("secret store", id))
    }

    /// Changes the fields that `change` gives. The change applies to jobs that begin from then on.
    pub(crate) async fn update_secret_store(
        &self,
        by: &Principal,
        id: &SecretStoreId,
        change: &SecretStoreChange,
    ) -> Result<SecretStore, AppError> {
        for _ in 0..MAX_TRIES {
            let mut store = self.secret_store(by, id).await?;
            if let Some(patch) = &change.configuration {
                let mut merged = json!(store.configuration);
                merge_patch(&mut merged, patch.clone());
                let mut faults = FieldErrors::default();
                let read = StoreConfiguration::read(merged, &mut faults);
                store.configuration =
                    faults.into_result(read)?.unwrap_or_else(|| store.configuration.clone());
                self.refuse_unfit_references(by.org, &store).await?;
            }
            if let Some(description) = &change.description {
                store.description = Some(description.clone()).filter(|text| !text.is_empty());
            }
            let record = self.record(by, "secret_store.update", format!("secret-stores/{id}"));
            store.updated_at = record.at;
            store.version += 1;
            if self.table.save_secret_store(by.org, &store, &record).await? == Saved::Yes {
                return Ok(store);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes a store that no variable refers to.
    pub(crate) async fn delete_secret_store(
        &self,
        by: &Principal,
        id: &SecretStoreId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let store = self.secret_store(by, id).await?;
            let uses = self.references_to(by.org, id).await?;
            if let Some((scope, key, _)) = uses.first() {
                let more = match uses.len() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                return Err(AppError::conflict(format!(
                    "`{key}` of {scope}{more} refers to secret store `{id}`; change or remove it first"
                )));
            }
            let record = self.record(by, "secret_store.delete", format!("secret-stores/{id}"));
            if self.table.delete_secret_store(by.org, &store, &record).await? == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }

    /// A store of another type may not have what the variables refer to.
    async fn refuse_unfit_references(
        &self,
        org: OrgUuid,
        store: &SecretStore,
    ) -> Result<(), AppError> {
        for (scope, key, reference) in self.references_to(org, &store.id).await? {
            if let Some((field, reason)) = store.configuration.faults_of(&reference).first() {
                return Err(AppError::conflict(format!(
                    "`{key}` of {scope} refers to {reference}, whose `{field}` {reason}"
                )));
            }
        }
        Ok(())
    }

    /// The variables that refer to a store. Reads all sets of the organization.
    async fn references_to(
        &self,
        org: OrgUuid,
        id: &SecretStoreId,
    ) -> Result<Vec<(VariableScope, VariableKey, SecretReference)>, AppError> {
        let mut found = Vec::new();
        let mut request = PageRequest { limit: 100, after: None };
        loop {
            let page = self.table.variable_sets(org, &request, |_, _| true).await?;
            for set in page.items {
                for (key, variable) in set.variables {
                    if let VariableValue::Reference(reference) = variable.value
                        && reference.store == *id
                    {
                        found.push((set.scope.clone(), key, reference));
                    }
                }
            }
            match page.next {
                Some(next) => request.after = Some(next),
                None => return Ok(found),
            }
        }
    }
}
