//! The SDK's HTTP client without HTTP: each request becomes a function call.

use super::engine::Engine;
use super::operations::Operation;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use dynoxide::DynoxideError;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Connector {
    engine: Arc<Engine>,
}

impl Connector {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

impl HttpClient for Connector {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Connector {
    /// Answers a read on this thread, because that takes less time than a switch to another. A write goes to the thread that
    /// waits for the disk (see [`super::writer`]).
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Some(operation) =
            request.headers().get("x-amz-target").and_then(Operation::from_target)
        else {
            return HttpConnectorFuture::ready(unknown_operation());
        };
        let engine = Arc::clone(&self.engine);
        HttpConnectorFuture::new(async move {
            let Some(body) = request.body().bytes() else {
                let reason = "the embedded table takes no streamed request";
                return Err(ConnectorError::user(reason.into()));
            };
            respond(match operation {
                Operation::Read(read) => {
                    // A read seldom waits, so without this a long series of reads would monopolize its thread.
                    tokio::task::consume_budget().await;
                    engine.read(read, body).await
                }
                Operation::Write(write) => engine.write(write, body.to_vec()).await,
            })
        })
    }
}

fn respond(answer: Result<String, DynoxideError>) -> Result<HttpResponse, ConnectorError> {
    match answer {
        Ok(body) => response(200, body),
        Err(error) => response(error.status_code(), error.to_json()),
    }
}

fn unknown_operation() -> Result<HttpResponse, ConnectorError> {
    let body = r#"{"__type":"com.amazon.coral.service#UnknownOperationException"}"#;
    response(400, body.to_owned())
}

fn response(status: u16, body: String) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|error| ConnectorError::user(Box::new(error)))?;
    Ok(HttpResponse::new(status, SdkBody::from(body)))
}
