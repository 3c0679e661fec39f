//! The object store, for data that is too large for the table: archives, bundles, logs, outputs. S3
//! on AWS, a folder in `canyon local`.
//!
//! A blob is written once and never changed, so every write is [`Blobs::put_if_absent`]: if two
//! writers race for a key, the first wins, and a reader never sees half a blob.

use crate::StoreError;
use crate::blob_keys::{BlobKey, BlobPrefix};
use crate::url_signer::UrlSigner;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::fs::{DirBuilder, Permissions};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most blobs that one call of [`Blobs::delete_some`] deletes: as many as S3 lists and deletes with one request each.
const DELETED_AT_ONCE: usize = 1_000;

/// Result of [`Blobs::put_if_absent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The blob is stored.
    Stored,
    /// The key already has a blob, which is unchanged.
    AlreadyExists,
}

/// The object store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    /// Set if the store is a folder: its files need their mode set.
    folder: Option<Arc<LocalFileSystem>>,
    /// Presigns URLs of blobs, if the store can.
    pub(crate) signer: Option<Arc<dyn UrlSigner>>,
}

impl Blobs {
    /// Uses any object store that supports `PutMode::Create`. S3 does, with `If-None-Match: *`.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, folder: None, signer: None }
    }

    /// The same store with presigned URLs, see [`crate::signed_url`]. S3 signs its own.
    #[must_use]
    pub fn with_signer(self, signer: Arc<dyn UrlSigner>) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// Uses a folder, created with mode 0700 if it is absent. Files get mode 0600 after they are
    /// created; until then the folder's mode protects them. A blob and its directory entry are
    /// fsynced before the write is acknowledged, as the table's items are.
    ///
    /// # Errors
    ///
    /// [`StoreError::Open`] if the folder cannot be created or entered.
    pub fn folder(root: &Path) -> Result<Self, StoreError> {
        let open = || -> Result<LocalFileSystem, crate::error::BoxError> {
            DirBuilder::new().recursive(true).mode(0o700).create(root)?;
            std::fs::set_permissions(root, Permissions::from_mode(0o700))?;
            let store = LocalFileSystem::new_with_prefix(root)?;
            // Cleanup removes a folder with its last blob.
            Ok(store.with_fsync(true).with_automatic_cleanup(true))
        };
        let folder = open()
            .map_err(|source| StoreError::Open { path: root.to_owned(), source })
            .map(Arc::new)?;
        Ok(Self { store: folder.clone(), folder: Some(folder), signer: None })
    }

    /// Stores `bytes` under `key` if the key has no blob.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn put_if_absent(&self, key: &BlobKey, bytes: Bytes) -> Result<Put, StoreError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&key.0, bytes.into(), options).await {
            Ok(_) => {
                self.make_private(key)?;
                Ok(Put::Stored)
            }
            Err(Error::AlreadyExists { .. }) => Ok(Put::AlreadyExists),
            Err(error) => Err(failed("store blob", key, error)),
        }
    }

    /// The blob under `key`, or `None`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn get(&self, key: &BlobKey) -> Result<Option<Bytes>, StoreError> {
        self.read(key, GetOptions::default()).await
    }

    /// Size of the blob in bytes; `None` if there is no such blob.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn size(&self, key: &BlobKey) -> Result<Option<u64>, StoreError> {
        match self.store.head(&key.0).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read size of blob", key, error)),
        }
    }

    /// The bytes `range` of the blob, or fewer if it ends earlier; `None` if there is no such blob.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails, or if the range starts beyond the end.
    pub async fn get_range(
        &self,
        key: &BlobKey,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, StoreError> {
        self.read(key, GetOptions { range: Some(range.into()), ..GetOptions::default() }).await
    }

    /// Keys and sizes in bytes under `prefix`, in the order of keys; only those after `after` if it
    /// is given.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails.
    pub async fn list(
        &self,
        prefix: &BlobPrefix,
        after: Option<&BlobKey>,
    ) -> Result<Vec<(BlobKey, u64)>, StoreError> {
        self.list_at_most(prefix, after, usize::MAX).await
    }

    /// The same, but at most the first `most` of them. An object store that lists in order sends no more.
    pub(crate) async fn list_at_most(
        &self,
        prefix: &BlobPrefix,
        after: Option<&BlobKey>,
        most: usize,
    ) -> Result<Vec<(BlobKey, u64)>, StoreError> {
        let found = match after {
            Some(BlobKey(after)) => self.store.list_with_offset(Some(&prefix.0), after),
            None => self.store.list(Some(&prefix.0)),
        };
        let asked = if self.lists_in_order() { most } else { usize::MAX };
        let mut found: Vec<_> = found
            .take(asked)
            .map_ok(|meta| (BlobKey(meta.location), meta.size))
            .try_collect()
            .await
            .map_err(|error| failed("list blobs", prefix, error))?;
        found.sort_unstable();
        found.truncate(most);
        Ok(found)
    }

    /// Whether a listing comes in the order of keys. A folder lists in the file system's order.
    pub(crate) fn lists_in_order(&self) -> bool {
        self.folder.is_none()
    }

    /// Deletes every blob under `prefix` and returns how many it deleted. A blob that is already
    /// gone is no error, so a caller may repeat the call.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the object store fails; some blobs may be gone by then.
    pub async fn delete_prefix(&self, prefix: &BlobPrefix) -> Result<usize, StoreError> {
        let mut deleted = 0;
        for (key, _) in self.list(prefix, None).await? {
            match self.store.delete(&key.0).await {
                Ok(()) => deleted += 1,
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed("delete blob", &key, error)),
            }
        }
        Ok(deleted)
    }

    /// Deletes at most [`DELETED_AT_ONCE`] blobs under `prefix`, in the order of keys, and returns whether none is left. S3
    /// deletes as many with two requests.
    pub(crate) async fn delete_some(&self, prefix: &BlobPrefix) -> Result<bool, StoreError> {
        let found = self.list_at_most(prefix, None, DELETED_AT_ONCE).await?;
        let is_all = found.len() < DELETED_AT_ONCE;
        let paths = futures::stream::iter(found).map(|(key, _)| Ok(key.0)).boxed();
        let mut deleted = self.store.delete_stream(paths);
        while let Some(result) = deleted.next().await {
            match result {
                // A concurrent caller has deleted the blob.
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed("delete blobs", prefix, error)),
            }
        }
        Ok(is_all)
    }

    async fn read(&self, key: &BlobKey, options: GetOptions) -> Result<Option<Bytes>, StoreError> {
        let bytes = match self.store.get_opts(&key.0, options).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read blob", key, error)),
        }
    }

    /// Sets mode 0600: `object_store` creates files by the process's umask, mostly 0644.
    fn make_private(&self, key: &BlobKey) -> Result<(), StoreError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path: PathBuf =
            folder.path_to_filesystem(&key.0).map_err(|error| failed("store blob", key, error))?;
        match std::fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            // A concurrent caller has deleted the blob.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|error| StoreError::Backend {
                operation: "set mode of blob",
                thing: key.to_string(),
                source: error.into(),
            }),
        }
    }
}

fn failed(operation: &'static str, thing: &impl ToString, error: Error) -> StoreError {
    StoreError::Backend { operation, thing: thing.to_string(), source: error.into() }
}
