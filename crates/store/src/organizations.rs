//! Organizations and their API tokens.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys, known_principals};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::attempt::SecretHash;
use canyon_domain::audit::AuditRecord;
use canyon_domain::grant::Grant;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Organization;
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::principal::Principal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A stored API token. Only the hash of its secret is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Hash of the secret.
    pub hash: SecretHash,
    /// The principal of a request with this token; the principal's id is the token's id.
    pub principal: Principal,
    /// Purpose, for people.
    pub description: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// From this time on the API rejects the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// With the role `agent`: labels of its agents, which override the labels that they report.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For a token that a sign-in issued: the grant that it was issued under. The token is valid
    /// while the grant is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

impl TokenRecord {
    /// Whether the token has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

impl Table {
    /// Creates an organization with its first token. Keys: the organization, the guard of its name,
    /// the token by its secret's hash and in the list, its name, audit; on condition that the name of
    /// the organization is free. 12 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_organization(
        &self,
        organization: &Organization,
        token: &TokenRecord,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create organization";
        let key = keys::organization(organization.uuid);
        let name = keys::organization_name(&organization.id);
        let mut items = vec![
            put(self, to_item(OPERATION, &name, organization)?, Condition::absent()),
            put(self, to_item(OPERATION, &key, organization)?, Condition::absent()),
        ];
        items.extend(self.token_items(OPERATION, organization.uuid, token)?);
        items.push(audit::record(self, organization.uuid, record)?);
        let done = self.transact(OPERATION, organization.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// The organization with this uuid. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn organization(&self, of: OrgUuid) -> Result<Option<Organization>, StoreError> {
        self.read("read organization", &keys::organization(of)).await
    }

    /// The organization with this name, for callers without a token: the start of `canyon local`,
    /// events, and sign-ins. Not for a request with a token. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn organization_named(
        &self,
        id: &canyon_domain::ids::OrgId,
    ) -> Result<Option<Organization>, StoreError> {
        self.read("read organization", &keys::organization_name(id)).await
    }

    /// Changes the settings of an organization. Keys: the organization, the guard of its name,
    /// audit; on condition that it exists. The last of several writers wins. 6 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn update_organization(
        &self,
        organization: &Organization,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update organization";
        let key = keys::organization(organization.uuid);
        let name = keys::organization_name(&organization.id);
        let items = vec![
            put(self, to_item(OPERATION, &name, organization)?, Condition::present()),
            put(self, to_item(OPERATION, &key, organization)?, Condition::present()),
            audit::record(self, organization.uuid, record)?,
        ];
        let done = self.transact(OPERATION, organization.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    fn token_items(
        &self,
        operation: &'static str,
        org: OrgUuid,
        token: &TokenRecord,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let id = token.principal.id;
        let name = known_principals::name(self, org, KnownPrincipal::new(id, &token.description))?;
        let by_secret = to_item(operation, &keys::token_by_secret(&token.hash), token)?;
        let listed = to_item(operation, &keys::token(org, id.0), token)?;
        let absent = [by_secret, listed].map(|item| put(self, item, Condition::absent()));
        Ok(absent.into_iter().chain(name).collect())
    }

    /// Creates a token. Keys: the token by its secret's hash and in its organization's list, its
    /// name, audit; on condition that neither of the first two exists. 8 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_token(
        &self,
        token: &TokenRecord,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create token";
        let org = token.principal.org;
        let mut items = self.token_items(OPERATION, org, token)?;
        items.push(audit::record(self, org, record)?);
        let done = self.transact(OPERATION, &token.principal.id.to_string(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// The token with this secret hash. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn token_by_secret(
        &self,
        hash: &SecretHash,
    ) -> Result<Option<TokenRecord>, StoreError> {
        self.read("read token", &keys::token_by_secret(hash)).await
    }

    /// The token with this id; `None` if it was revoked. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn token(&self, org: OrgUuid, id: Uuid) -> Result<Option<TokenRecord>, StoreError> {
        self.read("read token", &keys::token(org, id)).await
    }

    /// The tokens of an organization, oldest first. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn tokens(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<TokenRecord>, StoreError> {
        let partition = Partition {
            operation: "list tokens",
            pk: keys::tokens(org),
            prefix: None,
            descending: false,
        };
        self.page(partition, request, |_| true).await
    }

    /// Revokes a token; its name stays. Keys: the token by its secret's hash and in its
    /// organization's list, audit; on condition that it exists. 6 write units and one read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_token(
        &self,
        org: OrgUuid,
        id: Uuid,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        const OPERATION: &str = "delete token";
        let listed = keys::token(org, id);
        let Some(token) = self.read::<TokenRecord>(OPERATION, &listed).await? else {
            return Ok(Deleted::No);
        };
        let items = vec![
            delete(self, &listed, Condition::present()),
            delete(self, &keys::token_by_secret(&token.hash), Condition::present()),
            audit::record(self, org, record)?,
        ];
        let done = self.transact(OPERATION, &id.to_string(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
