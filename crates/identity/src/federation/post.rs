//! One POST to a cloud: bounded in time and size, repeated when the cloud is not well, and never
//! sent on to where an answer points.

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use std::error::Error;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const TRY: Duration = Duration::from_secs(15);
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The largest answer: tokens have a few KiB.
const MOST: usize = 256 * 1024;

/// What a cloud answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A client for [`post`].
///
/// # Errors
///
/// Says why there is none, such as that the machine has no root certificates.
pub(super) fn client() -> Result<Client, String> {
    let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT).timeout(TRY);
    client.build().map_err(|error| reason(&error))
}

/// The answer to `request`, which is made anew for each try.
///
/// # Errors
///
/// Says why there is no answer.
pub(super) async fn post(request: impl Fn() -> RequestBuilder) -> Result<Answer, String> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
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
        if body.len() + piece.len() > MOST {
            return Err(format!("its answer is longer than {MOST} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The innermost cause: the outer ones say no more than that the call failed.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
