//! The parts of an event that both formats share.

use super::ApiConfig;
use super::routes::Taken;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, header};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use uuid::Uuid;

/// A request on its way to the function.
pub(super) struct Incoming<'a> {
    pub(super) config: &'a ApiConfig,
    pub(super) route: Taken<'a>,
    pub(super) request_id: &'a str,
    pub(super) method: &'a str,
    /// With the stage, decoded: HTTP APIs give the function no encoded path, in neither format, and
    /// cut off what follows a decoded question mark (as others have observed on AWS:
    /// <https://github.com/middleapi/standard-server/pull/93>).
    pub(super) path: String,
    /// As it was in the request.
    pub(super) query: &'a str,
    /// "Header names are lowercased." In the order of the request.
    pub(super) headers: Vec<(String, String)>,
    pub(super) cookies: Vec<String>,
    pub(super) source_ip: String,
    pub(super) domain_name: String,
    pub(super) user_agent: String,
    pub(super) time: Timestamp,
    /// Base64 if it is not text.
    pub(super) body: Option<String>,
    pub(super) is_base64_encoded: bool,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(
        config: &'a ApiConfig,
        route: Taken<'a>,
        client: SocketAddr,
        request_id: &'a str,
        parts: &'a Parts,
        body: Vec<u8>,
    ) -> Self {
        let is_text = is_text(&parts.headers);
        let (body, is_base64_encoded) = match String::from_utf8(body) {
            Ok(text) if text.is_empty() => (None, false),
            Ok(text) if is_text => (Some(text), false),
            Ok(text) => (Some(STANDARD.encode(text)), true),
            Err(error) => (Some(STANDARD.encode(error.into_bytes())), true),
        };
        let mut headers = headers(&parts.headers);
        let first = |name: &str| {
            let found = headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let (host, user_agent) = (first("host"), first("user-agent"));
        let (domain_name, port) = host.rsplit_once(':').unwrap_or((&host, "80"));
        let cookies = cookies(&parts.headers);
        headers.extend(added(client, port));
        headers.sort();
        let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
        Self {
            config,
            route,
            request_id,
            method: parts.method.as_str(),
            path: path.split('?').next().unwrap_or_default().to_owned(),
            query: parts.uri.query().unwrap_or_default(),
            headers,
            cookies,
            source_ip: client.ip().to_string(),
            domain_name: domain_name.to_owned(),
            user_agent,
            time: Timestamp::now(),
            body,
            is_base64_encoded,
        }
    }

    /// The decoded parameters of the query, in the order of the request.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        url::form_urlencoded::parse(self.query.as_bytes()).into_owned().collect()
    }

    /// The values of the route's path variables, decoded like the path.
    pub(super) fn path_parameters(&self) -> Value {
        let decoded = |caught| percent_decode_str(caught).decode_utf8_lossy();
        let caught = self.route.variable.filter(|(_, caught)| !caught.is_empty());
        object(caught.map(|(name, caught)| (name.to_owned(), decoded(caught).into())))
    }

    /// "12/Mar/2020:19:03:58 +0000"
    pub(super) fn clf_time(&self) -> String {
        self.time.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string()
    }
}

/// Collects the values of each name.
pub(super) fn grouped(pairs: &[(String, String)]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in pairs {
        match groups.iter_mut().find(|(found, _)| found == name) {
            Some((_, values)) => values.push(value),
            None => groups.push((name, vec![value])),
        }
    }
    groups
}

/// An object of strings, or null where the guide's examples leave it out.
pub(super) fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    let members: Map<String, Value> = members.into_iter().collect();
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}

fn headers(map: &HeaderMap) -> Vec<(String, String)> {
    let hop_by_hop = [header::CONNECTION, header::TRANSFER_ENCODING, header::EXPECT];
    map.iter()
        .filter(|(name, _)| !hop_by_hop.contains(name))
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

/// The headers that the gateway adds to every request.
fn added(client: SocketAddr, port: &str) -> [(String, String); 4] {
    let unique = Uuid::new_v4().simple().to_string();
    let seconds = Timestamp::now().as_second();
    [
        ("x-forwarded-for", client.ip().to_string()),
        // On AWS these are 443 and https; this gateway does not use TLS.
        ("x-forwarded-port", port.to_owned()),
        ("x-forwarded-proto", "http".to_owned()),
        ("x-amzn-trace-id", format!("Root=1-{seconds:08x}-{}", &unique[..24])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// "All cookie headers in the request are combined with commas and added to the cookies field."
/// Each cookie is a member of the list.
fn cookies(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let cookies = values.flat_map(|value| value.split(';')).map(str::trim);
    cookies.filter(|cookie| !cookie.is_empty()).map(str::to_owned).collect()
}

/// HTTP APIs have no list of binary types. A body is passed on as text if its type is a known text
/// type and it has no content encoding, else in base64 (also forms, and bodies without a type).
fn is_text(headers: &HeaderMap) -> bool {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = value(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let content_type = content_type.to_ascii_lowercase();
    let known = ["application/json", "application/javascript", "application/xml"];
    let is_known = content_type.starts_with("text/")
        || known.contains(&content_type.as_str())
        || content_type.ends_with("+json")
        || content_type.ends_with("+xml");
    is_known && value(header::CONTENT_ENCODING).is_empty()
}
