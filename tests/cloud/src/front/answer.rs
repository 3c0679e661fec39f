//! Answers of the front itself, each in the form of the service that it stands for.

use super::call::Call;
use super::needs::Need;
use super::{Account, put_events};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

pub(super) type Answer = Response<Full<Bytes>>;

/// The form of a service's errors.
enum Form {
    /// JSON, with the error's full name in `__type`.
    Json { namespace: &'static str },
    /// S3's own XML.
    S3,
    /// XML of the query protocol.
    Query,
}

fn form(call: &Call) -> Form {
    match call.scope.service.as_str() {
        "s3" => Form::S3,
        "dynamodb" => Form::Json { namespace: "com.amazonaws.dynamodb.v20120810#" },
        _ if call.header("x-amz-target").is_some() => Form::Json { namespace: "" },
        _ => Form::Query,
    }
}

/// The role does not allow this action.
pub(super) fn denied(function: &str, call: &Call, need: &Need, account: &Account) -> Answer {
    let Account { id, .. } = account;
    let Need { action, resource, .. } = need;
    let message = format!(
        "User: arn:aws:sts::{id}:assumed-role/{function}/{function} is not authorized to perform: {action} \
         on resource: {resource} because no identity-based policy allows the {action} action"
    );
    match form(call) {
        Form::Json { .. } => {
            let namespace =
                if call.scope.service == "dynamodb" { "com.amazon.coral.service#" } else { "" };
            json_error(StatusCode::BAD_REQUEST, namespace, "AccessDeniedException", &message)
        }
        Form::S3 | Form::Query => error(call, StatusCode::FORBIDDEN, "AccessDenied", &message),
    }
}

/// The caller is throttled.
pub(super) fn throttled(call: &Call) -> Answer {
    let (status, code) = match (form(call), call.scope.service.as_str()) {
        (Form::S3, _) => (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"),
        (Form::Query, _) => (StatusCode::BAD_REQUEST, "Throttling"),
        (_, "dynamodb") => (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException"),
        _ => (StatusCode::BAD_REQUEST, "ThrottlingException"),
    };
    error(call, status, code, "Rate exceeded")
}

/// The service has an internal error.
pub(super) fn broken(call: &Call) -> Answer {
    let code = match call.scope.service.as_str() {
        "s3" => "InternalError",
        "dynamodb" => "InternalServerError",
        "kms" => "KMSInternalException",
        "events" => "InternalException",
        _ => "InternalFailure",
    };
    error(call, StatusCode::INTERNAL_SERVER_ERROR, code, "Internal server error")
}

/// Another transaction holds an item of this one.
pub(super) fn conflict(call: &Call) -> Answer {
    let body = call.json();
    let Some(items) = body["TransactItems"].as_array() else {
        let message = "Transaction is ongoing for the item";
        return error(call, StatusCode::BAD_REQUEST, "TransactionConflictException", message);
    };
    // The first item is the conflicting one; the others have no reason.
    let mut reasons = vec![json!({"Code": "None"}); items.len()];
    if let Some(first) = reasons.first_mut() {
        *first = json!({"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"});
    }
    let codes: Vec<_> = reasons.iter().filter_map(|reason| reason["Code"].as_str()).collect();
    let message = format!(
        "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
        codes.join(", ")
    );
    json_answer(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "CancellationReasons": reasons,
            "Message": message,
        }),
    )
}

/// Status 200, although nothing was done.
pub(super) fn nothing_done(call: &Call) -> Answer {
    let asked = call.json()["RequestItems"].clone();
    let answer = match call.operation.as_str() {
        "BatchGetItem" => json!({"Responses": {}, "UnprocessedKeys": asked}),
        "BatchWriteItem" => json!({"UnprocessedItems": asked}),
        _ => put_events::all_failed(call),
    };
    json_answer(StatusCode::OK, &answer)
}

/// The call has no signature that names a service.
pub(super) fn not_signed() -> Answer {
    let message = "Request is missing Authentication Token";
    json_error(StatusCode::FORBIDDEN, "", "MissingAuthenticationTokenException", message)
}

/// The service behind the front does not answer.
pub(super) fn unreachable(why: &str) -> Answer {
    json_error(StatusCode::BAD_GATEWAY, "", "FrontCannotReachUpstream", why)
}

fn error(call: &Call, status: StatusCode, code: &str, message: &str) -> Answer {
    let xml = match form(call) {
        Form::Json { namespace } => return json_error(status, namespace, code, message),
        // An answer to HEAD has no body.
        Form::S3 if call.method == Method::HEAD => String::new(),
        Form::S3 => format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{}</Message>\
             <RequestId>FRONT</RequestId><HostId>FRONT</HostId></Error>",
            escaped(message)
        ),
        Form::Query => format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{}</Message></Error>\
             <RequestId>FRONT</RequestId></ErrorResponse>",
            escaped(message)
        ),
    };
    answer(status, "application/xml", xml)
}

fn json_error(status: StatusCode, namespace: &str, code: &str, message: &str) -> Answer {
    // `DynamoDB` writes `message`, others `Message`; clients accept either.
    json_answer(status, &json!({"__type": format!("{namespace}{code}"), "message": message}))
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    answer(status, "application/x-amz-json-1.0", body.to_string())
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
