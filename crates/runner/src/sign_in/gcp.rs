//! Signs in at Google Cloud: with Canyon's token by workload identity federation, or as the service account of the job's
//! platform.

use super::{Access, CallError, Granted, SignedIn};
use canyon_domain::job_identity::{GcpIdentity, TokenPhase};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The metadata server of Google's machines and of GKE.
const METADATA: &str =
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";

/// Signs in: the proof is an access token.
pub(crate) async fn sign_in(access: &Access<'_>) -> Result<SignedIn<SecretString>, CallError> {
    match access.job.identity.as_ref().and_then(|of| of.gcp.as_ref()) {
        Some(gcp) => federated(gcp, access).await,
        None => of_platform(access).await,
    }
}

/// The token of the federated identity, or of the service account that it acts as.
async fn federated(
    gcp: &GcpIdentity,
    access: &Access<'_>,
) -> Result<SignedIn<SecretString>, CallError> {
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
    let Granted { access_token: proof } = answer.read(&what, said)?;
    let Some(account) = gcp.account(TokenPhase::Plan) else {
        let identity = format!("the federated identity of {}", gcp.audience);
        return Ok(SignedIn { proof, identity });
    };
    let iam = setting(
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS",
        "https://iamcredentials.googleapis.com",
    );
    let url = format!("{iam}/v1/projects/-/serviceAccounts/{account}:generateAccessToken");
    let body = json!({ "scope": [SCOPE] });
    let token = proof.expose_secret();
    let answer =
        access.calls.send(|client| Ok(client.post(&url).bearer_auth(token).json(&body))).await?;
    let what = format!("Google does not let the job act as {account}");
    let Granted { access_token: proof } = answer.read(&what, said)?;
    Ok(SignedIn { proof, identity: account.to_owned() })
}

async fn of_platform(access: &Access<'_>) -> Result<SignedIn<SecretString>, CallError> {
    let request =
        |client: &reqwest::Client| Ok(client.get(METADATA).header("metadata-flavor", "Google"));
    let answer = access.calls.send(request).await.map_err(|_| {
        CallError::Refused(
            "the job has no identity at Google Cloud: set `job.identity.gcp` of the runner, or run it on GKE with workload \
             identity"
                .to_owned(),
        )
    })?;
    let Granted { access_token: proof } = answer.read("the platform gives no token", said)?;
    Ok(SignedIn { proof, identity: "the service account of its platform".to_owned() })
}

/// `error.message` of Google's APIs, or `error_description` of its token service.
pub(crate) fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let message = body["error"]["message"].as_str().or_else(|| body["error_description"].as_str());
    message.map(str::to_owned)
}
