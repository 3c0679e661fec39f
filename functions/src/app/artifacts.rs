//! Objects of a deployment's last attempt: outputs, orphans, resources.

use super::App;
use crate::app::error::AppError;
use bytes::Bytes;
use canyon_api::deployment::Orphan;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::principal::Principal;
use canyon_store::blob_keys::BlobKey;
use serde::de::DeserializeOwned;

impl App {
    /// The object of the last attempt; `key` builds its key from the attempt's number. `None` if there is no such
    /// object.
    pub(crate) async fn artifact<T: DeserializeOwned>(
        &self,
        by: &Principal,
        id: DeploymentId,
        key: impl Fn(OrgUuid, DeploymentId, u32) -> BlobKey,
    ) -> Result<Option<T>, AppError> {
        let Some(bytes) = self.last_blob(by, id, key).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            tracing::error!(%error, deployment = %id, org = %by.org, "a stored artifact does not parse");
            AppError::internal()
        })
    }

    /// The outputs, encrypted to the deployment's recipient key.
    pub(crate) async fn encrypted_outputs(
        &self,
        by: &Principal,
        id: DeploymentId,
    ) -> Result<Option<Bytes>, AppError> {
        self.last_blob(by, id, BlobKey::encrypted_outputs).await
    }

    /// The resources that may exist although the state does not contain them.
    pub(crate) async fn orphans(
        &self,
        by: &Principal,
        id: DeploymentId,
    ) -> Result<Vec<Orphan>, AppError> {
        let late = self.readable_deployment(by, id).await?.kept.late_orphans;
        let key = if late { BlobKey::late_orphans } else { BlobKey::orphans };
        Ok(self.artifact(by, id, key).await?.unwrap_or_default())
    }

    pub(super) async fn last_blob(
        &self,
        by: &Principal,
        id: DeploymentId,
        key: impl Fn(OrgUuid, DeploymentId, u32) -> BlobKey,
    ) -> Result<Option<Bytes>, AppError> {
        let deployment = self.readable_deployment(by, id).await?;
        let Some(attempt) = deployment.attempts.last() else { return Ok(None) };
        Ok(self.blobs.get(&key(by.org, id, attempt.number)).await?)
    }
}
