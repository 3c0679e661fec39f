//! Reads a cloud's answers about a cluster.

use crate::{DispatchError, Target};
use canyon_domain::failure::FailureClass;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The maximum number of characters that are quoted of an answer.
const QUOTED: usize = 500;
/// The maximum number of bytes of an answer: a cluster's description has some tens of thousands.
const MAX_BODY: usize = 1024 * 1024;

/// Sends `request` and reads the answer; `what` describes the request in messages.
///
/// # Errors
///
/// With the cloud's own message, which names the missing permission or object. Nothing was started.
pub(super) async fn read<T: DeserializeOwned>(
    target: &Target,
    what: &str,
    request: reqwest::RequestBuilder,
) -> Result<T, DispatchError> {
    let doing = format!("runner `{}`: cannot {what}", target.runner_id);
    let later = |class, reason: String| {
        DispatchError::later(class, format!("{doing}: {reason}"), RETRY_PAUSE)
    };
    let lost = |error: reqwest::Error| {
        // Without the URL, which the error repeats.
        let mut reason = error.without_url().to_string();
        if reason.is_empty() {
            "no answer".clone_into(&mut reason);
        }
        later(FailureClass::Lost, reason)
    };
    let mut answer = request.timeout(TIMEOUT).send().await.map_err(lost)?;
    let status = answer.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(later(FailureClass::Lost, "the answer is too long".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&body);
    match status {
        200..=299 => serde_json::from_str(&text)
            .map_err(|_| later(FailureClass::Lost, "the answer cannot be read".to_owned())),
        429 => Err(later(FailureClass::Throttled, words(&text))),
        408 | 500.. => Err(later(FailureClass::Lost, format!("{status}: {}", words(&text)))),
        _ => {
            let message = format!("{doing}: {status}: {}", words(&text));
            Err(DispatchError::refused(FailureClass::Config, message))
        }
    }
}

/// The cloud's message: Google and Azure put it into `error.message`.
fn words(text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let message = parsed.as_ref().and_then(|answer| {
        answer.pointer("/error/message").or_else(|| answer.pointer("/message"))?.as_str()
    });
    let message: String = message.unwrap_or(text).chars().filter(|c| !c.is_control()).collect();
    message.chars().take(QUOTED).collect()
}
