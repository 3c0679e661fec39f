//! The network address of a caller, as API Gateway reports it: the function has no connection to the caller.

use crate::app::network_address::NetworkAddress;
use axum::http::Request;
use lambda_http::request::RequestContext;

/// Adds the address to the extensions of the request.
pub fn with_source<B>(mut request: Request<B>) -> Request<B> {
    let address = match request.extensions().get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.as_deref(),
        Some(RequestContext::ApiGatewayV1(context)) => context.identity.source_ip.as_deref(),
        _ => None,
    };
    if let Some(address) = address.and_then(|address| address.parse().ok()) {
        request.extensions_mut().insert(NetworkAddress(address));
    }
    request
}
