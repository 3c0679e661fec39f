//! An invocation, and its result.

use bytes::Bytes;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// "Invocation payload (request and response): 6 MB each for request and response (synchronous)".
/// Lambda's own messages name this number of bytes.
pub(super) const SYNCHRONOUS_LIMIT: usize = 6_291_556;
/// "1 MB for each asynchronous invocation".
pub(super) const ASYNCHRONOUS_LIMIT: usize = 1024 * 1024;

/// The input of an invocation.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// `Lambda-Runtime-Aws-Request-Id`. A retried asynchronous event keeps it.
    pub request_id: String,
    /// The event.
    pub payload: Bytes,
    /// The position of this invocation among those of the function, from 1.
    pub number: u64,
    /// Whether a process is started for it.
    pub cold: bool,
}

/// The function's answer, or why there is none.
pub type InvokeResult = Result<Bytes, InvokeError>;

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The function reported a failure, during its work or before (init).
    #[error("{error_type}: {message}")]
    FunctionError {
        /// `errorType`
        error_type: String,
        /// `errorMessage`
        message: String,
    },
    /// It ran longer than its timeout, and was killed.
    #[error("Task timed out after {:.2} seconds", after.as_secs_f64())]
    Timeout {
        /// The function's timeout.
        after: Duration,
    },
    /// Its process ended.
    #[error("Runtime exited {how}")]
    Crashed {
        /// How, in Lambda's words.
        how: String,
    },
    /// No process was started: too many invocations run already (429).
    #[error("Rate Exceeded.")]
    Throttled,
    /// No process was started: the event is too large (413).
    #[error("Request must be smaller than {limit} bytes for the InvokeFunction operation")]
    RequestEntityTooLarge {
        /// The documented limit.
        limit: usize,
    },
}

impl InvokeError {
    /// Whether the function ran (or should have): then `Invoke` answers 200 with the header
    /// `X-Amz-Function-Error`, and asynchronous events are retried at most twice.
    /// <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
    pub fn is_function_error(&self) -> bool {
        !matches!(self, Self::Throttled | Self::RequestEntityTooLarge { .. })
    }

    /// The payload of `Invoke`'s answer.
    pub fn payload(&self, request_id: &str) -> Value {
        let (error_type, message) = match self {
            Self::FunctionError { error_type, message } => (error_type.as_str(), message.clone()),
            Self::Timeout { .. } => {
                ("Sandbox.Timedout", format!("RequestId: {request_id} Error: {self}"))
            }
            Self::Crashed { .. } => {
                ("Runtime.ExitError", format!("RequestId: {request_id} Error: {self}"))
            }
            Self::Throttled => {
                return json!({ "Reason": "ReservedFunctionConcurrentInvocationLimitExceeded",
                    "Type": "User", "message": self.to_string() });
            }
            Self::RequestEntityTooLarge { .. } => {
                return json!({ "Type": "User", "message": self.to_string() });
            }
        };
        json!({ "errorType": error_type, "errorMessage": message })
    }

    /// Parses the object that the runtime API accepts: `errorMessage`, `errorType`, `stackTrace`.
    pub(super) fn from_report(body: &[u8], header: Option<&str>) -> Self {
        let report: Value = serde_json::from_slice(body).unwrap_or_default();
        let member = |name: &str| report.get(name).and_then(Value::as_str).map(str::to_owned);
        let error_type = member("errorType").or_else(|| header.map(str::to_owned));
        Self::FunctionError {
            error_type: error_type.unwrap_or_else(|| "Runtime.Unknown".to_owned()),
            message: member("errorMessage").unwrap_or_default(),
        }
    }

    pub(super) fn response_too_large() -> Self {
        Self::FunctionError {
            error_type: "Function.ResponseSizeTooLarge".to_owned(),
            message: format!(
                "Response payload size exceeded maximum allowed payload size \
                 ({SYNCHRONOUS_LIMIT} bytes)."
            ),
        }
    }

    pub(super) fn exited(status: ExitStatus) -> Self {
        let how = match (status.code(), status.signal()) {
            (Some(0), _) => "without providing a reason".to_owned(),
            (Some(code), _) => format!("with error: exit status {code}"),
            (None, Some(9)) => "with error: signal: killed".to_owned(),
            (None, Some(6)) => "with error: signal: aborted".to_owned(),
            (None, signal) => format!("with error: signal: {}", signal.unwrap_or_default()),
        };
        Self::Crashed { how }
    }
}
