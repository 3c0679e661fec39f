//! Modules: uploaded by people, fetched by runners.
//!
//! What is small goes through the API. Where the API runs on Lambda, what is larger goes straight to
//! and from the object store, at an address that the API signs. That address gets no token.

use super::{Client, ClientError, refusal};
use crate::archive::{ArchiveUpload, ArchiveUploadBody, MAX_DIRECT};
use bytes::Bytes;
use reqwest::header::LOCATION;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use std::time::Duration;

/// How long 64 MiB may take: a line of 1 Mbit/s needs 9 minutes.
const TRANSFER: Duration = Duration::from_mins(10);

impl Client {
    /// Whether the archive with this SHA-256 is there.
    ///
    /// # Errors
    ///
    /// As every call.
    pub async fn has_archive(&self, digest: &str) -> Result<bool, ClientError> {
        match self.send(self.request(Method::HEAD, &["archives", digest])).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Uploads an archive; doing it twice changes nothing.
    ///
    /// # Errors
    ///
    /// 400 when the digest is not that of the bytes; 413 when they are too many.
    pub async fn put_archive(&self, digest: &str, bytes: Bytes) -> Result<(), ClientError> {
        if bytes.len() > MAX_DIRECT
            && let Some(upload) = self.upload_of(digest, bytes.len()).await?
        {
            let mut request = self.http.put(&upload.url);
            for (name, value) in &upload.headers {
                request = request.header(name, value);
            }
            return transfer(&upload.url, request.body(bytes)).await.map(drop);
        }
        let request = self.request(Method::PUT, &["archives", digest]);
        self.send(request.header("content-type", "application/gzip").body(bytes)).await.map(drop)
    }

    /// Where a large archive goes; `None` if the API takes it itself.
    async fn upload_of(
        &self,
        digest: &str,
        size: usize,
    ) -> Result<Option<ArchiveUpload>, ClientError> {
        let path = ["archives", digest, "actions", "upload-url"];
        let body = ArchiveUploadBody { size_bytes: size as u64 };
        match self.write(Method::POST, &path, &body).await {
            Ok(upload) => Ok(Some(upload)),
            // 404: a Canyon from before there were such addresses.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The module of a run as a gzipped tar: the archive that was uploaded, or the inline text.
    ///
    /// # Errors
    ///
    /// 409 when the attempt is over.
    pub async fn bundle(&self, deployment: &str) -> Result<Bytes, ClientError> {
        let request = self.request(Method::GET, &["deployments", deployment, "bundle"]);
        let mut response = self.ask(request).await?;
        if response.status() == StatusCode::TEMPORARY_REDIRECT {
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.map(str::to_owned) else {
                return Err(refusal(response).await);
            };
            // A request of its own: the token stays with Canyon.
            response = transfer(&location, self.http.get(&location)).await?;
        } else if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        response.bytes().await.map_err(|source| ClientError::unreadable(&self.url, source))
    }
}

/// A request to the object store. Its address is signed, so no error may repeat it.
async fn transfer(address: &str, request: RequestBuilder) -> Result<Response, ClientError> {
    let response = request.timeout(TRANSFER).send().await.map_err(|source| {
        let host = reqwest::Url::parse(address).ok();
        let host = host.as_ref().and_then(reqwest::Url::host_str).unwrap_or("an unknown place");
        ClientError::NoObjectStore { host: host.to_owned(), source: source.without_url() }
    })?;
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(ClientError::refused_by_object_store(response.status().as_u16()))
    }
}
