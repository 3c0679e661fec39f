//! Azure: presents Canyon's token as a federated credential of an application (RFC 7523, client
//! assertion).

use super::context::ExchangeContext;
use super::post::{Answer, post};
use super::quoting::quote;
use super::{AccessToken, FederationError, RunnerIdentity};
use canyon_domain::runner::aks::AzureAuth;
use jiff::SignedDuration;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use std::sync::Arc;

/// The audience of a federated credential (Microsoft Entra, "Workload identity federation").
const AUDIENCE: &str = "api://AzureADTokenExchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A request for a token.
#[derive(Clone, Debug)]
pub(super) struct TokenRequest {
    pub(super) who: RunnerIdentity,
    pub(super) auth: AzureAuth,
    pub(super) scope: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: SecretString,
    expires_in: u32,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
    #[serde(default)]
    error_codes: Vec<u32>,
}

impl TokenRequest {
    pub(super) async fn exchange(
        self,
        context: Arc<ExchangeContext>,
    ) -> Result<AccessToken, FederationError> {
        let token = context.assertion(self.who, AUDIENCE).await?;
        let authority = &context.endpoints.azure_authority;
        let address = format!("{authority}/{}/oauth2/v2.0/token", self.auth.tenant_id);
        let http = context.http()?;
        let asked_at = context.clock.now();
        let answer = post(|| {
            http.post(&address).form(&[
                ("grant_type", "client_credentials"),
                ("client_id", &self.auth.client_id),
                ("scope", &self.scope),
                ("client_assertion_type", JWT_BEARER),
                ("client_assertion", token.expose_secret()),
            ])
        });
        let answer = answer.await.map_err(|why| unavailable(&quote(&why)))?;
        if !answer.is_success() {
            return Err(self.explain(&answer, context.issuer.url()));
        }
        let given: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| unavailable("its answer is not a token"))?;
        let ends_at = asked_at.checked_add(SignedDuration::from_secs(given.expires_in.into()));
        let ends_at = ends_at.map_err(|_| unavailable("its token has no valid expiry"))?;
        Ok(AccessToken { secret: given.access_token, ends_at })
    }

    fn explain(&self, answer: &Answer, issuer: &str) -> FederationError {
        let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
        // The text after it differs each time, and is for Microsoft's support.
        let message = refusal.error_description.split(" Trace ID:").next().unwrap_or_default();
        let reported = match (quote(message), refusal.error) {
            (message, _) if !message.is_empty() => message,
            (_, code) if !code.is_empty() => quote(&code),
            _ => format!("HTTP status {}", answer.status),
        };
        let code = refusal.error_codes.first().copied().unwrap_or_default();
        // Codes of Entra: 90033 is a transient error, 50196 a request loop, and 50166 an issuer
        // that does not answer.
        if answer.status == 429 || code == 50_196 {
            return FederationError::Throttled(format!(
                "Microsoft Entra throttles Canyon ({reported})"
            ));
        }
        if !(400..500).contains(&answer.status) || code == 90_033 || code == 50_166 {
            return unavailable(&reported);
        }
        let AzureAuth { tenant_id, client_id } = &self.auth;
        let advice = match code {
            70_021 | 700_211..=700_213 | 7_002_110..=7_002_139 => format!(
                "The application needs a federated credential with exactly the issuer {issuer}, \
                 the subject {} and the audience {AUDIENCE}",
                self.who.subject()
            ),
            700_016 => "Check `client_id`, and that the application is in that tenant".to_owned(),
            90_002 | 900_023 => "Check `tenant_id`".to_owned(),
            70_011 | 500_011 | 1_002_012 => {
                format!("The tenant must know the resource of the scope {}", self.scope)
            }
            _ => "Check `tenant_id`, `client_id` and the application's federated credential"
                .to_owned(),
        };
        FederationError::Refused(format!(
            "Microsoft Entra refuses the application {client_id} of `client_id` in the tenant \
             {tenant_id} ({reported}). {advice}"
        ))
    }
}

fn unavailable(why: &str) -> FederationError {
    FederationError::Unavailable(format!("Microsoft Entra did not give a token: {why}"))
}
