//! Azure Key Vault (<https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret>).

use crate::sign_in::answer::Calls;
use crate::sign_in::{Access, CallError, SignedIn, azure};
use canyon_domain::json::Json;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

const SCOPE: &str = "https://vault.azure.net/.default";
const API_VERSION: &str = "7.4";

/// A vault, signed in.
pub(super) struct Azure {
    url: String,
    token: SecretString,
    identity: String,
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
    pub(super) async fn sign_in(url: &str, access: &Access<'_>) -> Result<Self, CallError> {
        let SignedIn { proof: token, identity } = azure::sign_in(SCOPE, access).await?;
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
    ) -> Result<Json, CallError> {
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
