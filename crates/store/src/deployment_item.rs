//! A deployment as an item: its index keys, and what wakes the launcher.

use crate::StoreError;
use crate::conditional::Item;
use crate::items::{from_item, key_item, text, to_item};
use crate::table::{GSI1, GSI2, GSI3, PK, WAKE};
use crate::{item_size, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::job::Bundle;

/// The attribute of a bundle item that holds its JSON text.
const BUNDLE: &str = "bundle";

/// Whether the launcher should hear of a write at once.
///
/// On AWS the event source mapping lets only such writes through, so a sign of life costs no
/// invocation. On a laptop the launcher hears of every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There is something to do or to tell.
    Launcher,
    /// What the write says is for later.
    Nobody,
}

/// A deployment as a record of the table's stream shows it: how it was left by one write.
///
/// # Errors
///
/// [`StoreError::Corrupt`] for whatever is not a deployment of this version.
pub fn from_stream_image(image: serde_dynamo::Item) -> Result<(OrgUuid, Deployment), StoreError> {
    const OPERATION: &str = "read stream record";
    let image = Item::from(image);
    let corrupt = |key: &str| StoreError::corrupt(OPERATION, key, "it is no deployment");
    let Some(AttributeValue::S(pk)) = image.get(PK) else { return Err(corrupt("")) };
    let (org, _) = keys::parse_deployment(pk).ok_or_else(|| corrupt(pk))?;
    Ok((org, from_deployment_item(OPERATION, image)?))
}

pub(crate) fn deployment_item(
    org: OrgUuid,
    deployment: &Deployment,
    wake: Wake,
    operation: &'static str,
) -> Result<Item, StoreError> {
    let mut item = to_item(operation, &keys::deployment(org, deployment.id), deployment)?;
    if wake == Wake::Launcher {
        item.insert(WAKE.into(), AttributeValue::Bool(true));
    }
    let id = text(deployment.id.to_string());
    item.insert(GSI1.pk.into(), text(keys::deployments(org)));
    item.insert(GSI1.sk.into(), id.clone());
    item.insert(GSI3.pk.into(), text(keys::deployments_of_environment(org, deployment.env_uuid)));
    item.insert(GSI3.sk.into(), id);
    for (name, _) in IN_KEYS {
        item.remove(name);
    }
    if let Some(due) = deployment.due_at {
        item.insert(GSI2.pk.into(), text(keys::due_shard_of(deployment.id)));
        item.insert(GSI2.sk.into(), text(keys::due_at(due)));
    }
    Ok(item)
}

/// Attributes of a deployment that its index keys hold too, and in which: they are not stored twice,
/// because an item of more than 1 KB costs another write unit at each step.
const IN_KEYS: [(&str, &str); 2] = [("id", GSI1.sk), ("env_uuid", GSI3.pk)];

/// Reads what [`deployment_item`] made.
pub(crate) fn from_deployment_item(
    operation: &'static str,
    mut item: Item,
) -> Result<Deployment, StoreError> {
    for (name, key) in IN_KEYS {
        if let Some(AttributeValue::S(key)) = item.get(key) {
            let value = text(keys::last_part(key));
            item.insert(name.into(), value);
        }
    }
    from_item(operation, item)
}

/// The bundle lies beside its deployment, as JSON text: a request has at most 256 KB, so it fits
/// into an item, and the transaction that accepts the one stores the other.
pub(crate) fn bundle_item(
    org: OrgUuid,
    id: DeploymentId,
    bundle: &Bundle,
) -> Result<Item, StoreError> {
    let key = keys::bundle(org, id);
    let json = serde_json::to_string(bundle)
        .map_err(|source| StoreError::corrupt("store bundle", &key.pk, source))?;
    let mut item = key_item(&key);
    item.insert(BUNDLE.into(), text(json));
    item_size::check("store bundle", &key, &item)?;
    Ok(item)
}
