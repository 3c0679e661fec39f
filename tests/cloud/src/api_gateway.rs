//! An API Gateway HTTP API with functions behind its routes.
//!
//! The rules are those of the developer guide, which the code quotes where it follows them:
//! - routes: <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html>
//! - events and answers:
//!   <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>
//! - quotas: <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html>
//! - throttles: <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-throttling.html>
//!
//! Not implemented: TLS, authorizers, CORS by the gateway, custom domains, access logs.

mod answer;
mod event;
mod event_v1;
mod event_v2;
mod routes;
mod throttle;

pub use routes::Routes;
pub use throttle::Throttle;

use crate::runtime::InvokeError;
use answer::Answer;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use event::Incoming;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// "Payload size: 10 MB", and it cannot be increased.
const PAYLOAD_LIMIT: usize = 10 * 1024 * 1024;
/// "Total combined size of request line and header values: 10240 bytes".
const HEADER_LIMIT: usize = 10_240;
/// "Maximum integration timeout: 30 seconds", and it cannot be increased.
const INTEGRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// The shape of the event that the function gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadFormat {
    /// The format of REST APIs.
    V1,
    /// The default of HTTP APIs.
    V2,
}

/// The configuration of an API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The event's format.
    pub payload_format: PayloadFormat,
    /// `$default` serves at the root; any other name is the first part of each path.
    pub stage: String,
    /// At most 30 seconds.
    pub integration_timeout: Duration,
    /// The stage's route throttle.
    pub throttle: Option<Throttle>,
    /// The account id in the request context.
    pub account_id: String,
    /// The API id in the request context.
    pub api_id: String,
    /// The address of the listener. Port 0 takes a free port.
    pub listen: SocketAddr,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            payload_format: PayloadFormat::V2,
            stage: "$default".to_owned(),
            integration_timeout: INTEGRATION_TIMEOUT,
            throttle: None,
            account_id: "123456789012".to_owned(),
            api_id: "a1b2c3d4e5".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}

/// A running API. Dropping it ends it.
#[derive(Debug)]
pub struct ApiGateway {
    address: SocketAddr,
    stage: String,
    _server: DropGuard,
}

struct Api {
    config: ApiConfig,
    routes: Routes,
    bucket: Option<throttle::Bucket>,
}

impl ApiGateway {
    /// Serves `routes`: those of an API, or a single function.
    ///
    /// # Panics
    /// If API Gateway would refuse the configuration, or the address is taken.
    pub async fn start(config: ApiConfig, routes: impl Into<Routes>) -> Self {
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.unwrap_or_else(|error| panic!("{}: {error}", config.listen));
        Self::serve(listener, config, routes)
    }

    /// Serves `routes` on a bound listener, for a caller that must know the address before it configures the
    /// functions. `config.listen` is ignored.
    ///
    /// # Panics
    /// If API Gateway would refuse the configuration.
    pub fn serve(listener: TcpListener, config: ApiConfig, routes: impl Into<Routes>) -> Self {
        let longest = config.integration_timeout;
        assert!(longest <= INTEGRATION_TIMEOUT, "{longest:?} is longer than API Gateway waits");
        let address = listener.local_addr().unwrap_or(config.listen);
        let stage = config.stage.clone();
        let bucket = config.throttle.map(throttle::Bucket::new);
        let api = Arc::new(Api { config, routes: routes.into(), bucket });
        let service = Router::new().fallback(handle).with_state(api);
        let service = service.into_make_service_with_connect_info::<SocketAddr>();
        let over = CancellationToken::new();
        let ended = over.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, service) => {}
                () = ended => {}
            }
        });
        Self { address, stage, _server: over.drop_guard() }
    }

    /// The invoke URL, with the stage if that is part of it, without a slash at the end.
    pub fn url(&self) -> String {
        url(self.address, &self.stage)
    }
}

/// The invoke URL of a stage that is or will be served at `address`.
pub fn url(address: SocketAddr, stage: &str) -> String {
    match stage {
        "$default" => format!("http://{address}"),
        stage => format!("http://{address}/{stage}"),
    }
}

async fn handle(
    State(api): State<Arc<Api>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let request_id = Uuid::new_v4().simple().to_string();
    let mut response = match pass_on(&api, client, &request_id, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert("apigw-requestid", value);
    }
    response
}

async fn pass_on(
    api: &Api,
    client: SocketAddr,
    request_id: &str,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let line = parts.method.as_str().len() + parts.uri.to_string().len();
    if line + size(&parts.headers) > HEADER_LIMIT {
        return Err(Refusal(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    let body = read(body).await?;
    let path = within_stage(&api.config.stage, parts.uri.path());
    // "If no routes match a request, API Gateway returns {"message":"Not Found"} to the client."
    let route = path.and_then(|path| api.routes.take(&parts.method, path));
    let route = route.ok_or(Refusal(StatusCode::NOT_FOUND))?;
    if api.bucket.as_ref().is_some_and(|bucket| !bucket.take()) {
        // Above the limit, clients get 429 Too Many Requests.
        return Err(Refusal(StatusCode::TOO_MANY_REQUESTS));
    }
    let incoming = Incoming::new(&api.config, route, client, request_id, &parts, body);
    let event = match api.config.payload_format {
        PayloadFormat::V1 => event_v1::event(&incoming),
        PayloadFormat::V2 => event_v2::event(&incoming),
    };
    let invoked = route.function.invoke(event.to_string());
    // The function goes on; its answer is discarded.
    let Ok(result) = timeout(api.config.integration_timeout, invoked).await else {
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE));
    };
    let payload = result.map_err(|error| Refusal::after(&error))?;
    let answer = Answer::parse(&payload, api.config.payload_format);
    let answer = answer.ok_or(Refusal(StatusCode::INTERNAL_SERVER_ERROR))?;
    Ok(answer.into_response())
}

/// The path without the stage. Every stage but `$default` is the first part of the path.
fn within_stage<'a>(stage: &str, path: &'a str) -> Option<&'a str> {
    if stage == "$default" {
        return Some(path);
    }
    let rest = path.strip_prefix('/')?.strip_prefix(stage)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn size(headers: &HeaderMap) -> usize {
    headers.values().map(HeaderValue::len).sum()
}

/// The whole body. A body that is too large is read to its end all the same, so that the client can read the
/// refusal.
async fn read(body: Body) -> Result<Vec<u8>, Refusal> {
    let (mut read, mut count) = (Vec::new(), 0);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Refusal(StatusCode::BAD_REQUEST))?;
        count += piece.len();
        if count <= PAYLOAD_LIMIT {
            read.extend_from_slice(&piece);
        }
    }
    if count > PAYLOAD_LIMIT {
        return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE));
    }
    Ok(read)
}

/// An answer of the gateway itself.
struct Refusal(StatusCode);

impl Refusal {
    fn after(error: &InvokeError) -> Self {
        Self(match error {
            // The function was not reached; a client may retry.
            InvokeError::Throttled => StatusCode::SERVICE_UNAVAILABLE,
            InvokeError::RequestEntityTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            InvokeError::FunctionError { .. }
            | InvokeError::Timeout { .. }
            | InvokeError::Crashed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        })
    }

    fn into_response(self) -> Response {
        let message = match self.0 {
            StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
            status => status.canonical_reason().unwrap_or_default(),
        };
        let mut response = Response::new(Body::from(json!({ "message": message }).to_string()));
        *response.status_mut() = self.0;
        let content_type = HeaderValue::from_static("application/json");
        response.headers_mut().insert("content-type", content_type);
        response
    }
}
