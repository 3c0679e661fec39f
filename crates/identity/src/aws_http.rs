//! The HTTP client of the clients of AWS's services. It reads the machine's root certificates at the first request with
//! given timeouts.

use aws_smithy_http_client::{Builder, tls};
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// A client for all services, which share its connections.
pub fn client() -> SharedHttpClient {
    let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc);
    SharedHttpClient::new(LazyCertificates(Builder::new().tls_provider(provider).build_https()))
}

/// Leaves out `validate_base_client_config`: with it, the SDK reads and parses all certificates for every service's client
/// that is created, and discards them.
#[derive(Debug)]
struct LazyCertificates(SharedHttpClient);

impl HttpClient for LazyCertificates {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.0.http_connector(settings, components)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.0.connector_metadata()
    }
}
