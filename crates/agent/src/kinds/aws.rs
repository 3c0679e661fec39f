//! The agent's identity at AWS. The order is that of AWS's own default chain: keys of the environment or of the profile,
//! the pod's role by a web identity or by EKS Pod Identity, the task's role, the machine's role.

use super::values::Values;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::provider::{
    ProvideCredentials, SharedCredentialsProvider, error::CredentialsError, future,
};
use aws_sdk_sts::config::{Region, SharedHttpClient};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};
use canyon_dispatch::AmbientAws;
use canyon_identity::federation::Endpoints;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The region, from the setting `region` or from the variables of AWS's own programs. If neither is set, that is a fault
/// with the `reason`.
pub(super) fn region(
    values: &mut Values<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
    reason: &str,
) -> String {
    let given = values.text("region").or_else(|| variable("AWS_REGION"));
    let given = given.or_else(|| variable("AWS_DEFAULT_REGION"));
    given.unwrap_or_else(|| values.required("region", reason))
}

/// The agent's credentials in `region`. `variable` reads the environment. Makes no call. Returns `None` and adds a fault
/// if the environment's proxy cannot be used.
pub(super) fn ambient(
    values: &mut Values<'_>,
    region: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<Arc<AmbientAws>> {
    let proxy = proxy(variable).map_err(|reason| values.faults.add("HTTPS_PROXY", reason)).ok()?;
    let http = http(proxy);
    let chain = Chain { http: http.clone(), region: region.to_owned(), made: OnceCell::new() };
    let provider = SharedCredentialsProvider::new(chain);
    Some(Arc::new(AmbientAws::new(provider, http, Endpoints::from_variables(variable))))
}

/// Only for https, because credentials of metadata services must not go through a proxy.
fn proxy(variable: &dyn Fn(&str) -> Option<String>) -> Result<ProxyConfig, &'static str> {
    let given = variable("HTTPS_PROXY").or_else(|| variable("https_proxy"));
    let Some(url) = given else { return Ok(ProxyConfig::disabled()) };
    // The address may contain a password, so the message does not repeat it.
    let config = ProxyConfig::https(url).map_err(|_| "is not the address of a proxy")?;
    let except = variable("NO_PROXY").or_else(|| variable("no_proxy"));
    Ok(except.map_or(config.clone(), |except| config.no_proxy(except)))
}

fn http(proxy: ProxyConfig) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder().proxy_config(proxy.clone());
        builder.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            builder.set_sleep_impl(components.sleep_impl());
        }
        builder.tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc)).build()
    })
}

/// Built at the first request for credentials, because building it reads files.
#[derive(Debug)]
struct Chain {
    http: SharedHttpClient,
    region: String,
    made: OnceCell<DefaultCredentialsChain>,
}

impl Chain {
    async fn credentials(&self) -> Result<aws_credential_types::Credentials, CredentialsError> {
        let chain = self.made.get_or_init(|| async {
            let region = Region::new(self.region.clone());
            let config = ProviderConfig::empty()
                .with_http_client(self.http.clone())
                .with_sleep_impl(TokioSleep::new());
            DefaultCredentialsChain::builder().configure(config).region(region).build().await
        });
        chain.await.provide_credentials().await
    }
}

impl ProvideCredentials for Chain {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}
