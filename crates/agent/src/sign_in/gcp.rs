//! A token from Google Cloud's metadata server ("Verify the identity of a VM", Compute Engine
//! documentation).

use super::SignInError;
use super::source::MAX_LENGTH;
use canyon_domain::causes::Causes;
use secrecy::SecretString;
use std::time::Duration;

const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/identity";
const TIMEOUT: Duration = Duration::from_secs(5);

/// Google Cloud's metadata server.
#[derive(Clone, Debug)]
pub struct GcpMetadata {
    http: reqwest::Client,
    host: String,
    audience: String,
}

impl GcpMetadata {
    /// The server at `host`, for tokens with `audience`. Sends no request yet.
    ///
    /// # Errors
    ///
    /// [`SignInError`] when this machine cannot make requests.
    pub fn new(host: &str, audience: &str) -> Result<Self, SignInError> {
        // Without a proxy, because the server belongs to this machine.
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| SignInError(Causes(&error).to_string()))?;
        Ok(Self { http, host: host.to_owned(), audience: audience.to_owned() })
    }

    pub(super) async fn token(&self) -> Result<SecretString, SignInError> {
        let failed = |reason: String| {
            SignInError(format!("Google Cloud's metadata server at `{}`: {reason}", self.host))
        };
        let request = self
            .http
            .get(format!("http://{}{PATH}", self.host))
            .query(&[("audience", self.audience.as_str()), ("format", "full")])
            .header("Metadata-Flavor", "Google");
        let response = request
            .send()
            .await
            .map_err(|error| failed(Causes(&error.without_url()).to_string()))?;
        if !response.status().is_success() {
            return Err(failed(format!("it answers with status {}", response.status())));
        }
        let mut response = response;
        let mut bytes = Vec::new();
        let unread = |error: reqwest::Error| failed(Causes(&error.without_url()).to_string());
        while let Some(chunk) = response.chunk().await.map_err(unread)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_LENGTH {
                return Err(failed("its answer is too long for a token".to_owned()));
            }
        }
        let text =
            String::from_utf8(bytes).map_err(|_| failed("its answer is not text".to_owned()))?;
        Ok(text.trim().to_owned().into())
    }
}
