//! The function's answer as an HTTP response.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html#http-api-develop-integrations-lambda.response>

use super::PayloadFormat;
use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;

/// The client's response.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    /// `None` if the gateway does not understand the function's answer.
    pub(super) fn parse(payload: &[u8], format: PayloadFormat) -> Option<Self> {
        let answer: Value = serde_json::from_slice(payload).ok()?;
        if format == PayloadFormat::V2 && answer.get("statusCode").is_none() {
            return Some(Self::inferred(payload));
        }
        let code = match answer.get("statusCode")? {
            Value::Number(code) => code.as_u64()?,
            Value::String(code) => code.parse().ok()?,
            _ => return None,
        };
        let status = StatusCode::from_u16(u16::try_from(code).ok()?).ok()?;
        let mut headers = HeaderMap::new();
        for (name, value) in members(&answer, "headers")? {
            headers.insert(name.parse::<HeaderName>().ok()?, header_value(value)?);
        }
        match format {
            PayloadFormat::V1 => add_multi_value_headers(&answer, &mut headers)?,
            // "each cookie becomes a set-cookie header". This format has no multiValueHeaders.
            PayloadFormat::V2 => {
                for cookie in list(&answer, "cookies")? {
                    headers.append(header::SET_COOKIE, header_value(cookie)?);
                }
            }
        }
        let is_encoded = match answer.get("isBase64Encoded") {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool()?,
        };
        let body = match answer.get("body") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) if is_encoded => STANDARD.decode(text).ok()?,
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(_) => return None,
        };
        Some(Self { status, headers, body })
    }

    /// "If your Lambda function returns valid JSON and doesn't return a statusCode, API Gateway
    /// makes the following assumptions: isBase64Encoded is false. statusCode is 200. content-type
    /// is application/json. body is the function's response."
    fn inferred(payload: &[u8]) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { status: StatusCode::OK, headers, body: payload.to_vec() }
    }

    pub(super) fn into_response(mut self) -> Response {
        // The gateway frames the body itself. (Without a type it sends text/plain.)
        for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
            self.headers.remove(name);
        }
        if !self.body.is_empty() {
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            self.headers.entry(header::CONTENT_TYPE).or_insert(text);
        }
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// "If you specify values for both headers and multiValueHeaders, API Gateway merges them into a
/// single list."
fn add_multi_value_headers(answer: &Value, headers: &mut HeaderMap) -> Option<()> {
    for (name, values) in members(answer, "multiValueHeaders")? {
        let name = name.parse::<HeaderName>().ok()?;
        let known = headers.get(&name).cloned();
        for value in values.as_array()? {
            let value = header_value(value)?;
            if known.as_ref() != Some(&value) {
                headers.append(&name, value);
            }
        }
    }
    Some(())
}

/// The members of an object that may be missing.
fn members<'a>(answer: &'a Value, name: &str) -> Option<Vec<(&'a String, &'a Value)>> {
    match answer.get(name) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(value) => Some(value.as_object()?.iter().collect()),
    }
}

/// The elements of a list that may be missing.
fn list<'a>(answer: &'a Value, name: &str) -> Option<&'a [Value]> {
    match answer.get(name) {
        None | Some(Value::Null) => Some(&[]),
        Some(value) => value.as_array().map(Vec::as_slice),
    }
}

fn header_value(value: &Value) -> Option<HeaderValue> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    HeaderValue::from_bytes(text.as_bytes()).ok()
}
