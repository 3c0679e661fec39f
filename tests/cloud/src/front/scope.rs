//! The service of a call: the scope in its signature.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// `Credential=KEY/20260101/eu-west-1/dynamodb/aws4_request`, in the header or, in presigned URLs, in
/// the query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) region: String,
    pub(super) service: String,
}

/// `None` for an unsigned call.
pub(super) fn of(headers: &HeaderMap, query: &[(String, String)]) -> Option<Scope> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let signed = header.and_then(|text| text.split_once("Credential=")).map(|(_, rest)| rest);
    let presigned = query.iter().find(|(name, _)| name == "X-Amz-Credential");
    let credential = signed.or(presigned.map(|(_, value)| value.as_str()))?;
    let mut parts = credential.split([',', ' ']).next()?.rsplit('/');
    let ("aws4_request", service, region) = (parts.next()?, parts.next()?, parts.next()?) else {
        return None;
    };
    Some(Scope { region: region.to_owned(), service: service.to_owned() })
}
