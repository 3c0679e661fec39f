//! The body of every answer that is not a success.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What went wrong, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A short code for the class of error, such as `API-404`; see the documentation.
    pub error: String,
    /// What happened, to which thing, and what to do next.
    pub message: String,
    /// More for programs: `fields` lists each faulty field of a body with its path and reason.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// The request that this answers; Canyon's log has it in every line about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Code of a refusal: the body did not come as a whole. Who sent it whole sends it again.
pub const INCOMPLETE: &str = "incomplete";
/// Code of a refusal: the request shows no token. Who sent one sends it again.
pub const NO_TOKEN: &str = "no_token";

impl ErrorBody {
    /// Whether the request came otherwise than any client of Canyon's sends it: something on the way has cut it, or
    /// taken a header out. The same request may succeed.
    pub fn blames_the_network(&self) -> bool {
        let code = self.details.get("code").and_then(Value::as_str);
        code.is_some_and(|code| [INCOMPLETE, NO_TOKEN].contains(&code))
    }

    /// The code of a refusal with this status.
    pub fn code_of(status: u16) -> String {
        format!("API-{status}")
    }

    /// Canyon's own refusal with `status`, or `None` if this answer is not Canyon's.
    ///
    /// A status alone proves nothing: gateways, proxies and sign-in pages answer 401, 403, 404, 409
    /// and 413 too, some of them in JSON (API Gateway: `{"message":"Not Found"}`). Only Canyon's
    /// code names the status again.
    pub fn of_answer(status: u16, answer: &[u8]) -> Option<Self> {
        let body: Self = serde_json::from_slice(answer).ok()?;
        (body.error == Self::code_of(status)).then_some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_canyons_code_for_its_status_is_canyons() {
        let canyons = br#"{"error": "API-409", "message": "the attempt is over"}"#;
        assert_eq!(ErrorBody::of_answer(409, canyons).unwrap().message, "the attempt is over");
        assert_eq!(ErrorBody::of_answer(404, canyons), None, "something changed its status");
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
