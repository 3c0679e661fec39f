//! Forwards a call: unchanged, except for the access key of calls of `DynamoDB`.

use super::Upstreams;
use super::answer::Answer;
use super::call::Call;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Headers of a single connection.
const HOP: [HeaderName; 4] =
    [CONNECTION, TRANSFER_ENCODING, EXPECT, HeaderName::from_static("keep-alive")];

pub(super) struct Forwarder {
    upstreams: Upstreams,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Forwarder {
    pub(super) fn new(upstreams: Upstreams) -> Self {
        Self { upstreams, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// The whole answer of the service.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, String> {
        let upstream = match call.scope.service.as_str() {
            "dynamodb" => &self.upstreams.dynamodb,
            "s3" => &self.upstreams.s3,
            _ => &self.upstreams.other,
        };
        let failed = |what: &str, error: &dyn std::error::Error| {
            format!("{} at {upstream}: {what}: {error}", call.full_name())
        };
        // The path as the caller wrote it: the signature covers it.
        let path = call.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("{}{path}", upstream.trim_end_matches('/')).parse::<Uri>();
        let uri = uri.map_err(|error| failed("not an address", &error))?;
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = without_hop(&call.headers);
        if let ("dynamodb", Some(database)) = (&*call.scope.service, &self.upstreams.database) {
            choose_database(request.headers_mut(), database);
        }
        let answer = self.client.request(request).await;
        let (head, body) = answer.map_err(|error| failed("no answer", &error))?.into_parts();
        let body = body.collect().await.map_err(|error| failed("half an answer", &error))?;
        let mut answer = Response::new(Full::new(body.to_bytes()));
        *answer.status_mut() = head.status;
        *answer.headers_mut() = without_hop(&head.headers);
        Ok(answer)
    }
}

/// Names the access key `database` in the signature. `DynamoDB` Local checks none.
fn choose_database(headers: &mut HeaderMap, database: &str) {
    let signed = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let chosen = signed.and_then(|value| {
        let (algorithm, rest) = value.split_once("Credential=")?;
        let (_, scope) = rest.split_once('/')?;
        HeaderValue::from_str(&format!("{algorithm}Credential={database}/{scope}")).ok()
    });
    if let Some(value) = chosen {
        headers.insert(AUTHORIZATION, value);
    }
}

fn without_hop(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in &HOP {
        kept.remove(name);
    }
    kept
}
