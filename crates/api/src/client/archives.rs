//! Archives of modules: users upload them, runners fetch them.
//!
//! Small archives go through the API. If the API runs on Lambda, larger ones go directly to and
//! from the object store, with a URL that the API presigns. Such a request contains no token.

use super::{Client, ClientError};
use crate::archive::{ArchiveUpload, ArchiveUploadBody, GZIP, MAX_ARCHIVE_BYTES, MAX_DIRECT_BYTES};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use std::time::Duration;

/// Time limit for a transfer: 64 MiB at 1 Mbit/s take 9 minutes.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(10);
/// Longest time without data during a transfer.
const MAX_SILENCE: Duration = Duration::from_mins(1);

impl Client {
    /// Whether the archive with this SHA-256 exists.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn has_archive(&self, digest: &str) -> Result<bool, ClientError> {
        // Not `HEAD`: its refusal has no body, and only the body shows that it is Canyon's.
        match self.send_for_status(self.request(Method::GET, &["archives", digest])).await {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Uploads an archive. Idempotent.
    ///
    /// # Errors
    ///
    /// 400 if the digest is not that of the bytes; 413 if there are too many.
    pub async fn put_archive(&self, digest: &str, bytes: Bytes) -> Result<(), ClientError> {
        if bytes.len() > MAX_DIRECT_BYTES
            && let Some(upload) = self.upload_url(digest, bytes.len()).await?
        {
            let mut request = self.http.to_store(&upload.url)?.put(&upload.url);
            for (name, value) in &upload.headers {
                request = request.header(name, value);
            }
            let status = match transfer(&upload.url, request.body(bytes)).await {
                Ok(response) => response.status().as_u16(),
                // 412: the archive is there. 409: another client uploads it at the same time.
                Err(ClientError::ObjectStore { status: status @ (409 | 412), .. }) => status,
                Err(error) => return Err(error),
            };
            // The store's answer does not prove that it is the store's and not a proxy's, so ask
            // Canyon.
            if self.has_archive(digest).await? {
                return Ok(());
            }
            return Err(ClientError::ObjectStore { host: host_of(&upload.url), status });
        }
        let request = self.request(Method::PUT, &["archives", digest]).timeout(TRANSFER_TIMEOUT);
        self.send_for_status(request.header("content-type", "application/gzip").body(bytes)).await
    }

    /// The presigned URL for a large archive; `None` if the API accepts it itself.
    async fn upload_url(
        &self,
        digest: &str,
        size: usize,
    ) -> Result<Option<ArchiveUpload>, ClientError> {
        let path = ["archives", digest, "actions", "upload-url"];
        let body = ArchiveUploadBody { size_bytes: size as u64 };
        match self.write(Method::POST, &path, &body).await {
            Ok(upload) => Ok(Some(upload)),
            // 404: a Canyon that is older than presigned URLs.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The module of a run as a gzipped tar: the uploaded archive, or the inline text. The bytes
    /// are not verified: a proxy may answer instead of Canyon or the object store, so the caller
    /// must compare the archive's SHA-256.
    ///
    /// # Errors
    ///
    /// 409 if the attempt is over.
    pub async fn bundle(&self, deployment: &str) -> Result<Bytes, ClientError> {
        let request = self.request(Method::GET, &["deployments", deployment, "bundle"]);
        let sent = self.send_with_nonce(request.timeout(TRANSFER_TIMEOUT));
        let response = limit_silence(&self.url, sent).await??;
        if response.status() == StatusCode::TEMPORARY_REDIRECT {
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.map(str::to_owned) else {
                return Err(self.refusal(response).await);
            };
            // A separate request: the object store does not get the token.
            let store = self.http.to_store(&location)?;
            let response = transfer(&location, store.get(&location));
            let response = limit_silence(&host_of(&location), response).await??;
            return body(&host_of(&location), response, MAX_ARCHIVE_BYTES).await;
        }
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != GZIP) {
            let status = response.status().as_u16();
            return Err(ClientError::not_canyon(&self.url, status, "it is not an archive"));
        }
        body(&self.url, response, MAX_ARCHIVE_BYTES).await
    }
}

/// Waits for `waiting`, at most for [`MAX_SILENCE`], so that a dead connection is noticed long
/// before [`TRANSFER_TIMEOUT`] has passed.
async fn limit_silence<T>(host: &str, waiting: impl Future<Output = T>) -> Result<T, ClientError> {
    tokio::time::timeout(MAX_SILENCE, waiting)
        .await
        .map_err(|_| ClientError::NoData { host: host.to_owned(), seconds: MAX_SILENCE.as_secs() })
}

/// The body of an answer, at most `most` bytes.
pub(super) async fn body(
    host: &str,
    mut response: Response,
    most: usize,
) -> Result<Bytes, ClientError> {
    let length = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Vec::with_capacity(length.unwrap_or_default().min(most));
    loop {
        let chunk = limit_silence(host, response.chunk()).await?;
        match chunk.map_err(|source| ClientError::interrupted(host, source))? {
            Some(chunk) if bytes.len() + chunk.len() <= most => bytes.extend_from_slice(&chunk),
            Some(_) => {
                let reason = format!("it has more than {} MiB", most >> 20);
                return Err(ClientError::not_canyon(host, response.status().as_u16(), reason));
            }
            None => return Ok(bytes.into()),
        }
    }
}

/// Sends a request to the object store that must succeed. Its URL is presigned, so no error may
/// contain it.
async fn transfer(address: &str, request: RequestBuilder) -> Result<Response, ClientError> {
    let host = host_of(address);
    match request.timeout(TRANSFER_TIMEOUT).send().await {
        Ok(response) if response.status().is_success() => Ok(response),
        Ok(response) => Err(ClientError::ObjectStore { host, status: response.status().as_u16() }),
        Err(source) => {
            Err(ClientError::ObjectStoreUnreachable { host, source: source.without_url() })
        }
    }
}

fn host_of(address: &str) -> String {
    let address = reqwest::Url::parse(address).ok();
    let host = address.as_ref().and_then(reqwest::Url::host_str);
    host.unwrap_or("an unknown host").to_owned()
}
