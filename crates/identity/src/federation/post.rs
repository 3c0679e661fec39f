//! One POST to a cloud: limited in time and size, retried when the cloud fails, and without
//! redirects.

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use std::error::Error;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_ATTEMPTS: u32 = 3;
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Largest answer, in bytes: tokens have a few KiB.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Answer of a cloud.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A client for [`post`].
///
/// # Errors
///
/// The reason, such as that the machine has no root certificates.
pub(super) fn client() -> Result<Client, String> {
    let client = Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(ATTEMPT_TIMEOUT);
    client.build().map_err(|error| reason(&error))
}

/// Sends `request`, which is built again for each try.
///
/// # Errors
///
/// The reason why there is no answer.
pub(super) async fn post(request: impl Fn() -> RequestBuilder) -> Result<Answer, String> {
    let mut pause = FIRST_RETRY_DELAY;
    for _ in 1..MAX_ATTEMPTS {
        match once(request()).await {
            Ok(answer) if answer.status < 500 => return Ok(answer),
            Ok(_) | Err(_) => tokio::time::sleep(pause).await,
        }
        pause *= 4;
    }
    once(request()).await
}

async fn once(request: RequestBuilder) -> Result<Answer, String> {
    let response = request.send().await.map_err(|error| reason(&error))?;
    let status = response.status().as_u16();
    Ok(Answer { status, body: body(response).await? })
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
        if body.len() + piece.len() > MAX_ANSWER_BYTES {
            return Err(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The innermost cause: the outer ones only state that the call failed.
pub(crate) fn reason(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
