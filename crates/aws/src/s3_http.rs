//! The HTTP client of the bucket, made when the bucket is first asked for something: most requests
//! never do, and a client reads the certificates of the system when it is made. That would be a third
//! of the time that a function takes to start.

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, Result};
use std::sync::OnceLock;

/// Makes clients that are made on first use.
#[derive(Debug)]
pub(crate) struct OnFirstUse;

impl HttpConnector for OnFirstUse {
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
            // Not one of the kinds that are tried again: it would fail in the same way.
            let made = made.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            // Two that came at once may both have made one.
            self.client.get_or_init(|| made)
        };
        client.execute(request).await
    }
}
