//! Google Cloud: exchanges Canyon's token for a federated token, and that for one of a service
//! account.

use super::context::ExchangeContext;
use super::gcp_exchange::{ExchangeFailure, exchange_token};
use super::post::{Answer, post};
use super::quoting::quote;
use super::{AccessToken, FederationError, RunnerIdentity};
use canyon_domain::runner::gke::GcpAuth;
use jiff::Timestamp;
use reqwest::header::AUTHORIZATION;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The longest lifetime that Google allows without an organization policy.
const LIFETIME: &str = "3600s";

/// A request for an access token of a service account.
#[derive(Clone, Debug)]
pub(super) struct AccountRequest {
    pub(super) who: RunnerIdentity,
    pub(super) auth: GcpAuth,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenAnswer {
    access_token: SecretString,
    expire_time: Timestamp,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: RefusalError,
}

#[derive(Default, Deserialize)]
struct RefusalError {
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: String,
}

impl AccountRequest {
    pub(super) async fn exchange(
        self,
        context: Arc<ExchangeContext>,
    ) -> Result<AccessToken, FederationError> {
        // A provider without an own list of audiences accepts its resource name with and without
        // the scheme; one with a list accepts exactly the listed ones (IAM API,
        // `Oidc.allowedAudiences`). So the token has the audience of the runner's definition.
        let token = context.assertion(self.who, &self.auth.gcp_audience).await?;
        let address = format!("{}/v1/token", context.endpoints.gcp_sts);
        let federated = exchange_token(address, self.provider(), token).await;
        let federated =
            federated.map_err(|failure| self.explain_exchange(&failure, context.issuer.url()))?;
        let address = format!(
            "{}/v1/projects/-/serviceAccounts/{}:generateAccessToken",
            context.endpoints.gcp_iam_credentials, self.auth.gcp_service_account
        );
        let http = context.http()?;
        let answer = post(|| {
            let request = http.post(&address).header(AUTHORIZATION, federated.clone());
            request.json(&json!({ "scope": [CLOUD_PLATFORM], "lifetime": LIFETIME }))
        });
        let answer = answer.await.map_err(|why| account_unavailable(&quote(&why)))?;
        if !answer.is_success() {
            return Err(self.explain_account(&answer));
        }
        let given: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| account_unavailable("its answer is not a token"))?;
        Ok(AccessToken { secret: given.access_token, ends_at: given.expire_time })
    }

    /// The provider in the form of the token service: without the scheme.
    fn provider(&self) -> &str {
        let audience = &self.auth.gcp_audience;
        audience.strip_prefix("https:").unwrap_or(audience)
    }

    /// The runner's principal identifier in IAM.
    fn principal(&self) -> String {
        let provider = self.provider();
        let pool = provider.split_once("/providers/").map_or(provider, |(pool, _)| pool);
        format!("principal:{pool}/subject/{}", self.who.subject())
    }

    fn explain_exchange(&self, failure: &ExchangeFailure, issuer: &str) -> FederationError {
        let ExchangeFailure { status, code, message } = failure;
        let reported = match (quote(code), quote(message)) {
            (code, message) if !code.is_empty() && !message.is_empty() => {
                format!("{code}: {message}")
            }
            (code, message) => format!("{code}{message}"),
        };
        if *status == 429 {
            return FederationError::Throttled(format!(
                "Google's Security Token Service throttles Canyon ({reported})"
            ));
        }
        // Google's message for an issuer that does not answer; its code is that of a bad token.
        if !(400..500).contains(status) || message.starts_with("Error connecting") {
            return FederationError::Unavailable(format!(
                "Google's Security Token Service did not give a token: {reported}"
            ));
        }
        let audience = &self.auth.gcp_audience;
        let advice = match code.as_str() {
            "invalid_target" => "Check that this provider exists and is enabled".to_owned(),
            "unauthorized_client" => format!(
                "Its attribute mapping and attribute condition must accept the subject {}",
                self.who.subject()
            ),
            "invalid_grant" => format!(
                "It must have the issuer {issuer}, be able to read that address, and allow the \
                 audience {audience}"
            ),
            _ => "Check the name of the provider and its settings".to_owned(),
        };
        FederationError::Refused(format!(
            "Google's Security Token Service refuses Canyon's token for the provider {audience} of \
             `gcp_audience` ({reported}). {advice}"
        ))
    }

    fn explain_account(&self, answer: &Answer) -> FederationError {
        let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
        let RefusalError { status: code, message } = refusal.error;
        let reported = match quote(&message) {
            message if message.is_empty() => format!("HTTP status {}", answer.status),
            message => format!("{}: {message}", quote(&code)),
        };
        if answer.status == 429 {
            return FederationError::Throttled(format!(
                "Google's IAM Service Account Credentials throttle Canyon ({reported})"
            ));
        }
        if !(400..500).contains(&answer.status) {
            return account_unavailable(&reported);
        }
        let advice = match answer.status {
            403 => format!(
                "Grant {} the role roles/iam.workloadIdentityUser on that service account, and check \
                 that the project has the IAM Service Account Credentials API enabled",
                self.principal()
            ),
            _ => "Check that this service account exists and is enabled".to_owned(),
        };
        FederationError::Refused(format!(
            "Google does not let the runner act as the service account {} of \
             `gcp_service_account` ({reported}). {advice}",
            self.auth.gcp_service_account
        ))
    }
}

fn account_unavailable(why: &str) -> FederationError {
    FederationError::Unavailable(format!(
        "Google's IAM Service Account Credentials did not give a token: {why}"
    ))
}
