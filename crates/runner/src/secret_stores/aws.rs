//! AWS Secrets Manager and the parameters of AWS Systems Manager.
//!
//! One call of each service is signed here with AWS's own signer: their SDKs would double the time to build the runner.

use crate::sign_in::answer::Calls;
use crate::sign_in::{Access, CallError, SignedIn, aws};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::json::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Which of the services keeps the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    SecretsManager,
    Ssm,
}

/// The secrets of a region.
pub(super) struct Aws {
    service: Service,
    region: String,
    endpoint: String,
    credentials: Credentials,
    identity: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SecretValue {
    secret_string: Option<String>,
    secret_binary: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ParameterValue {
    parameter: Parameter,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    value: String,
}

impl Service {
    /// Its name in addresses and signatures.
    fn name(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager",
            Self::Ssm => "ssm",
        }
    }

    /// The operation, in the header of the JSON protocol.
    fn target(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager.GetSecretValue",
            Self::Ssm => "AmazonSSM.GetParameter",
        }
    }

    fn body(self, name: &str, version: Option<&str>) -> Value {
        match (self, version) {
            (Self::SecretsManager, None) => json!({ "SecretId": name }),
            // The id of a version is a UUID, or an idempotency token of at least 32 characters; other names are labels.
            (Self::SecretsManager, Some(version)) if version.len() >= 32 => {
                json!({ "SecretId": name, "VersionId": version })
            }
            (Self::SecretsManager, Some(label)) => {
                json!({ "SecretId": name, "VersionStage": label })
            }
            (Self::Ssm, None) => json!({ "Name": name, "WithDecryption": true }),
            (Self::Ssm, Some(version)) => {
                json!({ "Name": format!("{name}:{version}"), "WithDecryption": true })
            }
        }
    }
}

impl Aws {
    pub(super) async fn sign_in(
        service: Service,
        region: &str,
        endpoint: Option<&str>,
        access: &Access<'_>,
    ) -> Result<Self, CallError> {
        let SignedIn { proof: credentials, identity } = aws::sign_in(region, access).await?;
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let public = || format!("https://{}.{region}.{domain}", service.name());
        let endpoint = endpoint.map_or_else(public, |url| url.trim_end_matches('/').to_owned());
        Ok(Self { service, region: region.to_owned(), endpoint, credentials, identity })
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
        let body = self.service.body(name, version).to_string();
        let answer = calls.send(|client| self.signed(client, &body)).await?;
        let what = format!("`{name}` cannot be read in {}", self.region);
        match self.service {
            Service::Ssm => Ok(answer.read::<ParameterValue>(&what, said)?.parameter.value.into()),
            Service::SecretsManager => {
                let SecretValue { secret_string, secret_binary } = answer.read(&what, said)?;
                let binary = || {
                    let bytes = STANDARD.decode(secret_binary?).ok()?;
                    String::from_utf8(bytes).ok()
                };
                let text = secret_string.or_else(binary);
                let text =
                    text.ok_or_else(|| CallError::Refused(format!("{what}: it is not UTF-8")))?;
                Ok(text.into())
            }
        }
    }

    /// A request with a signature of now: one that is sent again needs a new one.
    fn signed(
        &self,
        client: &reqwest::Client,
        body: &str,
    ) -> Result<reqwest::RequestBuilder, CallError> {
        let unsigned = |error: &dyn std::fmt::Display| {
            CallError::Refused(format!("the request cannot be signed: {error}"))
        };
        let url = format!("{}/", self.endpoint);
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", self.service.target()),
        ];
        let identity = self.credentials.clone().into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service.name())
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?;
        let body_to_sign = SignableBody::Bytes(body.as_bytes());
        let signable = SignableRequest::new("POST", &url, headers.into_iter(), body_to_sign)
            .map_err(|error| unsigned(&error))?;
        let signed = sign(signable, &parameters.into()).map_err(|error| unsigned(&error))?;
        let (instructions, _) = signed.into_parts();
        let mut request = client.post(&url).body(body.to_owned());
        for (name, value) in headers.into_iter().chain(instructions.headers()) {
            request = request.header(name, value);
        }
        Ok(request)
    }
}

/// The code and the message of a refusal.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body["__type"].as_str().unwrap_or_default();
    let code = code.rsplit('#').next().unwrap_or(code);
    let message = body["message"].as_str().or_else(|| body["Message"].as_str()).unwrap_or_default();
    Some(
        [code, message]
            .iter()
            .filter(|text| !text.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(": "),
    )
}
