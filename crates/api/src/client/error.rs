//! Errors of the client.
//!
//! Only a refusal in Canyon's own form is a decision of Canyon. Every other answer comes from a
//! proxy or gateway and says nothing about the request, so the caller retries.

use crate::error::ErrorBody;
use crate::nonce::REPEATED;
use serde_json::Value;
use std::time::Duration;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer: wrong address, no network, or the server is down.
    #[error(
        "cannot reach Canyon at {url}; check that it is running and that CANYON_API_URL is right"
    )]
    Unreachable {
        /// Address of Canyon.
        url: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// The connection ended in the middle of an answer.
    #[error("the connection to {host} ended before the answer was complete")]
    Interrupted {
        /// The host that answered.
        host: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// No data came for too long, before or in the middle of an answer.
    #[error("{host} sent no data for {seconds} s")]
    NoData {
        /// The host that should have answered.
        host: String,
        /// Duration without data.
        seconds: u64,
    },
    /// No answer from the object store.
    #[error(
        "cannot reach the object store at {host}, where Canyon keeps large archives; check that the \
         network of this machine allows it"
    )]
    ObjectStoreUnreachable {
        /// Host of the object store.
        host: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// The object store, or a proxy before it, rejected a presigned URL. Its message is XML and not
    /// shown.
    #[error(
        "the object store at {host}, where Canyon keeps large archives, answered with status {status}"
    )]
    ObjectStore {
        /// The host that answered.
        host: String,
        /// The status code.
        status: u16,
    },
    /// Canyon refused the request.
    #[error("{}{}", body.message, request(*status, body))]
    Refused {
        /// The status code.
        status: u16,
        /// Canyon's message and details.
        body: Box<ErrorBody>,
        /// The pause before a retry that Canyon asks for.
        retry_after: Option<Duration>,
    },
    /// The answer is not in Canyon's form: it comes from a proxy, a gateway or a sign-in page.
    #[error("the answer from {url} is not Canyon's (status {status}, {reason})")]
    NotCanyon {
        /// Address of Canyon.
        url: String,
        /// The status code. It says nothing about Canyon's decision.
        status: u16,
        /// Why the answer cannot be Canyon's.
        reason: String,
        /// The pause before a retry that the gateway asks for.
        retry_after: Option<Duration>,
    },
    /// This machine cannot make requests.
    #[error("cannot set up an HTTP client on this machine")]
    Setup(#[source] reqwest::Error),
}

impl ClientError {
    // reqwest repeats the whole URL in its errors; ours is shown once, and a presigned one never.
    pub(super) fn unreachable(url: &str, source: reqwest::Error) -> Self {
        Self::Unreachable { url: url.to_owned(), source: source.without_url() }
    }

    pub(super) fn interrupted(host: &str, source: reqwest::Error) -> Self {
        Self::Interrupted { host: host.to_owned(), source: source.without_url() }
    }

    pub(super) fn not_canyon(url: &str, status: u16, reason: impl Into<String>) -> Self {
        let (url, reason) = (url.to_owned(), reason.into());
        Self::NotCanyon { url, status, reason, retry_after: None }
    }

    /// The error for an answer that is not a success.
    pub(super) fn refused(url: &str, status: u16, answer: &[u8]) -> Self {
        match ErrorBody::of_answer(status, answer) {
            Some(body) => Self::Refused { status, body: Box::new(body), retry_after: None },
            None => Self::not_canyon(url, status, "it has no error code of Canyon"),
        }
    }

    /// The same error with the pause that the answer asks for.
    pub(super) fn with_retry_after(mut self, pause: Option<Duration>) -> Self {
        if let Self::Refused { retry_after, .. } | Self::NotCanyon { retry_after, .. } = &mut self {
            *retry_after = pause;
        }
        self
    }

    /// The pause before a retry that Canyon asks for, or a gateway in its place; at most
    /// [`super::MAX_RETRY_AFTER`].
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::NotCanyon { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::NoData { .. }
            | Self::ObjectStoreUnreachable { .. }
            | Self::ObjectStore { .. }
            | Self::Setup(_) => None,
        }
    }

    /// Whether the network has damaged the request; see [`ErrorBody::was_changed_by_the_network`].
    pub fn blames_the_network(&self) -> bool {
        self.refusal().is_some_and(|(_, body)| body.was_changed_by_the_network())
    }

    /// The status code, if Canyon itself has answered.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|(status, _)| status)
    }

    /// Whether Canyon, or a proxy, rejected the request as too large.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { status: 413, .. } | Self::NotCanyon { status: 413, .. })
    }

    /// The kind of refusal, for programs: such as `session_superseded`, `rejected`,
    /// `another_agent`, `clock` or `contended`.
    pub fn code(&self) -> Option<&str> {
        self.refusal().and_then(|(_, body)| body.details.get("code")?.as_str())
    }

    /// Whether the details of the refusal have `name: true`.
    pub fn has_detail(&self, name: &str) -> bool {
        self.refusal().is_some_and(|(_, body)| body.details.get(name) == Some(&Value::Bool(true)))
    }

    fn refusal(&self) -> Option<(u16, &ErrorBody)> {
        match self {
            Self::Refused { status, body, .. } => Some((*status, body)),
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::NoData { .. }
            | Self::ObjectStoreUnreachable { .. }
            | Self::ObjectStore { .. }
            | Self::NotCanyon { .. }
            | Self::Setup(_) => None,
        }
    }

    /// The attempt of the refusal, if it is an answer to a runner.
    pub fn attempt(&self) -> Option<&str> {
        self.refusal().and_then(|(_, body)| body.details.get("of")?.as_str())
    }

    /// Whether Canyon has refused a runner's call for good. A refusal without an attempt answers
    /// another request than the one that was sent.
    pub fn is_final(&self) -> bool {
        !self.is_retryable() && (self.status().is_none() || self.attempt().is_some())
    }

    /// Whether a retry may succeed: the outcome of this call is unknown, or concurrent requests
    /// caused the refusal. The call must be idempotent.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::NoData { .. }
            | Self::ObjectStoreUnreachable { .. }
            | Self::ObjectStore { .. }
            | Self::NotCanyon { .. } => true,
            Self::Refused { status, body, .. } => {
                // Canyon's clients use no other method and no other media type, so a proxy caused
                // 405 or 415.
                matches!(status, 405 | 415 | 429 | 500..=599)
                    || matches!(self.code(), Some("contended" | REPEATED))
                    || body.was_changed_by_the_network()
            }
            Self::Setup(_) => false,
        }
    }

    /// Whether Canyon itself failed: its own log has the cause.
    pub fn is_server_error(&self) -> bool {
        matches!(self.status(), Some(500..=599))
    }
}

/// Names the failed request, so that an administrator can find it in the log.
fn request(status: u16, body: &ErrorBody) -> String {
    let id = body.request_id.as_ref().filter(|_| status >= 500);
    id.map_or_else(String::new, |id| format!(" (request {id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_answer_is_retryable_with_every_status_and_a_refusal_of_canyon_is_not() {
        for status in [302, 400, 401, 403, 404, 408, 409, 413, 500, 503] {
            for foreign in ["<html>", "", r#"{"message":"Not Found"}"#] {
                let error = ClientError::refused("http://canyon", status, foreign.as_bytes());
                assert!(error.is_retryable() && error.status().is_none(), "{error:?}");
            }
            let canyons = format!(r#"{{"error": "API-{status}", "message": "no"}}"#);
            let error = ClientError::refused("http://canyon", status, canyons.as_bytes());
            assert_eq!((error.status(), error.is_retryable()), (Some(status), status >= 500));
            assert!(!error.is_final(), "it names no attempt");
        }
    }

    #[test]
    fn a_request_that_the_network_changed_is_retryable() {
        for (status, code) in [(400, "incomplete"), (408, "incomplete"), (401, "no_token")] {
            let canyons = format!(
                r#"{{"error": "API-{status}", "message": "no", "details": {{"code": "{code}"}}}}"#
            );
            let error = ClientError::refused("http://canyon", status, canyons.as_bytes());
            assert!(error.is_retryable(), "{error:?}");
        }
    }

    #[test]
    fn a_contended_request_is_retryable() {
        let contended =
            r#"{"error": "API-409", "message": "try again", "details": {"code": "contended"}}"#;
        let error = ClientError::refused("http://canyon", 409, contended.as_bytes());
        assert!(error.is_retryable(), "{error:?}");
    }
}
