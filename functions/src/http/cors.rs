//! The pages that may call the API from a browser. None, unless origins are configured.
//!
//! There are no cookies, so there is no mode with credentials: a page sends its token itself.

use super::request_id::REQUEST_ID;
use axum::http::header::{AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use canyon_api::deployment::{IDEMPOTENCY_KEY, LOG_COMPLETE, NEXT_OFFSET};
use std::str::FromStr;
use std::time::Duration;
use tower_http::cors::CorsLayer;

/// The origin of a page, as its browser writes it: `https://console.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

/// The text is not the origin of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an origin is `https://` or `http://`, a host in lower case and its port if that is not the \
     usual one, without anything behind"
)]
pub struct InvalidOrigin;

impl FromStr for Origin {
    type Err = InvalidOrigin;

    /// A browser sends a scheme, a host in lower case, and a port if it is not the scheme's default. An origin in
    /// another form would be a setting without effect, so it is refused.
    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let uri: Uri = text.parse().map_err(|_| InvalidOrigin)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(InvalidOrigin);
        };
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err(InvalidOrigin),
        };
        let written = format!("{scheme}://{authority}");
        let as_browsers_do = written == text
            && !text.contains(['@', '*'])
            && !text.bytes().any(|c| c.is_ascii_uppercase())
            && !authority.host().is_empty()
            && authority.port_u16() != Some(usual);
        if !as_browsers_do {
            return Err(InvalidOrigin);
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| InvalidOrigin)
    }
}

/// The layer that answers preflight requests for pages of these origins.
pub(super) fn layer(origins: &[Origin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins = origins.iter().map(|Origin(origin)| origin.clone());
    let layer = CorsLayer::new()
        .allow_origin(origins.collect::<Vec<_>>())
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            header(IDEMPOTENCY_KEY),
            HeaderName::from_static("decryptkey"),
        ])
        .expose_headers([
            CONTENT_DISPOSITION,
            REQUEST_ID,
            header(NEXT_OFFSET),
            header(LOG_COMPLETE),
        ])
        // The longest time that any browser caches the answer (Chromium, 2 h).
        .max_age(Duration::from_hours(2));
    Some(layer)
}

fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_browsers_write_is_an_origin() {
        for good in ["https://console.example.org", "http://localhost:5173", "http://[::1]:8080"] {
            assert!(good.parse::<Origin>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "console.example.org",
            "https://",
            "https://*.example.org",
            "https://console.example.org/",
            "https://console.example.org/path",
            "https://console.example.org?q",
            "https://Console.example.org",
            "https://user@console.example.org",
            "https://console.example.org:443",
            "http://localhost:80",
            "ftp://console.example.org",
            "https://a.example.org https://b.example.org",
        ] {
            assert_eq!(bad.parse::<Origin>(), Err(InvalidOrigin), "{bad}");
        }
    }
}
