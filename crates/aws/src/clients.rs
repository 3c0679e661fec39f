//! Clients of AWS's services. They read no configuration files and no instance metadata: the
//! environment of a function contains all that they need.

use crate::s3_http::LazyConnector;
use crate::settings::{Account, Service};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_smithy_http_client::{Builder, tls};
use aws_smithy_types::timeout::TimeoutConfig;
use canyon_store::StoreError;
use canyon_store::blobs::Blobs;
use canyon_store::s3_signer::S3Signer;
use object_store::aws::AmazonS3Builder;
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;

/// DynamoDB, KMS and EventBridge answer in milliseconds. An attempt that takes longer than this is
/// aborted and retried, while the caller behind API Gateway still waits.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(12);

/// Creates clients that share their connections.
#[derive(Clone, Debug)]
pub struct Clients<'a> {
    account: &'a Account,
    http: SharedHttpClient,
}

/// The configuration of one service's client. Only the types differ between services.
macro_rules! config {
    ($clients:expr, $service:expr, $sdk:ident) => {{
        let account = $clients.account;
        let mut config = $sdk::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(account.region.clone()))
            .credentials_provider(SharedCredentialsProvider::new($clients.credentials()))
            .http_client($clients.http.clone())
            .timeout_config(timeouts());
        if let Some(endpoint) = account.endpoint($service) {
            config = config.endpoint_url(endpoint);
        }
        $sdk::Client::from_conf(config.build())
    }};
}

impl<'a> Clients<'a> {
    /// Clients for `account`.
    pub fn new(account: &'a Account) -> Self {
        let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc);
        Self { account, http: Builder::new().tls_provider(provider).build_https() }
    }

    fn credentials(&self) -> Credentials {
        let token = self.account.session_token.as_ref();
        Credentials::new(
            &self.account.access_key_id,
            self.account.secret_access_key.expose_secret(),
            token.map(|token| token.expose_secret().to_owned()),
            None,
            "lambda",
        )
    }

    /// A client of DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        config!(self, Service::DynamoDb, aws_sdk_dynamodb)
    }

    /// A client of KMS.
    pub fn kms(&self) -> aws_sdk_kms::Client {
        config!(self, Service::Kms, aws_sdk_kms)
    }

    /// A client of EventBridge.
    pub fn eventbridge(&self) -> aws_sdk_eventbridge::Client {
        config!(self, Service::EventBridge, aws_sdk_eventbridge)
    }

    /// The object store in the bucket `bucket`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] if the settings are not valid for an S3 client.
    pub fn blobs(&self, bucket: &str) -> Result<Blobs, StoreError> {
        let account = self.account;
        let mut s3 = AmazonS3Builder::new()
            .with_http_connector(LazyConnector)
            .with_bucket_name(bucket)
            .with_region(&account.region)
            .with_access_key_id(&account.access_key_id)
            .with_secret_access_key(account.secret_access_key.expose_secret());
        if let Some(token) = &account.session_token {
            s3 = s3.with_token(token.expose_secret());
        }
        if let Some(endpoint) = account.endpoint(Service::S3) {
            s3 = s3.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        let s3 = s3.build().map_err(|source| StoreError::Backend {
            operation: "configure bucket",
            thing: bucket.to_owned(),
            source: source.into(),
        })?;
        let host = || format!("https://s3.{}.amazonaws.com", account.region);
        let host = account.endpoint(Service::S3).map_or_else(host, str::to_owned);
        let url = format!("{}/{bucket}", host.trim_end_matches('/'));
        let signer = S3Signer::new(url, account.region.clone(), self.credentials());
        Ok(Blobs::new(Arc::new(s3)).with_signer(Arc::new(signer)))
    }
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(TOTAL_TIMEOUT)
        .build()
}
