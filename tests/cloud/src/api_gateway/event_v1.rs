//! Payload format 1.0, the format of REST APIs.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>

use super::event::{Incoming, grouped, object};
use serde_json::{Value, json};

/// The event. Members without a value are null.
pub(super) fn event(request: &Incoming<'_>) -> Value {
    let config = request.config;
    let parameters = request.parameters();
    // As in the guide's examples: the path of the route, and its key where the guide has an id.
    let key = request.route.key;
    let resource = key.split_once(' ').map_or(key, |(_, path)| path);
    json!({
        "version": "1.0",
        "resource": resource,
        "path": request.path,
        "httpMethod": request.method,
        "headers": last(&request.headers),
        "multiValueHeaders": all(&request.headers),
        "queryStringParameters": last(&parameters),
        "multiValueQueryStringParameters": all(&parameters),
        "requestContext": {
            "accountId": config.account_id,
            "apiId": config.api_id,
            "domainName": request.domain_name,
            "domainPrefix": request.domain_name.split('.').next(),
            "extendedRequestId": request.request_id,
            "httpMethod": request.method,
            "identity": {
                "accessKey": null,
                "accountId": null,
                "caller": null,
                "cognitoAuthenticationProvider": null,
                "cognitoAuthenticationType": null,
                "cognitoIdentityId": null,
                "cognitoIdentityPoolId": null,
                "principalOrgId": null,
                "sourceIp": request.source_ip,
                "user": null,
                "userAgent": request.user_agent,
                "userArn": null,
            },
            "path": request.path,
            "protocol": "HTTP/1.1",
            "requestId": request.request_id,
            "requestTime": request.clf_time(),
            "requestTimeEpoch": request.time.as_millisecond(),
            "resourceId": key,
            "resourcePath": resource,
            "stage": config.stage,
        },
        "pathParameters": request.path_parameters(),
        "stageVariables": null,
        "body": request.body,
        "isBase64Encoded": request.is_base64_encoded,
    })
}

/// The last value of each name.
fn last(pairs: &[(String, String)]) -> Value {
    let groups = grouped(pairs).into_iter();
    object(groups.map(|(name, values)| (name.to_owned(), json!(values.last()))))
}

/// All values of each name.
fn all(pairs: &[(String, String)]) -> Value {
    object(grouped(pairs).into_iter().map(|(name, values)| (name.to_owned(), json!(values))))
}
