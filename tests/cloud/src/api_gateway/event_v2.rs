//! Payload format 2.0.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>

use super::event::{Incoming, grouped, object};
use serde_json::{Value, json};

/// The event. Members without a value are left out, as the gateway does.
pub(super) fn event(request: &Incoming<'_>) -> Value {
    let config = request.config;
    // "Duplicate headers are combined with commas and included in the headers field." Cookies have
    // a field of their own.
    let headers = grouped(&request.headers).into_iter().filter(|(name, _)| *name != "cookie");
    let headers = headers.map(|(name, values)| (name.to_owned(), values.join(",").into()));
    let mut event = json!({
        "version": "2.0",
        "routeKey": request.route.key,
        // The stage is part of it, unless that is $default.
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": object(headers),
        "requestContext": {
            "accountId": config.account_id,
            "apiId": config.api_id,
            "domainName": request.domain_name,
            "domainPrefix": request.domain_name.split('.').next(),
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": request.source_ip,
                "userAgent": request.user_agent,
            },
            "requestId": request.request_id,
            "routeKey": request.route.key,
            "stage": config.stage,
            "time": request.clf_time(),
            "timeEpoch": request.time.as_millisecond(),
        },
        "isBase64Encoded": request.is_base64_encoded,
    });
    if !request.cookies.is_empty() {
        event["cookies"] = json!(request.cookies);
    }
    let parameters = request.parameters();
    if !parameters.is_empty() {
        // "Duplicate query strings are combined with commas and included in the
        // queryStringParameters field."
        let parameters = grouped(&parameters).into_iter();
        let combined = parameters.map(|(name, values)| (name.to_owned(), values.join(",").into()));
        event["queryStringParameters"] = object(combined);
    }
    let parameters = request.path_parameters();
    if !parameters.is_null() {
        event["pathParameters"] = parameters;
    }
    if let Some(body) = &request.body {
        event["body"] = json!(body);
    }
    event
}
