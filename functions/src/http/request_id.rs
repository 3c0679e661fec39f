//! The id of a request: it is in every log line about the request, in the answer's header, and in the body of every
//! refusal.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use canyon_domain::ports::{Clock, Entropy};
use std::fmt;
use std::sync::Arc;

/// The header of the id, in requests and answers.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    static CURRENT: RequestId;
}

/// Creates ids for requests without one.
#[derive(Clone)]
pub(super) struct RequestIds {
    /// The clock: an id begins with the time.
    pub(super) clock: Arc<dyn Clock>,
    /// The source of the random part.
    pub(super) entropy: Arc<dyn Entropy>,
}

impl RequestIds {
    fn next(&self) -> RequestId {
        RequestId(self.entropy.id(self.clock.now()).to_string())
    }
}

/// An id of 1 to 128 characters that are safe in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// The id in the request, or a new one. Behind API Gateway it is always the gateway's id, which is also in its
    /// access log.
    pub(super) fn of(request: &Request, ids: &RequestIds) -> Self {
        let brought = || request.headers().get(REQUEST_ID)?.to_str().ok()?.parse().ok();
        of_gateway(request).or_else(brought).unwrap_or_else(|| ids.next())
    }

    /// The id of the current request.
    pub(super) fn current() -> Option<String> {
        CURRENT.try_with(|id| id.0.clone()).ok()
    }

    /// Runs the handling of a request with this id as the current one.
    pub(super) async fn scope<T>(self, answering: impl Future<Output = T>) -> T {
        CURRENT.scope(self, answering).await
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

#[cfg(feature = "lambda")]
fn of_gateway(request: &Request) -> Option<RequestId> {
    use lambda_http::request::RequestContext;
    let id = match request.extensions().get::<RequestContext>()? {
        RequestContext::ApiGatewayV2(context) => context.request_id.as_ref(),
        RequestContext::ApiGatewayV1(context) => context.request_id.as_ref(),
        _ => None,
    };
    id?.parse().ok()
}

#[cfg(not(feature = "lambda"))]
fn of_gateway(_: &Request) -> Option<RequestId> {
    None
}

impl std::str::FromStr for RequestId {
    type Err = ();

    /// Parses an id. API Gateway's ids look like base64, those of others like UUIDs.
    fn from_str(text: &str) -> Result<Self, ()> {
        let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.=+".contains(&c);
        if (1..=128).contains(&text.len()) && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(())
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(all(test, feature = "lambda"))]
mod tests {
    use super::*;
    use lambda_http::request::RequestContext;

    #[test]
    fn behind_api_gateway_the_id_is_the_gateways() {
        let mut request = Request::new(axum::body::Body::empty());
        assert_eq!(of_gateway(&request), None);
        let context = serde_json::json!({
            "requestId": "JKJaXmPLvHcESHA=", "stage": "$default", "http": { "method": "GET" },
        });
        let context = serde_json::from_value(context).unwrap();
        request.extensions_mut().insert(RequestContext::ApiGatewayV2(context));
        assert_eq!(of_gateway(&request), Some(RequestId("JKJaXmPLvHcESHA=".to_owned())));
    }
}
