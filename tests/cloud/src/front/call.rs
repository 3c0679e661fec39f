//! A request, parsed as far as authorization needs.

use super::scope::{self, Scope};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// One request to a service.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The decoded query of the request.
    pub(super) query: Vec<(String, String)>,
    pub(super) scope: Scope,
    /// The name of the operation, such as `PutItem`.
    pub(super) operation: String,
}

impl Call {
    /// `None` if the request is not signed.
    pub(super) fn read(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Option<Self> {
        let query = pairs(uri.query().unwrap_or_default());
        let scope = scope::of(&headers, &query)?;
        let mut call = Self { method, uri, headers, body, query, scope, operation: String::new() };
        call.operation = call.name();
        Some(call)
    }

    fn name(&self) -> String {
        if self.scope.service == "s3" {
            return super::s3::operation(self).to_owned();
        }
        if let Some(target) = self.header("x-amz-target") {
            return target.rsplit('.').next().unwrap_or_default().to_owned();
        }
        // The query protocol: a form with the field `Action`.
        let form = pairs(&String::from_utf8_lossy(&self.body));
        let action = form.into_iter().chain(self.query.clone()).find(|(name, _)| name == "Action");
        action.map_or_else(|| format!("{} {}", self.method, self.uri.path()), |(_, value)| value)
    }

    /// `service:Operation`, which fault rules name. Calls to streams have the name of their endpoint,
    /// `streams.dynamodb`, so that polls of the stream do not use up a rule for `dynamodb:*`.
    pub(super) fn full_name(&self) -> String {
        let streams = if self.is_stream_call() { "streams." } else { "" };
        format!("{streams}{}:{}", self.scope.service, self.operation)
    }

    /// Streams have a target prefix of their own, but are signed for `dynamodb`.
    pub(super) fn is_stream_call(&self) -> bool {
        self.header("x-amz-target").is_some_and(|target| target.starts_with("DynamoDBStreams"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body, or null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The fields of a form.
    pub(super) fn form(&self) -> Vec<(String, String)> {
        pairs(&String::from_utf8_lossy(&self.body))
    }

    /// The bucket and key in the decoded path.
    pub(super) fn bucket_and_key(&self) -> (String, String) {
        let path = decode(self.uri.path().trim_start_matches('/'), false);
        match path.split_once('/') {
            Some((bucket, key)) => (bucket.to_owned(), key.to_owned()),
            None => (path, String::new()),
        }
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    split.map(|(name, value)| (decode(name, true), decode(value, true))).collect()
}

fn decode(text: &str, plus_is_space: bool) -> String {
    let text = if plus_is_space { text.replace('+', " ") } else { text.to_owned() };
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}
