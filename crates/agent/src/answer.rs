//! Reads the answer to an HTTP request, of Canyon or of another server.

use crate::server_clock::ServerClock;
use canyon_domain::causes::Causes;
use reqwest::Response;
use reqwest::header::{DATE, HeaderMap};
use std::time::Duration;

/// The most bytes that are read of an answer. A hundred jobs with their pod templates fit.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Why there is no answer of Canyon.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There was no answer.
    #[error("cannot reach Canyon at {url}: {reason}")]
    Unreachable {
        /// The address of Canyon.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The answer is not Canyon's.
    #[error("the answer from {url} is not Canyon's ({reason}); check CANYON_API_URL")]
    Unreadable {
        /// The address.
        url: String,
        /// What is wrong with the answer.
        reason: String,
    },
}

/// Sets the clock by the answer's `Date`. Returns by how much it was off.
pub(crate) fn set_clock(clock: &ServerClock, headers: &HeaderMap) -> Duration {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    date.map_or(Duration::ZERO, |date| clock.set_by(date))
}

/// The error for a request that failed.
pub(crate) fn unreachable(url: &str, error: reqwest::Error) -> AnswerError {
    // reqwest repeats the whole address, and has the cause only in its sources.
    let error = error.without_url();
    let reason = Causes(&error).to_string();
    AnswerError::Unreachable { url: url.to_owned(), reason }
}

/// The answer's body, up to [`MAX_ANSWER`] bytes.
pub(crate) async fn read(url: &str, mut response: Response) -> Result<Vec<u8>, AnswerError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(url, error))? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            let reason = format!("it has more than {} MiB", MAX_ANSWER / 1024 / 1024);
            return Err(AnswerError::Unreadable { url: url.to_owned(), reason });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
