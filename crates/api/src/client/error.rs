//! What can go wrong between a client and the API.

use crate::error::ErrorBody;
use serde_json::Map;

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
    /// Canyon answered that it will not.
    #[error("{}{}", body.message, request(*status, body))]
    Refused {
        /// The status code.
        status: u16,
        /// Its words.
        body: Box<ErrorBody>,
    },
    /// Something answered, but not as Canyon does.
    #[error("the answer from {url} is not Canyon's; does CANYON_API_URL point to it?")]
    Unreadable {
        /// Who answered.
        url: String,
        /// What could not be read.
        #[source]
        source: reqwest::Error,
    },
    /// This machine cannot make requests.
    #[error("cannot set up an HTTP client on this machine")]
    Setup(#[source] reqwest::Error),
}

impl ClientError {
    pub(super) fn unreachable(url: &str, source: reqwest::Error) -> Self {
        // reqwest repeats the whole address in its error; ours is said once.
        Self::Unreachable { url: url.to_owned(), source: source.without_url() }
    }

    pub(super) fn unreadable(url: &str, source: reqwest::Error) -> Self {
        Self::Unreadable { url: url.to_owned(), source: source.without_url() }
    }

    pub(super) fn refused(status: u16, text: &str) -> Self {
        let body = serde_json::from_str(text).unwrap_or_else(|_| ErrorBody {
            error: format!("HTTP-{status}"),
            message: format!("the server answered with status {status}"),
            details: Map::new(),
            request_id: None,
        });
        Self::Refused { status, body: Box::new(body) }
    }

    /// The object store answered that it will not. Its words are XML, and not for people.
    pub(super) fn refused_by_object_store(status: u16) -> Self {
        let body = ErrorBody {
            error: format!("HTTP-{status}"),
            message: format!("the object store answered with status {status}"),
            details: Map::new(),
            request_id: None,
        };
        Self::Refused { status, body: Box::new(body) }
    }

    /// The status code, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable { .. }
            | Self::NoObjectStore { .. }
            | Self::Unreadable { .. }
            | Self::Setup(_) => None,
        }
    }

    /// Whether the same call may succeed later: the outcome of this one is unknown, so it must be
    /// one that may be repeated.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NoObjectStore { .. } | Self::Unreadable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 500 | 502 | 503 | 504),
            Self::Setup(_) => false,
        }
    }
}

/// Which request failed, for whoever will look into the log.
fn request(status: u16, body: &ErrorBody) -> String {
    let id = body.request_id.as_ref().filter(|_| status >= 500);
    id.map_or_else(String::new, |id| format!(" (request {id})"))
}
