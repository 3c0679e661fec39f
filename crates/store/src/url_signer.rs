//! What signs URLs for a store.

use crate::error::BoxError;
use futures::future::BoxFuture;
use http::{HeaderMap, Method};
use object_store::path::Path;
use std::fmt::Debug;
use std::time::Duration;

/// A store that can presign URLs.
pub trait UrlSigner: Debug + Send + Sync {
    /// Presigns a URL for `method` on `path`, valid for `lifetime`, with exactly `headers`.
    fn sign<'a>(
        &'a self,
        method: Method,
        path: &'a Path,
        headers: HeaderMap,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<String, BoxError>>;
}
