//! Azure Key Vault (<https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret>). The job signs in with a
//! token that Microsoft Entra trusts: Canyon's, or that of AKS workload identity.

use super::answer::Calls;
use super::{Access, Unread};
use canyon_domain::job_identity::{AZURE_AUDIENCE, TokenPhase};
use canyon_domain::json::Json;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const SCOPE: &str = "https://vault.azure.net/.default";
const API_VERSION: &str = "7.4";

/// A vault, signed in.
pub(super) struct Azure {
    url: String,
    token: SecretString,
    identity: String,
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
}

#[derive(Deserialize)]
struct Denied {
    error_description: String,
}

#[derive(Deserialize)]
struct Secret {
    value: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    message: String,
}

impl Azure {
    pub(super) async fn sign_in(url: &str, access: &Access<'_>) -> Result<Self, Unread> {
        let (tenant, client_id, token) = proof(access).await?;
        let authority =
            access.variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        let address = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &client_id),
            ("scope", SCOPE),
            ("client_assertion_type", JWT_BEARER),
            ("client_assertion", token.expose_secret()),
        ];
        let answer = access.calls.send(|client| Ok(client.post(&address).form(&form))).await?;
        let said = |body: &[u8]| {
            let denied: Denied = serde_json::from_slice(body).ok()?;
            // The text after it differs each time, and is for Microsoft's support.
            denied.error_description.split(" Trace ID:").next().map(str::to_owned)
        };
        let what =
            format!("Microsoft Entra refuses the application {client_id} of tenant {tenant}");
        let Granted { access_token: token } = answer.read(&what, said)?;
        let identity = format!("application {client_id} of tenant {tenant}");
        Ok(Self { url: url.trim_end_matches('/').to_owned(), token, identity })
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
        let version = version.map_or_else(String::new, |version| format!("/{version}"));
        let url = format!("{}/secrets/{name}{version}", self.url);
        let answer = calls
            .send(|client| {
                let request = client.get(&url).query(&[("api-version", API_VERSION)]);
                Ok(request.bearer_auth(self.token.expose_secret()))
            })
            .await?;
        let said =
            |body: &[u8]| serde_json::from_slice(body).ok().map(|Refusal { error }| error.message);
        let secret: Secret = answer.read(&format!("{url} cannot be read"), said)?;
        Ok(secret.value.into())
    }
}

/// Tenant, application and the token by which the job signs in.
async fn proof(access: &Access<'_>) -> Result<(String, String, SecretString), Unread> {
    if let Some(azure) = access.job.identity.as_ref().and_then(|of| of.azure.as_ref()) {
        let client = azure.client(TokenPhase::Plan).to_owned();
        return Ok((azure.tenant_id.clone(), client, access.token(AZURE_AUDIENCE).await?));
    }
    let none = || {
        Unread::Refused(
            "the job has no identity at Azure: set `job.identity.azure` of the runner, or use AKS workload identity"
                .to_owned(),
        )
    };
    let variable = |name| access.variable(name).ok_or_else(none);
    let file = variable("AZURE_FEDERATED_TOKEN_FILE")?;
    let token = std::fs::read_to_string(file).map_err(|_| none())?;
    Ok((variable("AZURE_TENANT_ID")?, variable("AZURE_CLIENT_ID")?, token.trim().to_owned().into()))
}
