//! Lambda's API `Invoke`, as far as `cargo lambda invoke` needs it.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use crate::runtime::Function;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A running API. Dropping it ends it.
#[derive(Debug)]
pub struct InvokeApi {
    address: SocketAddr,
    _server: JoinSet<()>,
}

type Functions = Arc<BTreeMap<String, Function>>;

impl InvokeApi {
    /// Serves these functions, by their names.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn serve(functions: impl IntoIterator<Item = Function>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.unwrap_or_else(|error| panic!("no listener: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
        let named = functions.into_iter().map(|function| (function.name().to_owned(), function));
        let functions: Functions = Arc::new(named.collect());
        let router = Router::new()
            .route("/2015-03-31/functions/{name}/invocations", post(invoke))
            .with_state(functions);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, _server: server }
    }

    /// The port of its listener.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn invoke(
    State(functions): State<Functions>,
    Path(name): Path<String>,
    payload: Bytes,
) -> Response {
    let Some(function) = functions.get(&name) else {
        return (StatusCode::NOT_FOUND, format!("Function not found: {name}")).into_response();
    };
    match function.invoke(payload).await {
        Ok(answer) => answer.into_response(),
        Err(error) if error.is_function_error() => {
            let mut answer = error.payload("").to_string().into_response();
            let kind = HeaderValue::from_static("Unhandled");
            answer.headers_mut().insert("x-amz-function-error", kind);
            answer
        }
        Err(error) => {
            (StatusCode::TOO_MANY_REQUESTS, error.payload("").to_string()).into_response()
        }
    }
}
