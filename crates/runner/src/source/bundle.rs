//! Fetches the module's archive from Canyon, or from the address that Canyon names.
//!
//! A proxy or gateway may answer in their place. A refusal of Canyon is final. After any other error, and after an
//! archive with another digest, the runner retries for a while and logs the reason.

use super::{SourceError, archive};
use crate::{backoff::Backoff, log::Log};
use canyon_api::client::ClientError;
use canyon_domain::causes::Causes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the runner retries a fetch: longer than the restart of a server takes, and short enough that a person who
/// waits for the deployment learns the reason.
const FETCH_TIME: Duration = Duration::from_mins(2);

/// Fetches the archive until it has the SHA-256 `digest`.
///
/// # Errors
///
/// Canyon's refusal, or the last error when the retries did not help: [`SourceError::Unusable`] if Canyon itself
/// reported an internal failure, else [`SourceError::Unreachable`].
pub async fn fetch<B: AsRef<[u8]> + Send + 'static>(
    ask: impl AsyncFn() -> Result<B, ClientError>,
    digest: Option<&str>,
    log: &mut Log,
) -> Result<B, SourceError> {
    let deadline = Instant::now() + FETCH_TIME;
    let (mut backoff, mut logged) = (Backoff::default(), None);
    loop {
        let error = match ask().await {
            Ok(bytes) => match checked(bytes, digest).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            },
            Err(error) => {
                let text = format!("cannot fetch the module: {}", Causes(&error));
                if error.is_final() {
                    return Err(SourceError::Unusable(text));
                }
                if error.is_server_error() {
                    SourceError::Unusable(text)
                } else {
                    SourceError::Unreachable(text)
                }
            }
        };
        if Instant::now() >= deadline {
            return Err(error);
        }
        let text = error.to_string();
        if logged.as_ref() != Some(&text) {
            log.warn(&format!("{text}; retrying for {} s", FETCH_TIME.as_secs()));
            log.flush();
            logged = Some(text);
        }
        sleep(backoff.pause()).await;
    }
}

/// Checks the digest on a thread of its own, because reports must continue in the meantime.
async fn checked<B: AsRef<[u8]> + Send + 'static>(
    bytes: B,
    digest: Option<&str>,
) -> Result<B, SourceError> {
    let Some(digest) = digest.map(str::to_owned) else { return Ok(bytes) };
    let checking = tokio::task::spawn_blocking(move || {
        archive::check_digest(bytes.as_ref(), &digest).map(|()| bytes)
    });
    let interrupted = || Err(SourceError::Unusable("the checking was interrupted".to_owned()));
    checking.await.unwrap_or_else(|_| interrupted())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Mask;
    use canyon_api::error::ErrorBody;
    use canyon_domain::failure::{Failure, FailureClass};
    use canyon_domain::job::LogLevel;
    use sha2::{Digest as _, Sha256};
    use std::cell::Cell;

    struct Fetched {
        result: Result<Vec<u8>, Failure>,
        log: String,
        took: Duration,
    }

    /// Fetches with a paused clock, which jumps over the pauses.
    async fn fetched(ask: impl AsyncFn() -> Result<Vec<u8>, ClientError>, digest: &str) -> Fetched {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new(file.reopen().unwrap(), Mask::default(), None, LogLevel::Info);
        let began = Instant::now();
        let result = fetch(ask, Some(digest), &mut log).await.map_err(Failure::from);
        let log = std::fs::read_to_string(file.path()).unwrap();
        Fetched { result, log, took: began.elapsed() }
    }

    fn canyons(status: u16) -> ClientError {
        let body = format!(
            r#"{{"error": "API-{status}", "message": "something went wrong", "details": {{"of": "d/1"}}}}"#
        );
        let body = ErrorBody::of_answer(status, body.as_bytes()).unwrap();
        ClientError::Refused { status, body: Box::new(body), retry_after: None }
    }

    fn foreign(status: u16) -> ClientError {
        let (url, reason) = ("http://canyon".to_owned(), "html".to_owned());
        ClientError::NotCanyon { url, status, reason, retry_after: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_keeps_failing_ends_the_job_within_minutes_and_the_log_has_the_reason() {
        for (error, class, reason) in [
            (canyons as fn(u16) -> ClientError, FailureClass::Config, "something went wrong"),
            (foreign, FailureClass::Unreachable, "status 500"),
        ] {
            let fetched = fetched(async || Err(error(500)), "no matter").await;
            let failure = fetched.result.unwrap_err();
            assert_eq!(failure.class, class, "{failure:?}");
            assert!(failure.message.contains(reason), "{failure:?}");
            assert!(fetched.took < Duration::from_mins(3), "{:?}", fetched.took);
            assert_eq!(
                fetched.log.matches("cannot fetch the module").count(),
                1,
                "{}",
                fetched.log
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_archive_with_another_digest_is_fetched_again_and_a_refusal_is_final() {
        let digest = hex::encode(Sha256::digest(b"the module"));
        let tries = Cell::new(0);
        let ask = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Ok(b"<html>".to_vec()),
                2 => Err(foreign(403)),
                _ => Ok(b"the module".to_vec()),
            }
        };
        assert_eq!(fetched(ask, &digest).await.result.unwrap(), b"the module");
        assert_eq!(tries.get(), 3);
        let refused = fetched(async || Err(canyons(409)), &digest).await;
        assert_eq!(refused.result.unwrap_err().class, FailureClass::Config);
        assert_eq!(refused.took, Duration::ZERO);
    }
}
