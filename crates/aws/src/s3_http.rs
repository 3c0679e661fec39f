//! The HTTP client of the bucket, created on first use. Most requests do not need the bucket, and a
//! client reads the system's certificates when it is created. That would take a third of a
//! function's start time.

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, Result};
use std::sync::OnceLock;

/// Creates clients that connect on first use.
#[derive(Debug)]
pub(crate) struct LazyConnector;

impl HttpConnector for LazyConnector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let service = Service { options: options.clone(), client: OnceLock::new() };
        Ok(HttpClient::new(service))
    }
}

#[derive(Debug)]
struct Service {
    options: ClientOptions,
    client: OnceLock<HttpClient>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client = if let Some(client) = self.client.get() {
            client
        } else {
            let made = ReqwestConnector::default().connect(&self.options);
            // Not a kind that is retried: a retry would fail in the same way.
            let made = made.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            // Two concurrent first calls may both have created one.
            self.client.get_or_init(|| made)
        };
        client.execute(request).await
    }
}
