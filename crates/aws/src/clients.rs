//! Clients of AWS's services. They read no configuration files and no instance metadata: the
//! environment of a function contains all that they need.

use crate::s3_http::LazyConnector;
use crate::settings::{Account, Service};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_sdk_kms::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_smithy_types::timeout::TimeoutConfig;
use canyon_identity::aws_http;
use canyon_store::StoreError;
use canyon_store::blobs::Blobs;
use canyon_store::s3_signer::S3Signer;
use object_store::aws::AmazonS3Builder;
use secrecy::ExposeSecret;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
        Self { account, http: aws_http::client() }
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
        // `object_store` knows the domain of AWS's largest partition alone.
        let endpoint = account.endpoint(Service::S3).map(str::to_owned);
        let endpoint = endpoint.unwrap_or_else(|| s3_endpoint(&account.region));
        s3 = s3.with_endpoint(&endpoint).with_allow_http(endpoint.starts_with("http://"));
        let s3 = s3.build().map_err(|source| StoreError::Backend {
            operation: "configure bucket",
            thing: bucket.to_owned(),
            source: source.into(),
        })?;
        let url = format!("{}/{bucket}", endpoint.trim_end_matches('/'));
        let signer = S3Signer::new(url, account.region.clone(), self.credentials());
        Ok(Blobs::new(Arc::new(s3)).with_signer(Arc::new(signer)))
    }
}

/// Address of S3 in a region. Its domain depends on the partition: `amazonaws.com.cn` in China. The SDK of KMS has AWS's
/// list of partitions; the SDK of S3 is not linked.
fn s3_endpoint(region: &str) -> String {
    let kms = kms_endpoint(region);
    let domain = kms.as_deref().and_then(|url| url.strip_prefix(&format!("https://kms.{region}.")));
    format!("https://s3.{region}.{}", domain.unwrap_or("amazonaws.com"))
}

/// Address of KMS in a region, as its SDK computes it without any request.
fn kms_endpoint(region: &str) -> Option<String> {
    let parameters = Params::builder().region(region.to_owned()).build().ok()?;
    let resolver = DefaultResolver::new();
    let endpoint = pin!(ResolveEndpoint::resolve_endpoint(&resolver, &parameters));
    match endpoint.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(endpoint) => Some(endpoint.ok()?.url().to_owned()),
        Poll::Pending => None,
    }
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(TOTAL_TIMEOUT)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Function, Settings};
    use canyon_domain::ids::OrgUuid;
    use canyon_store::blob_keys::BlobKey;

    #[test]
    fn the_address_of_s3_has_the_domain_of_the_regions_partition() {
        for (region, wanted) in [
            ("eu-west-1", "https://s3.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "https://s3.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
            ("us-iso-east-1", "https://s3.us-iso-east-1.c2s.ic.gov"),
        ] {
            assert_eq!(s3_endpoint(region), wanted);
        }
    }

    #[tokio::test]
    async fn a_signed_address_is_in_the_regions_partition_or_at_the_endpoint_that_is_set() {
        let id = OrgUuid("01890000-0000-7000-8000-000000000001".parse().unwrap());
        let key = BlobKey::archive(id, &"0".repeat(64).parse().unwrap());
        for (endpoint, wanted) in [
            ("", "https://s3.cn-north-1.amazonaws.com.cn/blobs/"),
            ("http://127.0.0.1:9000/", "http://127.0.0.1:9000/blobs/"),
        ] {
            let variable = |name: &str| {
                let text = match name {
                    "CANYON_API_URL" => "https://canyon.example.com",
                    "CANYON_SIGNING_KEYS" => "alias/a",
                    "CANYON_JOB_SIGNING_KEYS" => "alias/b",
                    "AWS_REGION" => "cn-north-1",
                    "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => "test",
                    "AWS_ENDPOINT_URL_S3" => endpoint,
                    _ => "",
                };
                (!text.is_empty()).then(|| text.to_owned())
            };
            let settings = Settings::from_variables(Function::Issuer, &variable).unwrap();
            let blobs = Clients::new(&settings.aws).blobs("blobs").unwrap();
            let address = blobs.sign_download(&key).await.unwrap().unwrap();
            assert!(address.starts_with(wanted), "{address}");
        }
    }
}
