//! The body of every refusal and error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An error and its remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Code of the class of error, such as `API-404`; see the documentation.
    pub error: String,
    /// What happened, to which thing, and what to do.
    pub message: String,
    /// Details for programs: `fields` lists each faulty field of a body with its path and reason.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// Id of the request; every line about it in Canyon's log contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Code of a refusal: the body is incomplete. A client that sent all of it must retry.
pub const INCOMPLETE: &str = "incomplete";
/// Code of a refusal: the request has no token. A client that sent one must retry.
pub const NO_TOKEN: &str = "no_token";
/// Code of a refusal: who has requested a deployment reviews it, and the rule forbids that.
pub const AUTHOR: &str = "author";
/// Code of a refusal: the rule does not admit the caller as an approver.
pub const NOT_AN_APPROVER: &str = "not_an_approver";

impl ErrorBody {
    /// Whether the network has changed the request, because no client of Canyon sends it in this
    /// form: a proxy has truncated it or removed a header. A retry may succeed.
    pub fn was_changed_by_the_network(&self) -> bool {
        self.code().is_some_and(|code| [INCOMPLETE, NO_TOKEN].contains(&code))
    }

    /// The code for programs of a refusal, if it has one.
    pub fn code(&self) -> Option<&str> {
        self.details.get("code").and_then(Value::as_str)
    }

    /// The code of an error with this status.
    pub fn code_of(status: u16) -> String {
        format!("API-{status}")
    }

    /// Parses Canyon's error with `status`; `None` if the answer is not Canyon's.
    ///
    /// The status alone proves nothing: gateways, proxies and sign-in pages also answer 401, 403,
    /// 404, 409 and 413, some of them in JSON (API Gateway: `{"message":"Not Found"}`). Only
    /// Canyon's code repeats the status.
    pub fn of_answer(status: u16, answer: &[u8]) -> Option<Self> {
        let body: Self = serde_json::from_slice(answer).ok()?;
        (body.error == Self::code_of(status)).then_some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_the_code_for_its_status_is_an_error_of_canyon() {
        let canyons = br#"{"error": "API-409", "message": "the attempt is over"}"#;
        assert_eq!(ErrorBody::of_answer(409, canyons).unwrap().message, "the attempt is over");
        assert_eq!(ErrorBody::of_answer(404, canyons), None, "a proxy changed its status");
        for foreign in [
            "",
            "<html>Conflict</html>",
            r#"{"message": "Not Found"}"#,
            r#"{"message": "Service Unavailable"}"#,
            r#"{"error": "Conflict", "message": "no", "status": 409}"#,
            r#"{"error": "409", "message": "no"}"#,
            r#"{"error": "API-409"}"#,
            r#"[{"error": "API-409", "message": "no"}]"#,
        ] {
            assert_eq!(ErrorBody::of_answer(409, foreign.as_bytes()), None, "{foreign}");
        }
    }
}
