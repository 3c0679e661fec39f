//! Signs in at AWS: as the role of `job.identity.aws`, with static keys of the job's environment, or with what AWS's default
//! chain finds: the role of a task, of a pod, of a machine.

use super::{Access, CallError, SignedIn};
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sdk_sts::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::{Builder, Connector, tls};
use canyon_domain::causes::Causes;
use canyon_domain::job_identity::{AWS_AUDIENCE, AwsIdentity, TokenPhase};
use secrecy::ExposeSecret as _;

/// Signs in. `region` is that of the token service, unless the identity names one.
pub(crate) async fn sign_in(
    region: &str,
    access: &Access<'_>,
) -> Result<SignedIn<Credentials>, CallError> {
    let http = http(access).map_err(CallError::Refused)?;
    if let Some(aws) = access.job.identity.as_ref().and_then(|of| of.aws.as_ref()) {
        let proof = assumed(aws, region, http, access).await?;
        return Ok(SignedIn { proof, identity: aws.role(TokenPhase::Plan).to_owned() });
    }
    if let Some(proof) = static_keys(access) {
        return Ok(SignedIn { proof, identity: "the keys of its environment".to_owned() });
    }
    let proof = of_platform(region, http).await?;
    Ok(SignedIn { proof, identity: "the identity of its platform".to_owned() })
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
) -> Result<Credentials, CallError> {
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
            CallError::Refused(reason)
        } else {
            CallError::Unreachable(reason)
        }
    })?;
    let given = answer
        .credentials
        .ok_or_else(|| CallError::Unreachable(format!("AWS gives no credentials of {role}")))?;
    let (id, secret) = (given.access_key_id, given.secret_access_key);
    Ok(Credentials::new(id, secret, Some(given.session_token), None, "job"))
}

async fn of_platform(region: &str, http: SharedHttpClient) -> Result<Credentials, CallError> {
    let config = ProviderConfig::empty().with_http_client(http).with_sleep_impl(TokioSleep::new());
    let chain =
        DefaultCredentialsChain::builder().configure(config).region(Region::new(region.to_owned()));
    chain.build().await.provide_credentials().await.map_err(|error| {
        CallError::Refused(format!(
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
