//! The names of principals. They stay when a token, a service account or an identity provider is deleted.

use crate::items::{from_item, key_item, to_item};
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::known_principal::KnownPrincipal;

/// Part of a transaction: writes the name, if there is one. The last writer wins. 2 write units.
pub(crate) fn name(
    table: &Table,
    org: OrgUuid,
    principal: Option<KnownPrincipal>,
) -> Result<Option<TransactWriteItem>, StoreError> {
    let Some(principal) = principal else { return Ok(None) };
    let key = keys::known_principal(org, principal.id);
    let item = to_item("write name of principal", &key, &principal)?;
    let put = Put::builder().table_name(table.name()).set_item(Some(item)).build();
    // `build` fails only without a table name or an item, and both are given.
    Ok(Some(TransactWriteItem::builder().set_put(put.ok()).build()))
}

impl Table {
    /// The names of these principals (at most 100), in no order; principals without a name are left
    /// out. One request; one read unit for each name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse an item.
    pub async fn known_principals(
        &self,
        org: OrgUuid,
        ids: &[PrincipalId],
    ) -> Result<Vec<KnownPrincipal>, StoreError> {
        const OPERATION: &str = "read names of principals";
        let keys = ids.iter().map(|id| key_item(&keys::known_principal(org, *id))).collect();
        let items = self.batch(OPERATION, keys).await?;
        items.into_iter().map(|item| from_item(OPERATION, item)).collect()
    }
}
