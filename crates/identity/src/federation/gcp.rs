//! Google Cloud: Canyon's token for a federated one, and that for one of a service account.

use super::gcp_exchange::{ExchangeFailure, exchange_token};
use super::parts::Parts;
use super::post::{Answer, post};
use super::words::quote;
use super::{AccessToken, FederationError, RunnerIdentity};
use canyon_domain::runner::gke::GcpAuth;
use jiff::Timestamp;
use reqwest::header::AUTHORIZATION;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The longest that Google gives without an organization policy that says otherwise.
const LIFE: &str = "3600s";

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct AccountRequest {
    pub(super) who: RunnerIdentity,
    pub(super) auth: GcpAuth,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
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
    pub(super) async fn exchange(self, parts: Arc<Parts>) -> Result<AccessToken, FederationError> {
        // A provider without audiences of its own takes its resource name with and without the
        // scheme, one with a list takes exactly what is on it (IAM API, `Oidc.allowedAudiences`). So
        // the token says what the runner says.
        let token = parts.assertion(self.who, &self.auth.gcp_audience).await?;
        let address = format!("{}/v1/token", parts.endpoints.gcp_sts);
        let federated = exchange_token(address, self.provider(), token).await;
        let federated =
            federated.map_err(|failure| self.explain_exchange(&failure, parts.issuer.url()))?;
        let address = format!(
            "{}/v1/projects/-/serviceAccounts/{}:generateAccessToken",
            parts.endpoints.gcp_iam_credentials, self.auth.gcp_service_account
        );
        let http = parts.http()?;
        let answer = post(|| {
            let request = http.post(&address).header(AUTHORIZATION, federated.clone());
            request.json(&json!({ "scope": [CLOUD_PLATFORM], "lifetime": LIFE }))
        });
        let answer = answer.await.map_err(|why| account_unavailable(&quote(&why)))?;
        if !answer.is_good() {
            return Err(self.explain_account(&answer));
        }
        let given: Given = serde_json::from_slice(&answer.body)
            .map_err(|_| account_unavailable("its answer is not a token"))?;
        Ok(AccessToken { secret: given.access_token, ends_at: given.expire_time })
    }

    /// The provider as the token service wants it: without the scheme.
    fn provider(&self) -> &str {
        let audience = &self.auth.gcp_audience;
        audience.strip_prefix("https:").unwrap_or(audience)
    }

    /// The runner as IAM calls it.
    fn principal(&self) -> String {
        let provider = self.provider();
        let pool = provider.split_once("/providers/").map_or(provider, |(pool, _)| pool);
        format!("principal:{pool}/subject/{}", self.who.subject())
    }

    fn explain_exchange(&self, failure: &ExchangeFailure, issuer: &str) -> FederationError {
        let ExchangeFailure { status, code, words } = failure;
        let said = match (quote(code), quote(words)) {
            (code, words) if !code.is_empty() && !words.is_empty() => format!("{code}: {words}"),
            (code, words) => format!("{code}{words}"),
        };
        if *status == 429 {
            return FederationError::Throttled(format!(
                "Google's Security Token Service asks for fewer calls ({said})"
            ));
        }
        // Google's words for an issuer that does not answer; the code is that of a bad token.
        if !(400..500).contains(status) || words.starts_with("Error connecting") {
            return FederationError::Unavailable(format!(
                "Google's Security Token Service did not give a token: {said}"
            ));
        }
        let audience = &self.auth.gcp_audience;
        let advice = match code.as_str() {
            "invalid_target" => "Check that this provider exists and is enabled".to_owned(),
            "unauthorized_client" => format!(
                "Its attribute mapping and attribute condition must let in the subject {}",
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
             `gcp_audience` ({said}). {advice}"
        ))
    }

    fn explain_account(&self, answer: &Answer) -> FederationError {
        let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
        let RefusalError { status: code, message } = refusal.error;
        let said = match quote(&message) {
            words if words.is_empty() => format!("HTTP status {}", answer.status),
            words => format!("{}: {words}", quote(&code)),
        };
        if answer.status == 429 {
            return FederationError::Throttled(format!(
                "Google's IAM Service Account Credentials ask for fewer calls ({said})"
            ));
        }
        if !(400..500).contains(&answer.status) {
            return account_unavailable(&said);
        }
        let advice = match answer.status {
            403 => format!(
                "Grant {} the role roles/iam.workloadIdentityUser on that service account, and see \
                 that the project has the IAM Service Account Credentials API enabled",
                self.principal()
            ),
            _ => "Check that this service account exists and is enabled".to_owned(),
        };
        FederationError::Refused(format!(
            "Google does not let the runner act as the service account {} of \
             `gcp_service_account` ({said}). {advice}",
            self.auth.gcp_service_account
        ))
    }
}

fn account_unavailable(why: &str) -> FederationError {
    FederationError::Unavailable(format!(
        "Google's IAM Service Account Credentials did not give a token: {why}"
    ))
}
