//! AWS Secrets Manager and the parameters of AWS Systems Manager. The job signs in as the role of `job.identity.aws`, with
//! static keys of its environment, or with what AWS's default chain finds: the role of a task, of a pod, of a machine.
//!
//! One call of each service is signed here with AWS's own signer: their SDKs would double the time to build the runner.

use super::answer::Calls;
use super::{Access, Unread};
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sdk_sts::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::causes::Causes;
use canyon_domain::job_identity::{AWS_AUDIENCE, AwsIdentity, TokenPhase};
use canyon_domain::json::Json;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Which of the services keeps the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    SecretsManager,
    Ssm,
}

/// The secrets of a region.
pub(super) struct Aws {
    service: Service,
    region: String,
    endpoint: String,
    credentials: Credentials,
    identity: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SecretValue {
    secret_string: Option<String>,
    secret_binary: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ParameterValue {
    parameter: Parameter,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    value: String,
}

impl Service {
    /// Its name in addresses and signatures.
    fn name(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager",
            Self::Ssm => "ssm",
        }
    }

    /// The operation, in the header of the JSON protocol.
    fn target(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager.GetSecretValue",
            Self::Ssm => "AmazonSSM.GetParameter",
        }
    }

    fn body(self, name: &str, version: Option<&str>) -> Value {
        match (self, version) {
            (Self::SecretsManager, None) => json!({ "SecretId": name }),
            // The id of a version is a UUID, or an idempotency token of at least 32 characters; other names are labels.
            (Self::SecretsManager, Some(version)) if version.len() >= 32 => {
                json!({ "SecretId": name, "VersionId": version })
            }
            (Self::SecretsManager, Some(label)) => {
                json!({ "SecretId": name, "VersionStage": label })
            }
            (Self::Ssm, None) => json!({ "Name": name, "WithDecryption": true }),
            (Self::Ssm, Some(version)) => {
                json!({ "Name": format!("{name}:{version}"), "WithDecryption": true })
            }
        }
    }
}

impl Aws {
    pub(super) async fn sign_in(
        service: Service,
        region: &str,
        endpoint: Option<&str>,
        access: &Access<'_>,
    ) -> Result<Self, Unread> {
        let http = http(access).map_err(Unread::Refused)?;
        let of_environment = || static_keys(access);
        let (credentials, identity) =
            match access.job.identity.as_ref().and_then(|of| of.aws.as_ref()) {
                Some(aws) => (
                    assumed(aws, region, http, access).await?,
                    aws.role(TokenPhase::Plan).to_owned(),
                ),
                None => match of_environment() {
                    Some(keys) => (keys, "the keys of its environment".to_owned()),
                    None => (
                        of_platform(region, http).await?,
                        "the identity of its platform".to_owned(),
                    ),
                },
            };
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let public = || format!("https://{}.{region}.{domain}", service.name());
        let endpoint = endpoint.map_or_else(public, |url| url.trim_end_matches('/').to_owned());
        Ok(Self { service, region: region.to_owned(), endpoint, credentials, identity })
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) async fn secret(
        &self,
        calls: &Calls,
        name: &str,
        version: Option<&str>,
    ) -> Result<Json, Unread> {
        let body = self.service.body(name, version).to_string();
        let answer = calls.send(|client| self.signed(client, &body)).await?;
        let what = format!("`{name}` cannot be read in {}", self.region);
        match self.service {
            Service::Ssm => Ok(answer.read::<ParameterValue>(&what, said)?.parameter.value.into()),
            Service::SecretsManager => {
                let SecretValue { secret_string, secret_binary } = answer.read(&what, said)?;
                let binary = || {
                    let bytes = STANDARD.decode(secret_binary?).ok()?;
                    String::from_utf8(bytes).ok()
                };
                let text = secret_string.or_else(binary);
                let text =
                    text.ok_or_else(|| Unread::Refused(format!("{what}: it is not UTF-8")))?;
                Ok(text.into())
            }
        }
    }

    /// A request with a signature of now: one that is sent again needs a new one.
    fn signed(
        &self,
        client: &reqwest::Client,
        body: &str,
    ) -> Result<reqwest::RequestBuilder, Unread> {
        let unsigned = |error: &dyn std::fmt::Display| {
            Unread::Refused(format!("the request cannot be signed: {error}"))
        };
        let url = format!("{}/", self.endpoint);
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", self.service.target()),
        ];
        let identity = self.credentials.clone().into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service.name())
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?;
        let body_to_sign = SignableBody::Bytes(body.as_bytes());
        let signable = SignableRequest::new("POST", &url, headers.into_iter(), body_to_sign)
            .map_err(|error| unsigned(&error))?;
        let signed = sign(signable, &parameters.into()).map_err(|error| unsigned(&error))?;
        let (instructions, _) = signed.into_parts();
        let mut request = client.post(&url).body(body.to_owned());
        for (name, value) in headers.into_iter().chain(instructions.headers()) {
            request = request.header(name, value);
        }
        Ok(request)
    }
}

/// `AWS_ACCESS_KEY_ID` and the others, as the organization or the runner's definition sets them for the job.
fn static_keys(access: &Access<'_>) -> Option<Credentials> {
    let variable =
        |name: &str| access.environment.get(name).filter(|text| !text.is_empty()).cloned();
    let (id, secret) = (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
    Some(Credentials::new(id, secret, variable("AWS_SESSION_TOKEN"), None, "job"))
}

/// Credentials of the role of the job, for Canyon's token.
async fn assumed(
    aws: &AwsIdentity,
    region: &str,
    http: SharedHttpClient,
    access: &Access<'_>,
) -> Result<Credentials, Unread> {
    let token = access.token(AWS_AUDIENCE).await?;
    let region = Region::new(aws.region.clone().unwrap_or_else(|| region.to_owned()));
    let mut config = aws_sdk_sts::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(region)
        .http_client(http)
        .sleep_impl(TokioSleep::new());
    if let Some(url) =
        ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"].iter().find_map(|name| access.variable(name))
    {
        config = config.endpoint_url(url);
    }
    let role = aws.role(TokenPhase::Plan);
    let sent = aws_sdk_sts::Client::from_conf(config.build())
        .assume_role_with_web_identity()
        .role_arn(role)
        .role_session_name(access.job.deployment_id.to_string())
        .web_identity_token(token.expose_secret())
        .send()
        .await;
    let answer = sent.map_err(|error| {
        let reason = format!("AWS does not let the job act as {role}: {}", Causes(&error));
        if error.as_service_error().is_some() {
            Unread::Refused(reason)
        } else {
            Unread::Unreachable(reason)
        }
    })?;
    let given = answer
        .credentials
        .ok_or_else(|| Unread::Unreachable(format!("AWS gives no credentials of {role}")))?;
    let (id, secret) = (given.access_key_id, given.secret_access_key);
    Ok(Credentials::new(id, secret, Some(given.session_token), None, "job"))
}

async fn of_platform(region: &str, http: SharedHttpClient) -> Result<Credentials, Unread> {
    let config = ProviderConfig::empty().with_http_client(http).with_sleep_impl(TokioSleep::new());
    let chain =
        DefaultCredentialsChain::builder().configure(config).region(Region::new(region.to_owned()));
    chain.build().await.provide_credentials().await.map_err(|error| {
        Unread::Refused(format!(
            "the job has no identity at AWS: set `job.identity.aws` of the runner, or give its task, pod or machine a role \
             ({})",
            Causes(&error)
        ))
    })
}

/// A client that uses the environment's proxy, for https only: the platform's credentials must not go through one.
fn http(access: &Access<'_>) -> Result<SharedHttpClient, String> {
    let variable =
        |name: &str| access.variable(name).or_else(|| access.variable(&name.to_lowercase()));
    let mut proxy = ProxyConfig::disabled();
    if let Some(url) = variable("HTTPS_PROXY") {
        // The address may contain a password, so the message does not repeat it.
        proxy =
            ProxyConfig::https(url).map_err(|_| "`HTTPS_PROXY` is not the address of a proxy")?;
        if let Some(except) = variable("NO_PROXY") {
            proxy = proxy.no_proxy(except);
        }
    }
    Ok(Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder().proxy_config(proxy.clone());
        builder.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            builder.set_sleep_impl(components.sleep_impl());
        }
        builder.tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc)).build()
    }))
}

/// The code and the message of a refusal.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body["__type"].as_str().unwrap_or_default();
    let code = code.rsplit('#').next().unwrap_or(code);
    let message = body["message"].as_str().or_else(|| body["Message"].as_str()).unwrap_or_default();
    Some(
        [code, message]
            .iter()
            .filter(|text| !text.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(": "),
    )
}
