//! Why a use case did not do what the caller asked: the one error of all use cases.
//!
//! The edges render it: `http/error.rs` as a status code and a JSON body, the function `events` as a
//! `deployment.rejected` event.

use canyon_domain::causes::Causes;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::lifecycle::Refused;
use canyon_identity::master_keys::MasterKeyError;
use canyon_store::StoreError;
use canyon_store::page::InvalidCursor;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// How long a caller waits before it retries after a throttled store or key service. Their limits are per second.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Fields of the request are at fault: [`AppError::fields`] names them.
    Invalid,
    /// The caller has not proved who it is.
    Unauthenticated,
    /// The caller may not do this.
    Denied,
    /// The thing does not exist, or the caller may not see it.
    NotFound,
    /// The request contradicts what exists.
    Conflict,
    /// Other callers changed the same object in each try. The same request may succeed in a moment.
    Contended,
    /// The caller asks too often.
    TooMany,
    /// A service that Canyon needs does not answer at the moment.
    Unavailable,
    /// Canyon failed. The log has the cause.
    Internal,
}

/// A refusal or a failure of a use case. Boxed, because every result of a use case has room for one.
#[derive(Debug)]
pub struct AppError(Box<Parts>);

#[derive(Debug)]
struct Parts {
    kind: ErrorKind,
    message: String,
    fields: FieldErrors,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

impl AppError {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            message: message.into(),
            fields: FieldErrors::default(),
            details: Map::new(),
            retry_after: None,
        }))
    }

    /// The caller may ask again after `pause`.
    #[must_use]
    pub fn retried_after(mut self, pause: Duration) -> Self {
        self.0.retry_after = Some(pause);
        self
    }

    /// The field at `path` of the request is at fault.
    pub fn invalid(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let mut errors = FieldErrors::default();
        errors.add(path, reason);
        errors.into()
    }

    /// The caller shows no token, or one that is not valid. The message does not say which: that would help to
    /// guess tokens.
    pub fn unauthorized() -> Self {
        Self::unauthenticated("this needs a valid token: send `Authorization: Bearer <token>`")
    }

    /// The caller has not proved who it is; `message` says what is wrong with its proof.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unauthenticated, message)
    }

    /// The caller may not do this.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// There is no such thing, or it belongs to another organization. Both look the same, so that a caller does not
    /// learn what others have.
    pub fn not_found(kind: &str, id: impl fmt::Display) -> Self {
        Self::missing(format!("there is no {kind} `{id}`"))
    }

    /// The same with a message of its own.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The request contradicts what exists.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// The field at `path` names something that does not exist. The published API calls that a conflict.
    pub fn absent(path: &str, reason: String) -> Self {
        let mut error = Self::conflict(&reason);
        error.0.fields.add(path, reason);
        error
    }

    /// Other callers changed `thing` in each try.
    pub fn contended(thing: impl fmt::Display) -> Self {
        let message = format!("`{thing}` is being changed by others; try again");
        Self::new(ErrorKind::Contended, message).with_detail("code", "contended")
    }

    /// The caller asks too often; it may ask again after `pause`.
    pub fn too_many(message: impl Into<String>, pause: Duration) -> Self {
        Self::new(ErrorKind::TooMany, message).retried_after(pause)
    }

    /// A service that Canyon needs does not answer at the moment.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message).retried_after(BUSY_PAUSE)
    }

    /// Canyon failed. The message does not say how: the log does.
    pub fn internal() -> Self {
        Self::new(ErrorKind::Internal, "Canyon failed; its log has the cause")
    }

    /// The same with a member for programs.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened, to which thing, and what to do next.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The fields of the request that are at fault.
    pub fn fields(&self) -> &FieldErrors {
        &self.0.fields
    }

    /// Members for programs.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// After which pause the same request may succeed, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same request may succeed later: Canyon failed, or other callers were in the way.
    pub fn is_transient(&self) -> bool {
        match self.0.kind {
            ErrorKind::Contended | ErrorKind::Unavailable | ErrorKind::Internal => true,
            ErrorKind::Invalid
            | ErrorKind::Unauthenticated
            | ErrorKind::Denied
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::TooMany => false,
        }
    }

    /// Whether Canyon failed, or a service that it needs: nothing is known of the request itself.
    pub fn is_failure(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::Internal)
    }
}

impl From<FieldErrors> for AppError {
    fn from(fields: FieldErrors) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, fields.to_string());
        error.0.fields = fields;
        error
    }
}

impl From<InvalidCursor> for AppError {
    fn from(error: InvalidCursor) -> Self {
        Self::invalid("page", error.to_string())
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            tracing::warn!(error = %Causes(&error), "the store is not available");
            return Self::unavailable(error.to_string());
        }
        // The caller has sent the large item, in one request or in several.
        if let StoreError::TooLarge { part, .. } = &error {
            return Self::invalid(part, format!("is too large: {error}"));
        }
        tracing::error!(error = %Causes(&error), "the store failed");
        Self::internal()
    }
}

impl From<MasterKeyError> for AppError {
    fn from(error: MasterKeyError) -> Self {
        tracing::error!(error = %Causes(&error), "no master key");
        if error.is_retryable {
            return Self::unavailable("the key that seals secrets does not answer; try again");
        }
        Self::internal()
    }
}

impl From<Refused> for AppError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::WrongCode => Self::unauthorized(),
            Refused::Superseded | Refused::ClaimedByAnother => Self::conflict(refused.to_string()),
        }
    }
}
