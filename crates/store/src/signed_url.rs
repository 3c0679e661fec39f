//! Presigned URLs, with which a client without AWS permissions can read or write one blob for a
//! limited time.
//!
//! Data that exceeds a Lambda response (6 MB) bypasses the API this way. S3 can presign URLs; a
//! folder cannot, and does not need to.

use crate::StoreError;
use crate::blob_keys::BlobKey;
use crate::blobs::Blobs;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::module_source::Digest;
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::time::Duration;

/// Lifetime of a URL. S3 checks it when a request begins, however long the request then takes.
pub const LIFETIME: Duration = Duration::from_mins(5);

/// S3 rejects bytes without this SHA-256, in base64.
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");
/// Value of `if-none-match`: S3 writes only if the object does not exist, and answers 412 otherwise.
const ANY: &str = "*";

/// Where one blob may be written. Not `Debug`: who has the address has the right.
pub struct SignedUpload {
    /// URL for a `PUT`.
    pub url: String,
    /// Name and value of each header that the request must have.
    pub headers: Vec<(String, String)>,
}

impl Blobs {
    /// Whether the store can presign URLs.
    pub fn signs(&self) -> bool {
        self.signer.is_some()
    }

    /// Where another program may write the blob `key`, if it has `size` bytes with the SHA-256 `digest`; `None` if this
    /// object store signs no addresses. The blob is written once: if it exists, the object store answers 412. Otherwise a
    /// bucket that keeps versions would store each repetition.
    ///
    /// The size is signed too, but is not among the headers of the answer: every client sends `Content-Length` itself.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if there are no credentials to sign with.
    pub async fn sign_upload(
        &self,
        key: &BlobKey,
        digest: &Digest,
        size: u64,
    ) -> Result<Option<SignedUpload>, StoreError> {
        const OPERATION: &str = "sign an upload of";
        let failed =
            |source| StoreError::Backend { operation: OPERATION, thing: key.to_string(), source };
        let Some(signer) = &self.signer else { return Ok(None) };
        let checksum = hex::decode(digest.as_str()).map_err(|error| failed(error.into()))?;
        let checksum = STANDARD.encode(checksum);
        let value = HeaderValue::from_str(&checksum).map_err(|error| failed(error.into()))?;
        let once = HeaderValue::from_static(ANY);
        let headers = [(CHECKSUM, value), (CONTENT_LENGTH, size.into()), (IF_NONE_MATCH, once)];
        let url = signer.sign(Method::PUT, &key.0, HeaderMap::from_iter(headers), LIFETIME);
        let url = url.await.map_err(failed)?;
        let told = [(CHECKSUM.to_string(), checksum), (IF_NONE_MATCH.to_string(), ANY.to_owned())];
        Ok(Some(SignedUpload { url, headers: told.into() }))
    }

    /// Presigns a URL to read the blob `key`. `None` if this object store cannot presign URLs.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if there are no credentials to sign with.
    pub async fn sign_download(&self, key: &BlobKey) -> Result<Option<String>, StoreError> {
        let Some(signer) = &self.signer else { return Ok(None) };
        let address = signer.sign(Method::GET, &key.0, HeaderMap::new(), LIFETIME).await;
        address.map(Some).map_err(|source| StoreError::Backend {
            operation: "sign a download of",
            thing: key.to_string(),
            source,
        })
    }
}
