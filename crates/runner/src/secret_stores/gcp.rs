//! Google Secret Manager (<https://cloud.google.com/secret-manager/docs/access-secret-version>).

use crate::sign_in::answer::Calls;
use crate::sign_in::gcp::{said, sign_in};
use crate::sign_in::{Access, CallError, SignedIn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::json::Json;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

/// The secrets of a project.
pub(super) struct Gcp {
    endpoint: String,
    project: String,
    token: SecretString,
    identity: String,
}

#[derive(Deserialize)]
struct Accessed {
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    data: SecretString,
}

impl Gcp {
    pub(super) async fn sign_in(
        project: &str,
        endpoint: Option<&str>,
        access: &Access<'_>,
    ) -> Result<Self, CallError> {
        let SignedIn { proof: token, identity } = sign_in(access).await?;
        let endpoint = endpoint.unwrap_or("https://secretmanager.googleapis.com");
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { endpoint, project: project.to_owned(), token, identity })
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
        let Self { endpoint, project, .. } = self;
        let version = version.unwrap_or("latest");
        let name = format!("projects/{project}/secrets/{name}/versions/{version}");
        let url = format!("{endpoint}/v1/{name}:access");
        let token = self.token.expose_secret();
        let answer = calls.send(|client| Ok(client.get(&url).bearer_auth(token))).await?;
        let what = format!("`{name}` cannot be read");
        let Accessed { payload } = answer.read(&what, said)?;
        let unreadable = || CallError::Refused(format!("{what}: it is not UTF-8"));
        let bytes = STANDARD.decode(payload.data.expose_secret()).map_err(|_| unreadable())?;
        Ok(String::from_utf8(bytes).map_err(|_| unreadable())?.into())
    }
}
