//! Modules: uploaded by people, fetched by runners.
//!
//! What is small goes through the API. Where the API runs on Lambda, what is larger goes straight to
//! and from the object store, at an address that the API signs. That address gets no token.

use super::{Client, ClientError};
use crate::archive::{ArchiveUpload, ArchiveUploadBody, GZIP, MAX_ARCHIVE, MAX_DIRECT};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use std::time::Duration;

/// How long 64 MiB may take: a line of 1 Mbit/s needs 9 minutes.
const TRANSFER: Duration = Duration::from_mins(10);
/// How long an archive may not come on.
const SILENCE: Duration = Duration::from_mins(1);

impl Client {
    /// Whether the archive with this SHA-256 is there.
    ///
    /// # Errors
    ///
    /// As every call.
    pub async fn has_archive(&self, digest: &str) -> Result<bool, ClientError> {
        // Not `HEAD`: its refusal would have no body, by which it is Canyon's.
        match self.done(self.request(Method::GET, &["archives", digest])).await {
            Ok(()) => Ok(true),
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
            transfer(&upload.url, request.body(bytes)).await?;
            // The store's own answer has nothing by which it is the store's, and not a proxy's.
            if self.has_archive(digest).await? {
                return Ok(());
            }
            return Err(ClientError::ObjectStore { host: host_of(&upload.url), status: 200 });
        }
        let request = self.request(Method::PUT, &["archives", digest]).timeout(TRANSFER);
        self.done(request.header("content-type", "application/gzip").body(bytes)).await
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

    /// The module of a run as a gzipped tar: the archive that was uploaded, or the inline text. What
    /// comes is not verified: a proxy may answer in Canyon's or in the object store's place, so the
    /// caller compares the archive's SHA-256.
    ///
    /// # Errors
    ///
    /// 409 when the attempt is over.
    pub async fn bundle(&self, deployment: &str) -> Result<Bytes, ClientError> {
        let request = self.request(Method::GET, &["deployments", deployment, "bundle"]);
        let asked = self.ask(request.timeout(TRANSFER));
        let response = unless_silent(&self.url, asked).await??;
        if response.status() == StatusCode::TEMPORARY_REDIRECT {
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.map(str::to_owned) else {
                return Err(self.refusal(response).await);
            };
            // A request of its own: the token stays with Canyon.
            let response = transfer(&location, self.http.get(&location));
            let response = unless_silent(&host_of(&location), response).await??;
            return body(&host_of(&location), response, MAX_ARCHIVE).await;
        }
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != GZIP) {
            let status = response.status().as_u16();
            return Err(ClientError::foreign(&self.url, status, "it is no archive"));
        }
        body(&self.url, response, MAX_ARCHIVE).await
    }
}

/// What `waiting` comes to. A connection that has gone without a word is noticed long before
/// [`TRANSFER`] has passed.
async fn unless_silent<T>(host: &str, waiting: impl Future<Output = T>) -> Result<T, ClientError> {
    tokio::time::timeout(SILENCE, waiting)
        .await
        .map_err(|_| ClientError::Silent { host: host.to_owned(), seconds: SILENCE.as_secs() })
}

/// The body of an answer, of `most` bytes at most.
pub(super) async fn body(
    host: &str,
    mut response: Response,
    most: usize,
) -> Result<Bytes, ClientError> {
    let length = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Vec::with_capacity(length.unwrap_or_default().min(most));
    loop {
        let chunk = unless_silent(host, response.chunk()).await?;
        match chunk.map_err(|source| ClientError::broken_off(host, source))? {
            Some(chunk) if bytes.len() + chunk.len() <= most => bytes.extend_from_slice(&chunk),
            Some(_) => {
                let reason = format!("it has more than {} MiB", most >> 20);
                return Err(ClientError::foreign(host, response.status().as_u16(), reason));
            }
            None => return Ok(bytes.into()),
        }
    }
}

/// A request to the object store that must succeed. Its address is signed, so no error may repeat it.
async fn transfer(address: &str, request: RequestBuilder) -> Result<Response, ClientError> {
    let host = host_of(address);
    match request.timeout(TRANSFER).send().await {
        Ok(response) if response.status().is_success() => Ok(response),
        Ok(response) => Err(ClientError::ObjectStore { host, status: response.status().as_u16() }),
        Err(source) => Err(ClientError::NoObjectStore { host, source: source.without_url() }),
    }
}

fn host_of(address: &str) -> String {
    let address = reqwest::Url::parse(address).ok();
    let host = address.as_ref().and_then(reqwest::Url::host_str);
    host.unwrap_or("an unknown place").to_owned()
}
