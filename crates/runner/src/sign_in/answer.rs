//! Calls to servers: limited in time and size, repeated when a server fails, and without redirects, which could carry a
//! token to another host.

use super::CallError;
use canyon_domain::causes::Causes;
use canyon_domain::failure::shortened_to;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(300);
/// The largest answer, in bytes. A variable has at most 64 KiB, and may be a member of a larger secret.
const MAX_BYTES: usize = 1024 * 1024;
/// The most characters of a server's message that are kept.
const LONGEST: usize = 300;

/// Makes calls.
pub(crate) struct Calls(Client);

/// What a server answered.
pub(crate) struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Calls {
    /// # Errors
    ///
    /// The reason, such as that the machine has no root certificates.
    pub(crate) fn new() -> Result<Self, String> {
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let client = client.timeout(ATTEMPT_TIMEOUT).build();
        client.map(Self).map_err(|error| format!("TLS cannot be used: {}", Causes(&error)))
    }

    /// The same for a server whose certificate another authority has issued.
    pub(crate) fn trusting(authority: &[u8]) -> Result<Self, String> {
        let unusable = |error| format!("the authority cannot be used: {}", Causes(&error));
        let authority = reqwest::Certificate::from_pem(authority).map_err(unusable)?;
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let client = client.timeout(ATTEMPT_TIMEOUT).add_root_certificate(authority).no_proxy();
        client.build().map(Self).map_err(unusable)
    }

    /// Sends what `request` builds, again if the server fails or asks to wait.
    pub(crate) async fn send(
        &self,
        request: impl Fn(&Client) -> Result<RequestBuilder, CallError>,
    ) -> Result<Answer, CallError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match once(request(&self.0)?).await {
                Ok(answer) if answer.status < 500 && answer.status != 429 => return Ok(answer),
                Ok(_) | Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 3;
        }
        once(request(&self.0)?).await
    }
}

async fn once(request: RequestBuilder) -> Result<Answer, CallError> {
    let failed = |error: reqwest::Error| {
        let host = error.url().and_then(|url| url.host_str()).unwrap_or("the server").to_owned();
        CallError::Unreachable(format!("{host} does not answer: {}", Causes(&error.without_url())))
    };
    let response = request.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    Ok(Answer { status, body: body(response).await? })
}

async fn body(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    let broken = |error: reqwest::Error| {
        CallError::Unreachable(format!("the answer broke off: {}", Causes(&error.without_url())))
    };
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > MAX_BYTES {
            return Err(CallError::Refused(format!("the answer has more than {MAX_BYTES} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The content of a success. `message` takes the server's reason out of a refusal.
    ///
    /// # Errors
    ///
    /// [`CallError`] with `what` was refused and the server's reason; never with the content of a success.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        what: &str,
        message: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<T, CallError> {
        let status = self.status;
        if (200..300).contains(&status) {
            let unknown =
                || CallError::Refused(format!("{what}: the answer is not what this server gives"));
            return serde_json::from_slice(&self.body).map_err(|_| unknown());
        }
        let said = message(&self.body).filter(|text| !text.trim().is_empty());
        let said = said
            .map_or_else(String::new, |text| format!(": {}", shortened_to(text.trim(), LONGEST)));
        let reason = format!("{what}: the answer is {status}{said}");
        Err(if status >= 500 || status == 429 {
            CallError::Unreachable(reason)
        } else {
            CallError::Refused(reason)
        })
    }
}
