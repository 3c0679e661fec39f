//! What can go wrong between a client and the API.
//!
//! Only a refusal in Canyon's own form says what Canyon decided. Every other answer comes from
//! something on the way, and says nothing about the request: it is asked again.

use crate::ask::REPEATED;
use crate::error::ErrorBody;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer came: wrong address, no network, or the server is down.
    #[error("cannot reach Canyon at {url}; is it running, and is CANYON_API_URL right?")]
    Unreachable {
        /// Where it was expected.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// An answer began, and the connection ended before it was whole.
    #[error("the answer from {host} broke off")]
    BrokenOff {
        /// Who answered.
        host: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// An answer began, or was waited for, and nothing more came.
    #[error("nothing came from {host} for {seconds} s")]
    Silent {
        /// Who was to answer.
        host: String,
        /// For how long.
        seconds: u64,
    },
    /// No answer came from where Canyon keeps what is large.
    #[error(
        "cannot reach the object store at {host}, where Canyon keeps large archives; does the \
         network of this machine allow it?"
    )]
    NoObjectStore {
        /// Where it was expected.
        host: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The object store, or a proxy before it, did not take a signed address. Its words are XML, and
    /// not for people.
    #[error(
        "the object store at {host}, where Canyon keeps large archives, answered with status {status}"
    )]
    ObjectStore {
        /// Who answered.
        host: String,
        /// The status code.
        status: u16,
    },
    /// Canyon answered that it will not.
    #[error("{}{}", body.message, request(*status, body))]
    Refused {
        /// The status code.
        status: u16,
        /// Its words.
        body: Box<ErrorBody>,
    },
    /// Something answered, but not as Canyon does: a proxy, a gateway, a sign-in page.
    #[error("the answer from {url} is not Canyon's (status {status}, {reason})")]
    Foreign {
        /// Where Canyon was expected.
        url: String,
        /// The status code. It says nothing about what Canyon would answer.
        status: u16,
        /// What about it is not Canyon's.
        reason: String,
    },
    /// This machine cannot make requests.
    #[error("cannot set up an HTTP client on this machine")]
    Setup(#[source] reqwest::Error),
}

impl ClientError {
    // reqwest repeats the whole address in its errors; ours is said once, and a signed one never.
    pub(super) fn unreachable(url: &str, source: reqwest::Error) -> Self {
        Self::Unreachable { url: url.to_owned(), source: source.without_url() }
    }

    pub(super) fn broken_off(host: &str, source: reqwest::Error) -> Self {
        Self::BrokenOff { host: host.to_owned(), source: source.without_url() }
    }

    pub(super) fn foreign(url: &str, status: u16, reason: impl Into<String>) -> Self {
        Self::Foreign { url: url.to_owned(), status, reason: reason.into() }
    }

    /// An answer that is not a success.
    pub(super) fn refused(url: &str, status: u16, answer: &[u8]) -> Self {
        match ErrorBody::of_answer(status, answer) {
            Some(body) => Self::Refused { status, body: Box::new(body) },
            None => Self::foreign(url, status, "no error of Canyon's"),
        }
    }

    /// The status code, if Canyon itself has answered.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|(status, _)| status)
    }

    /// Whether Canyon, or something on the way, found the request too large.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { status: 413, .. } | Self::Foreign { status: 413, .. })
    }

    /// Which refusal it is, for programs: such as `session_superseded`, `rejected`, `another_agent`,
    /// `clock` or `contended`.
    pub fn code(&self) -> Option<&str> {
        self.refusal().and_then(|(_, body)| body.details.get("code")?.as_str())
    }

    fn refusal(&self) -> Option<(u16, &ErrorBody)> {
        match self {
            Self::Refused { status, body } => Some((*status, body)),
            Self::Unreachable { .. }
            | Self::BrokenOff { .. }
            | Self::Silent { .. }
            | Self::NoObjectStore { .. }
            | Self::ObjectStore { .. }
            | Self::Foreign { .. }
            | Self::Setup(_) => None,
        }
    }

    /// Of which attempt the refusal says that it is, if it is the answer to a runner.
    pub fn of(&self) -> Option<&str> {
        self.refusal().and_then(|(_, body)| body.details.get("of")?.as_str())
    }

    /// Whether Canyon has refused a runner's call for good. A refusal that does not say for which attempt it is answers
    /// another request than the one that was sent.
    pub fn is_final(&self) -> bool {
        !self.is_retryable() && (self.status().is_none() || self.of().is_some())
    }

    /// Whether the same call may succeed later: the outcome of this one is unknown, or others were
    /// in its way. It must be one that may be repeated.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::BrokenOff { .. }
            | Self::Silent { .. }
            | Self::NoObjectStore { .. }
            | Self::ObjectStore { .. }
            | Self::Foreign { .. } => true,
            Self::Refused { status, body } => {
                // No client of Canyon's asks with another method, or sends another kind of body.
                matches!(status, 405 | 415 | 429 | 500..=599)
                    || matches!(self.code(), Some("contended" | REPEATED))
                    || body.blames_the_network()
            }
            Self::Setup(_) => false,
        }
    }

    /// Whether Canyon itself said that it failed: its own log has the cause, and nothing on the way
    /// is at fault.
    pub fn is_failure_of_canyon(&self) -> bool {
        matches!(self.status(), Some(500..=599))
    }
}

/// Which request failed, for whoever will look into the log.
fn request(status: u16, body: &ErrorBody) -> String {
    let id = body.request_id.as_ref().filter(|_| status >= 500);
    id.map_or_else(String::new, |id| format!(" (request {id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_answer_is_asked_again_whatever_its_status_and_a_refusal_of_canyons_is_not() {
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
    fn a_request_that_did_not_come_as_it_was_sent_is_sent_again() {
        for (status, code) in [(400, "incomplete"), (408, "incomplete"), (401, "no_token")] {
            let canyons = format!(
                r#"{{"error": "API-{status}", "message": "no", "details": {{"code": "{code}"}}}}"#
            );
            let error = ClientError::refused("http://canyon", status, canyons.as_bytes());
            assert!(error.is_retryable(), "{error:?}");
        }
    }

    #[test]
    fn who_was_only_in_the_way_of_others_asks_again() {
        let contended =
            r#"{"error": "API-409", "message": "try again", "details": {"code": "contended"}}"#;
        let error = ClientError::refused("http://canyon", 409, contended.as_bytes());
        assert!(error.is_retryable(), "{error:?}");
    }
}
