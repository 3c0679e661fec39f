//! The module's archive, from Canyon or from where Canyon says.
//!
//! Whatever is on the way may answer in their place. What Canyon refuses is final; everything else,
//! and an archive that is not the one, is fetched again for a while, and the log says so.

use super::{SourceError, archive};
use crate::{backoff::Backoff, log::Log};
use canyon_api::client::ClientError;
use canyon_domain::causes::Causes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a fetch that fails is repeated: longer than a server takes to come back, and short enough
/// that a person who waits for the deployment learns why.
const FETCH_TIME: Duration = Duration::from_mins(2);

/// Asks for the archive until it comes with this SHA-256.
///
/// # Errors
///
/// What Canyon refused, or the last trouble when repeating did not help: [`SourceError::Unusable`] if
/// Canyon itself said that it failed, else [`SourceError::Unreachable`].
pub async fn fetch<B: AsRef<[u8]> + Send + 'static>(
    ask: impl AsyncFn() -> Result<B, ClientError>,
    digest: Option<&str>,
    log: &mut Log,
) -> Result<B, SourceError> {
    let deadline = Instant::now() + FETCH_TIME;
    let (mut backoff, mut said) = (Backoff::default(), None);
    loop {
        let trouble = match ask().await {
            Ok(bytes) => match checked(bytes, digest).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            },
            Err(error) => {
                let text = format!("cannot fetch the module: {}", Causes(&error));
                if error.is_final() {
                    return Err(SourceError::Unusable(text));
                }
                if error.is_failure_of_canyon() {
                    SourceError::Unusable(text)
                } else {
                    SourceError::Unreachable(text)
                }
            }
        };
        if Instant::now() >= deadline {
            return Err(trouble);
        }
        let text = trouble.to_string();
        if said.as_ref() != Some(&text) {
            log.warn(&format!("{text}; trying again for {} s", FETCH_TIME.as_secs()));
            log.flush();
            said = Some(text);
        }
        sleep(backoff.pause()).await;
    }
}

/// On a thread of its own: reports must go on meanwhile.
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

    /// With a clock that jumps to what is waited for.
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
        ClientError::Refused { status, body: Box::new(body) }
    }

    fn foreign(status: u16) -> ClientError {
        let (url, reason) = ("http://canyon".to_owned(), "html".to_owned());
        ClientError::Foreign { url, status, reason }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_on_and_on_ends_the_job_in_minutes_with_the_reason_and_the_log_says_so() {
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
    async fn an_archive_that_is_not_the_one_is_fetched_again_and_a_refusal_is_final() {
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
