//! `kubernetes-eks`: AWS describes the cluster, and its API server accepts a presigned request.
//!
//! The bearer token is a URL of `GetCallerIdentity`, signed by the role for this cluster alone. The
//! cluster sends it to STS and so learns who signed it (EKS's authenticator, `pkg/token`). The
//! cluster accepts it for 15 minutes after the signature, whatever `X-Amz-Expires` says.

use super::{Access, Connector, Identity, https, identity_of, of_federation};
use crate::{DispatchError, Target};
use aws_credential_types::Credentials;
use aws_sdk_eks::config::retry::RetryConfig;
use aws_sdk_eks::config::timeout::TimeoutConfig;
use aws_sdk_eks::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_sdk_eks::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};
use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::eks::EksCluster;
use secrecy::SecretString;
use std::time::{Duration, SystemTime};

const PREFIX: &str = "k8s-aws-v1.";
const CLUSTER_HEADER: &str = "x-k8s-aws-id";
/// Renewed five minutes before the cluster refuses it.
const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
const EXPIRES: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(5);

pub(super) async fn credentials(
    connector: &Connector,
    target: &Target,
    cluster: &EksCluster,
) -> Result<Credentials, DispatchError> {
    let EksCluster { region, auth, .. } = cluster;
    let session = auth.session_name.clone().unwrap_or_else(|| session_name(target));
    let federation = connector.federation(target)?;
    let given = federation.aws(identity_of(target), auth, region, &session).await;
    given.map_err(|error| of_federation(target, &error))
}

pub(super) async fn access(
    connector: &Connector,
    target: &Target,
    cluster: &EksCluster,
) -> Result<Access, DispatchError> {
    let EksCluster { name, region, auth } = cluster;
    let credentials = credentials(connector, target, cluster).await?;
    let federation = connector.federation(target)?;
    let caller = Caller {
        http: federation.aws_http(),
        endpoint: federation.endpoints().aws_eks.clone(),
        doing: format!("runner `{}`: EKS cluster `{name}` in {region}", target.runner_id),
    };
    let (server, authority) = describe(&caller, name, region, &credentials).await?;
    let now = connector.clock.now();
    let sts_region = auth.sts_region.as_deref().unwrap_or(region);
    let token = token(&credentials, name, sts_region, now.into()).ok_or_else(|| {
        let message =
            format!("runner `{}`: the sign-in token for EKS cannot be signed", target.runner_id);
        DispatchError::refused(FailureClass::Config, message)
    })?;
    Ok(Access {
        server,
        authority: Some(authority),
        proxy: None,
        identity: Identity::Bearer(token),
        until: connector.until(None).min(now + TOKEN_LIFETIME),
    })
}

/// The session name, which CloudTrail shows with each call: 64 characters at most.
fn session_name(target: &Target) -> String {
    format!("{}-{}", target.org_id, target.runner_id).chars().take(64).collect()
}

/// The caller of the EKS API.
pub(super) struct Caller {
    pub(super) http: SharedHttpClient,
    /// Replaces the region's endpoint.
    pub(super) endpoint: Option<String>,
    /// What is being done, for messages.
    pub(super) doing: String,
}

/// The cluster's address and its certificate authority.
pub(super) async fn describe(
    caller: &Caller,
    name: &str,
    region: &str,
    credentials: &Credentials,
) -> Result<(String, String), DispatchError> {
    let Caller { http, endpoint, doing } = caller;
    let timeouts = TimeoutConfig::builder().operation_timeout(TIMEOUT).build();
    let mut config = aws_sdk_eks::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region.to_owned()))
        .credentials_provider(credentials.clone())
        .retry_config(RetryConfig::standard().with_max_attempts(2))
        .timeout_config(timeouts)
        .http_client(http.clone());
    if let Some(endpoint) = endpoint {
        config = config.endpoint_url(endpoint);
    }
    let client = aws_sdk_eks::Client::from_conf(config.build());
    let answer = client.describe_cluster().name(name).send().await;
    let found = answer.map_err(|error| explain(doing, &error))?.cluster;
    let server = found.as_ref().and_then(|found| https(found.endpoint()?));
    let authority = found.as_ref().and_then(|found| found.certificate_authority()?.data());
    if let (Some(server), Some(authority)) = (server, authority) {
        return Ok((server, authority.to_owned()));
    }
    let status = found.and_then(|found| Some(found.status()?.as_str().to_owned()));
    let status = status.unwrap_or_else(|| "unknown".to_owned());
    let message = format!("{doing} has no endpoint (its status is {status})");
    Err(DispatchError::refused(FailureClass::Config, message))
}

fn explain(doing: &str, error: &SdkError<DescribeClusterError>) -> DispatchError {
    let code = error.code().unwrap_or_default();
    let message = error.message().unwrap_or(code);
    let status = error.raw_response().map_or(0, |response| response.status().as_u16());
    match code {
        _ if status == 429 || code.contains("Throttl") || code == "TooManyRequestsException" => {
            let message = format!("{doing}: AWS throttles the request: {message}");
            DispatchError::later(FailureClass::Throttled, message, RETRY_PAUSE)
        }
        "" => {
            let message = format!("{doing}: no answer: {}", DisplayErrorContext(error));
            DispatchError::later(FailureClass::Lost, message, RETRY_PAUSE)
        }
        _ if status >= 500 => DispatchError::later(
            FailureClass::Lost,
            format!("{doing}: {code}: {message}"),
            RETRY_PAUSE,
        ),
        "ResourceNotFoundException" => {
            let message = format!("{doing} does not exist: {message}");
            DispatchError::refused(FailureClass::Config, message)
        }
        // AWS's message names the role and `eks:DescribeCluster`.
        _ => {
            let message = format!("{doing} cannot be described: {code}: {message}");
            DispatchError::refused(FailureClass::Config, message)
        }
    }
}

/// The bearer token for `cluster`. The address is always that of STS itself, because the cluster
/// calls it.
pub(super) fn token(
    credentials: &Credentials,
    cluster: &str,
    region: &str,
    now: SystemTime,
) -> Option<SecretString> {
    let host = format!("sts.{region}.{}", domain_of(region));
    let address = format!("https://{host}/?Action=GetCallerIdentity&Version=2011-06-15");
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(EXPIRES);
    let identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(now)
        .settings(settings)
        .build()
        .ok()?;
    let headers = [("host", host.as_str()), (CLUSTER_HEADER, cluster)];
    let request =
        SignableRequest::new("GET", &address, headers.into_iter(), SignableBody::Bytes(&[]))
            .ok()?;
    let (instructions, _) = sign(request, &parameters.into()).ok()?.into_parts();
    let mut signed = http::Request::get(&address).body(()).ok()?;
    instructions.apply_to_request_http1x(&mut signed);
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(signed.uri().to_string()));
    Some(token.into())
}

/// The domain of the region's partition.
fn domain_of(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else if region.starts_with("eusc-") {
        "amazonaws.eu"
    } else {
        "amazonaws.com"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn the_token_is_a_presigned_call_that_is_valid_for_one_cluster() {
        let credentials =
            Credentials::new("AKIDEXAMPLE", "secret", Some("session".into()), None, "test");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_000_000);
        let read = |cluster: &str, region: &str| {
            let token = token(&credentials, cluster, region, now).unwrap();
            let encoded = token.expose_secret().strip_prefix("k8s-aws-v1.").unwrap().to_owned();
            String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap()
        };
        let address = read("prod", "eu-west-1");
        let start =
            "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&";
        assert!(address.starts_with(start), "{address}");
        for part in [
            "X-Amz-Expires=60",
            "X-Amz-SignedHeaders=host%3Bx-k8s-aws-id",
            "X-Amz-Date=20250615T150640Z",
            "X-Amz-Security-Token=session",
            "X-Amz-Credential=AKIDEXAMPLE%2F20250615%2Feu-west-1%2Fsts%2Faws4_request",
        ] {
            assert!(address.contains(part), "{part} in {address}");
        }
        let signature =
            |address: &str| address.split("X-Amz-Signature=").nth(1).unwrap().to_owned();
        assert_ne!(signature(&address), signature(&read("other", "eu-west-1")));
        assert!(read("prod", "cn-north-1").starts_with("https://sts.cn-north-1.amazonaws.com.cn/"));
    }
}
