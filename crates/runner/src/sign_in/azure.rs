//! Signs in at Microsoft Entra with a token that it trusts: Canyon's, or that of AKS workload identity.

use super::{Access, CallError, Granted, SignedIn};
use canyon_domain::job_identity::{AZURE_AUDIENCE, TokenPhase};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const AUTHORITY: &str = "https://login.microsoftonline.com";

#[derive(Deserialize)]
struct Denied {
    error_description: String,
}

/// Signs in for `scope`, which is a resource followed by `/.default`: the proof is a token for it.
pub(crate) async fn sign_in(
    scope: &str,
    access: &Access<'_>,
) -> Result<SignedIn<SecretString>, CallError> {
    let (tenant, client_id, token) = proof(access).await?;
    let authority = access.variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
    let address = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", &client_id),
        ("scope", scope),
        ("client_assertion_type", JWT_BEARER),
        ("client_assertion", token.expose_secret()),
    ];
    let answer = access.calls.send(|client| Ok(client.post(&address).form(&form))).await?;
    let said = |body: &[u8]| {
        let denied: Denied = serde_json::from_slice(body).ok()?;
        // The text after it differs each time, and is for Microsoft's support.
        denied.error_description.split(" Trace ID:").next().map(str::to_owned)
    };
    let what = format!("Microsoft Entra refuses the application {client_id} of tenant {tenant}");
    let Granted { access_token: proof } = answer.read(&what, said)?;
    let identity = format!("application {client_id} of tenant {tenant}");
    Ok(SignedIn { proof, identity })
}

/// Tenant, application and the token by which the job signs in.
async fn proof(access: &Access<'_>) -> Result<(String, String, SecretString), CallError> {
    if let Some(azure) = access.job.identity.as_ref().and_then(|of| of.azure.as_ref()) {
        let client = azure.client(TokenPhase::Plan).to_owned();
        return Ok((azure.tenant_id.clone(), client, access.token(AZURE_AUDIENCE).await?));
    }
    let none = || {
        CallError::Refused(
            "the job has no identity at Azure: set `job.identity.azure` of the runner, or use AKS workload identity"
                .to_owned(),
        )
    };
    let variable = |name| access.variable(name).ok_or_else(none);
    let file = variable("AZURE_FEDERATED_TOKEN_FILE")?;
    let token = std::fs::read_to_string(file).map_err(|_| none())?;
    Ok((variable("AZURE_TENANT_ID")?, variable("AZURE_CLIENT_ID")?, token.trim().to_owned().into()))
}
