//! Clients of AWS's services, made without a look at files or metadata: all that they need is in the
//! environment of a function.

use crate::s3_http::OnFirstUse;
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

/// DynamoDB, KMS and EventBridge answer in milliseconds. A try that takes longer than this is given
/// up and made anew, while the caller behind API Gateway still waits.
const TRY: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(1);
const ALL_TRIES: Duration = Duration::from_secs(12);

/// Makes clients that share their connections.
#[derive(Clone, Debug)]
pub struct Clients<'a> {
    account: &'a Account,
    http: SharedHttpClient,
}

/// The configuration of one service's client; the types differ and the members do not.
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

    /// DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        config!(self, Service::DynamoDb, aws_sdk_dynamodb)
    }

    /// KMS.
    pub fn kms(&self) -> aws_sdk_kms::Client {
        config!(self, Service::Kms, aws_sdk_kms)
    }

    /// EventBridge.
    pub fn eventbridge(&self) -> aws_sdk_eventbridge::Client {
        config!(self, Service::EventBridge, aws_sdk_eventbridge)
    }

    /// The bucket.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backend`] when the settings make no client.
    pub fn blobs(&self, bucket: &str) -> Result<Blobs, StoreError> {
        let account = self.account;
        let mut s3 = AmazonS3Builder::new()
            .with_http_connector(OnFirstUse)
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
            operation: "use bucket",
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
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(TRY)
        .operation_timeout(ALL_TRIES)
        .build()
}
