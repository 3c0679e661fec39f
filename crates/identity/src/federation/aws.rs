//! AWS: exchanges Canyon's token for credentials of a role (`AssumeRoleWithWebIdentity`).

use super::context::ExchangeContext;
use super::post::reason;
use super::quoting::quote;
use super::{FederationError, RunnerIdentity};
use aws_credential_types::Credentials;
use aws_sdk_sts::config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;
use secrecy::ExposeSecret as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(25);
const MAX_ATTEMPTS: u32 = 3;

type AssumeRoleError = SdkError<AssumeRoleWithWebIdentityError>;

/// A request for credentials.
#[derive(Clone, Debug)]
pub(super) struct RoleRequest {
    pub(super) who: RunnerIdentity,
    pub(super) role_arn: String,
    pub(super) region: String,
    pub(super) session_name: String,
}

impl RoleRequest {
    /// The client id that the OIDC provider in IAM must list. Partitions are separate: a token for
    /// one must not be valid in another.
    fn audience(&self) -> &'static str {
        match self.arn_part(1) {
            "aws-cn" => "sts.amazonaws.com.cn",
            _ => "sts.amazonaws.com",
        }
    }

    fn arn_part(&self, index: usize) -> &str {
        self.role_arn.split(':').nth(index).unwrap_or_default()
    }

    pub(super) async fn exchange(
        self,
        context: Arc<ExchangeContext>,
    ) -> Result<Credentials, FederationError> {
        let token = context.assertion(self.who, self.audience()).await?;
        let sent = self
            .client(&context)
            .assume_role_with_web_identity()
            .role_arn(&self.role_arn)
            .role_session_name(&self.session_name)
            .web_identity_token(token.expose_secret())
            .send()
            .await;
        let answer = sent.map_err(|error| self.explain(&error, context.issuer.url()))?;
        let given =
            answer.credentials.ok_or_else(|| self.unavailable("its answer has no credentials"))?;
        let ends_at = SystemTime::try_from(given.expiration)
            .map_err(|_| self.unavailable("its answer has no expiry"))?;
        let (id, secret) = (given.access_key_id, given.secret_access_key);
        Ok(Credentials::new(id, secret, Some(given.session_token), Some(ends_at), "canyon"))
    }

    fn client(&self, context: &ExchangeContext) -> aws_sdk_sts::Client {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(TOTAL_TIMEOUT)
            .build();
        let mut config = aws_sdk_sts::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .retry_config(RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS))
            .timeout_config(timeouts)
            .http_client(context.aws_http.clone());
        if let Some(endpoint) = &context.endpoints.aws_sts {
            config = config.endpoint_url(endpoint);
        }
        aws_sdk_sts::Client::from_conf(config.build())
    }

    fn unavailable(&self, why: &str) -> FederationError {
        let region = &self.region;
        FederationError::Unavailable(format!("AWS STS in {region} did not answer: {why}"))
    }

    fn explain(&self, error: &AssumeRoleError, issuer: &str) -> FederationError {
        let Some(service) = error.as_service_error() else {
            return self.unavailable(&quote(&reason(error)));
        };
        let status = error.raw_response().map_or(0, |response| response.status().as_u16());
        // A proxy on the way answers without a code.
        let code = service.code().unwrap_or_default();
        let reported = match quote(service.message().unwrap_or_default()) {
            _ if code.is_empty() => format!("HTTP status {status}"),
            message if message.is_empty() => code.to_owned(),
            message => format!("{code}: {message}"),
        };
        let role = &self.role_arn;
        let refused = |advice: String| {
            FederationError::Refused(format!(
                "AWS STS refuses the role {role} of `role_arn` ({reported}). {advice}"
            ))
        };
        match code {
            _ if is_throttling(code) || status == 429 => FederationError::Throttled(format!(
                "AWS STS in {} throttles Canyon ({reported})",
                self.region
            )),
            "IDPCommunicationError" => FederationError::Unavailable(format!(
                "AWS STS cannot reach Canyon's issuer {issuer} ({reported}). Its discovery document \
                 and keys must be readable from the internet"
            )),
            _ if status >= 500 || code.is_empty() => self.unavailable(&reported),
            "InvalidIdentityToken" => refused(format!(
                "IAM of account {} needs an OIDC provider for {issuer} with the audience {}, and \
                 must be able to read that address",
                self.arn_part(4),
                self.audience()
            )),
            "AccessDenied" | "IDPRejectedClaim" => refused(self.trust(issuer)),
            "ExpiredTokenException" | "ExpiredToken" => refused(
                "Canyon's token is at most ten minutes old: check the clock of the machine that \
                 Canyon runs on"
                    .to_owned(),
            ),
            "RegionDisabledException" => refused(format!(
                "Activate STS in {} for the account, or name another region in `sts_region`",
                self.region
            )),
            _ => refused("Check `role_arn`, `session_name` and `sts_region`".to_owned()),
        }
    }

    /// What the role's trust policy must contain.
    fn trust(&self, issuer: &str) -> String {
        let host = issuer.strip_prefix("https://").unwrap_or(issuer);
        format!(
            "There must be such a role, and its trust policy must allow \
             sts:AssumeRoleWithWebIdentity to the OIDC provider {host} with {host}:aud = {} and \
             {host}:sub = {}",
            self.audience(),
            self.who.subject()
        )
    }
}

/// The codes that AWS's SDKs treat as throttling.
fn is_throttling(code: &str) -> bool {
    ["Throttl", "RequestLimitExceeded", "TooManyRequests", "SlowDown", "RequestThrottled"]
        .iter()
        .any(|start| code.starts_with(start))
}

#[cfg(test)]
mod tests {
    use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};

    /// A call to another partition would send a token to a service that it is not for.
    #[tokio::test]
    async fn each_region_has_an_endpoint_in_its_own_partition() {
        let cases = [
            ("us-east-1", "https://sts.us-east-1.amazonaws.com"),
            ("eu-central-1", "https://sts.eu-central-1.amazonaws.com"),
            ("us-gov-west-1", "https://sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn"),
        ];
        for (region, address) in cases {
            let parameters = Params::builder().region(region).build().unwrap();
            let endpoint = DefaultResolver::new().resolve_endpoint(&parameters).await.unwrap();
            assert_eq!(endpoint.url(), address);
        }
    }
}
