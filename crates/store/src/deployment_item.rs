//! A deployment as an item: its index keys, and the mark that wakes the launcher.

use crate::StoreError;
use crate::conditional::Item;
use crate::items::{from_item, key_item, text, to_item};
use crate::table::{GSI1, GSI2, GSI3, PK, WAKE};
use crate::{item_size, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::job::Bundle;

/// Attribute of a bundle item that holds the bundle as JSON text.
const BUNDLE: &str = "bundle";

/// Whether a write wakes the launcher at once.
///
/// On AWS the event source mapping passes only such writes to the launcher, so a heartbeat costs no
/// invocation. In `canyon local` each write that makes something due wakes the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The launcher has something to do or to publish.
    Launcher,
    /// The launcher needs to do nothing before the deployment is due.
    None,
}

/// Parses the image of a stream record: a deployment as one write left it.
///
/// # Errors
///
/// [`StoreError::Corrupt`] if the image is not a deployment that this version can parse.
pub fn from_stream_image(image: serde_dynamo::Item) -> Result<(OrgUuid, Deployment), StoreError> {
    const OPERATION: &str = "read stream record";
    let image = Item::from(image);
    let corrupt = |key: &str| StoreError::corrupt(OPERATION, key, "it is not a deployment");
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
    let (of_organization, of_environment) = if deployment.mode.takes_turn() {
        let of_environment = keys::deployments_of_environment(org, deployment.env_uuid);
        (keys::deployments(org), of_environment)
    } else {
        let of_environment = keys::checks_of_environment(org, deployment.env_uuid);
        (keys::checks_for_drift(org), of_environment)
    };
    item.insert(GSI1.pk.into(), text(of_organization));
    item.insert(GSI1.sk.into(), id.clone());
    item.insert(GSI3.pk.into(), text(of_environment));
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

/// Attributes of a deployment, and the index keys that hold them too. They are not stored twice,
/// because an item of more than 1 KB costs another write unit at each step.
const IN_KEYS: [(&str, &str); 2] = [("id", GSI1.sk), ("env_uuid", GSI3.pk)];

/// Parses an item of [`deployment_item`].
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

/// The bundle is an item beside its deployment, as JSON text. A request has at most 256 KB, so the
/// bundle fits into one item, and the transaction that accepts the deployment stores both.
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
