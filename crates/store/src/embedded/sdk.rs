//! The SDK's client without the parts that only a network needs: signatures, retries, timeouts,
//! endpoint rules.

use super::connector::Connector;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::endpoint::{Endpoint, EndpointFuture, Params, ResolveEndpoint};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region, StalledStreamProtectionConfig};

/// A name only: the request never leaves the process. RFC 2606 reserves `.invalid`, so no host can
/// have the name.
const ENDPOINT: &str = "http://embedded.invalid";

pub(super) fn client(connector: Connector) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("local"))
        .http_client(connector)
        .endpoint_resolver(FixedEndpoint(Endpoint::builder().url(ENDPOINT).build()))
        .allow_no_auth()
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .disable_clock_skew_correction(true)
        .build();
    Client::from_conf(config)
}

/// Resolves every request to one endpoint, without the rules for regions, partitions and account
/// endpoints.
#[derive(Debug)]
struct FixedEndpoint(Endpoint);

impl ResolveEndpoint for FixedEndpoint {
    fn resolve_endpoint<'a>(&'a self, _: &'a Params) -> EndpointFuture<'a> {
        EndpointFuture::ready(Ok(self.0.clone()))
    }
}
