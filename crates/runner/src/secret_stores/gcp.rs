//! Google Secret Manager (<https://cloud.google.com/secret-manager/docs/access-secret-version>). The job signs in with
//! Canyon's token by workload identity federation, or as the service account of its platform.

use crate::sign_in::answer::Calls;
use crate::sign_in::{Access, CallError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::job_identity::{GcpIdentity, TokenPhase};
use canyon_domain::json::Json;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The metadata server of Google's machines and of GKE.
const METADATA: &str =
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";

/// The secrets of a project.
pub(super) struct Gcp {
    endpoint: String,
    project: String,
    token: SecretString,
    identity: String,
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Impersonated {
    access_token: SecretString,
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
        let (token, identity) = match access.job.identity.as_ref().and_then(|of| of.gcp.as_ref()) {
            Some(gcp) => federated(gcp, access).await?,
            None => of_platform(access).await?,
        };
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

/// The token of the federated identity, or of the service account that it acts as.
async fn federated(
    gcp: &GcpIdentity,
    access: &Access<'_>,
) -> Result<(SecretString, String), CallError> {
    let subject_token = access.token(&gcp.audience).await?;
    // The variables of Google's own command line for other endpoints.
    let setting = |name: &str, public: &str| {
        let url = access.variable(name).unwrap_or_else(|| public.to_owned());
        url.trim_end_matches('/').to_owned()
    };
    let sts = format!(
        "{}/v1/token",
        setting("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", "https://sts.googleapis.com")
    );
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("subject_token", subject_token.expose_secret()),
        // Here the provider's name has no scheme; as an audience of tokens it may have one.
        ("audience", gcp.audience.strip_prefix("https:").unwrap_or(&gcp.audience)),
        ("scope", SCOPE),
    ];
    let answer = access.calls.send(|client| Ok(client.post(&sts).form(&form))).await?;
    let what = format!("Google does not trust Canyon's token for {}", gcp.audience);
    let Granted { access_token } = answer.read(&what, said)?;
    let Some(account) = gcp.account(TokenPhase::Plan) else {
        return Ok((access_token, format!("the federated identity of {}", gcp.audience)));
    };
    let iam = setting(
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS",
        "https://iamcredentials.googleapis.com",
    );
    let url = format!("{iam}/v1/projects/-/serviceAccounts/{account}:generateAccessToken");
    let body = json!({ "scope": [SCOPE] });
    let token = access_token.expose_secret();
    let answer =
        access.calls.send(|client| Ok(client.post(&url).bearer_auth(token).json(&body))).await?;
    let what = format!("Google does not let the job act as {account}");
    let Impersonated { access_token } = answer.read(&what, said)?;
    Ok((access_token, account.to_owned()))
}

async fn of_platform(access: &Access<'_>) -> Result<(SecretString, String), CallError> {
    let request =
        |client: &reqwest::Client| Ok(client.get(METADATA).header("metadata-flavor", "Google"));
    let answer = access.calls.send(request).await.map_err(|_| {
        CallError::Refused(
            "the job has no identity at Google Cloud: set `job.identity.gcp` of the runner, or run it on GKE with workload \
             identity"
                .to_owned(),
        )
    })?;
    let Granted { access_token } = answer.read("the platform gives no token", said)?;
    Ok((access_token, "the service account of its platform".to_owned()))
}

/// `error.message` of Google's APIs, or `error_description` of its token service.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let message = body["error"]["message"].as_str().or_else(|| body["error_description"].as_str());
    message.map(str::to_owned)
}
