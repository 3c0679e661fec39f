//! Modules that users upload.

use super::App;
use crate::app::error::AppError;
use bytes::Bytes;
use canyon_domain::module_source::Digest;
use canyon_domain::principal::Principal;
use canyon_store::blob_keys::BlobKey;
use canyon_store::signed_url::{LIFETIME, SignedUpload};
use jiff::Timestamp;

impl App {
    /// Whether users upload large archives directly to the object store.
    pub(crate) fn signs_uploads(&self) -> bool {
        self.blobs.signs()
    }

    /// Whether the archive is stored.
    pub(crate) async fn has_archive(
        &self,
        by: &Principal,
        digest: &Digest,
    ) -> Result<bool, AppError> {
        Ok(self.blobs.size(&BlobKey::archive(by.org, digest)).await?.is_some())
    }

    /// Stores an archive, unless it is stored already.
    ///
    /// # Errors
    ///
    /// [`AppError::too_many`] if the organization has uploaded too much recently.
    pub(crate) async fn store_archive(
        &self,
        by: &Principal,
        digest: &Digest,
        bytes: Bytes,
    ) -> Result<(), AppError> {
        if !self.has_archive(by, digest).await? {
            self.take_upload(by, bytes.len() as u64).await?;
            self.blobs.put_if_absent(&BlobKey::archive(by.org, digest), bytes).await?;
        }
        Ok(())
    }

    /// A signed URL for the upload of an archive of `size` bytes, and its expiry.
    ///
    /// # Errors
    ///
    /// A conflict if this installation receives archives of every size itself; [`AppError::too_many`] if the
    /// organization has uploaded too much recently.
    pub(crate) async fn sign_upload(
        &self,
        by: &Principal,
        digest: &Digest,
        size: u64,
    ) -> Result<(SignedUpload, Timestamp), AppError> {
        let unsigned =
            || AppError::conflict("this installation receives archives itself: send it with `PUT`");
        if !self.signs_uploads() {
            return Err(unsigned());
        }
        let expires_at = self.now() + LIFETIME;
        let key = BlobKey::archive(by.org, digest);
        // An archive that is there is not stored again: the object store answers 412.
        if self.blobs.size(&key).await?.is_none() {
            self.take_upload(by, size).await?;
        }
        let signed = self.blobs.sign_upload(&key, digest, size).await?.ok_or_else(unsigned)?;
        Ok((signed, expires_at))
    }
}
