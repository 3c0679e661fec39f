//! AWS: Canyon's token for the credentials of a role (`AssumeRoleWithWebIdentity`).

use super::parts::Parts;
use super::post::reason;
use super::words::quote;
use super::{FederationError, RunnerIdentity};
use aws_credential_types::Credentials;
use aws_sdk_sts::config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;
use secrecy::ExposeSecret as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const CONNECT: Duration = Duration::from_secs(5);
const TRY: Duration = Duration::from_secs(10);
const ALL_TRIES: Duration = Duration::from_secs(25);
const TRIES: u32 = 3;

type Failed = SdkError<AssumeRoleWithWebIdentityError>;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct RoleRequest {
    pub(super) who: RunnerIdentity,
    pub(super) role_arn: String,
    pub(super) region: String,
    pub(super) session_name: String,
}

impl RoleRequest {
    /// What the OIDC provider in IAM must name as a client id. The partitions are apart: tokens for
    /// one are not to be good in another.
    fn audience(&self) -> &'static str {
        match self.arn_part(1) {
            "aws-cn" => "sts.amazonaws.com.cn",
            _ => "sts.amazonaws.com",
        }
    }

    fn arn_part(&self, place: usize) -> &str {
        self.role_arn.split(':').nth(place).unwrap_or_default()
    }

    pub(super) async fn exchange(self, parts: Arc<Parts>) -> Result<Credentials, FederationError> {
        let token = parts.assertion(self.who, self.audience()).await?;
        let sent = self
            .client(&parts)
            .assume_role_with_web_identity()
            .role_arn(&self.role_arn)
            .role_session_name(&self.session_name)
            .web_identity_token(token.expose_secret())
            .send()
            .await;
        let answer = sent.map_err(|error| self.explain(&error, parts.issuer.url()))?;
        let given = answer.credentials.ok_or_else(|| self.unavailable("no credentials came"))?;
        let ends_at = SystemTime::try_from(given.expiration)
            .map_err(|_| self.unavailable("it gives no time of expiry"))?;
        let (id, secret) = (given.access_key_id, given.secret_access_key);
        Ok(Credentials::new(id, secret, Some(given.session_token), Some(ends_at), "canyon"))
    }

    fn client(&self, parts: &Parts) -> aws_sdk_sts::Client {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(TRY)
            .operation_timeout(ALL_TRIES)
            .build();
        let mut config = aws_sdk_sts::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(timeouts)
            .http_client(parts.aws_http());
        if let Some(endpoint) = &parts.endpoints.aws_sts {
            config = config.endpoint_url(endpoint);
        }
        aws_sdk_sts::Client::from_conf(config.build())
    }

    fn unavailable(&self, why: &str) -> FederationError {
        let region = &self.region;
        FederationError::Unavailable(format!("AWS STS in {region} did not answer: {why}"))
    }

    fn explain(&self, error: &Failed, issuer: &str) -> FederationError {
        let Some(service) = error.as_service_error() else {
            return self.unavailable(&quote(&reason(error)));
        };
        let status = error.raw_response().map_or(0, |response| response.status().as_u16());
        // Whatever stands between answers without a code.
        let code = service.code().unwrap_or_default();
        let said = match quote(service.message().unwrap_or_default()) {
            _ if code.is_empty() => format!("HTTP status {status}"),
            words if words.is_empty() => code.to_owned(),
            words => format!("{code}: {words}"),
        };
        let role = &self.role_arn;
        let refused = |advice: String| {
            FederationError::Refused(format!(
                "AWS STS refuses the role {role} of `role_arn` ({said}). {advice}"
            ))
        };
        match code {
            _ if is_throttling(code) || status == 429 => FederationError::Throttled(format!(
                "AWS STS in {} asks for fewer calls ({said})",
                self.region
            )),
            "IDPCommunicationError" => FederationError::Unavailable(format!(
                "AWS STS cannot reach Canyon's issuer {issuer} ({said}). Its discovery document \
                 and keys must be readable from the internet"
            )),
            _ if status >= 500 || code.is_empty() => self.unavailable(&said),
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

    /// What the role's trust policy has to say.
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

/// As AWS's SDKs tell throttling.
fn is_throttling(code: &str) -> bool {
    ["Throttl", "RequestLimitExceeded", "TooManyRequests", "SlowDown", "RequestThrottled"]
        .iter()
        .any(|start| code.starts_with(start))
}

#[cfg(test)]
mod tests {
    use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};

    /// A call that crosses partitions would carry a token to where it is not for.
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
