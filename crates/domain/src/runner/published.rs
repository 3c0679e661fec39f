//! What the published API accepts where a shape of [`super::patterns`] is narrower.
//!
//! This never includes values that harm others than their author: a password in an address that other users
//! can read, a token sent in clear, variables of Canyon's own.

use super::patterns::{is_image, is_session_char, only};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// For a field that the published API only requires to be text.
pub(super) fn anything(_: &str) -> bool {
    true
}

/// The API shows definitions, so a private key in the wrong field would be shown too.
pub(super) fn certificate(text: &str) -> bool {
    !text.contains("PRIVATE KEY") && !pem(text).contains("PRIVATE KEY")
}

/// The base64 content of `text`; empty if it is not base64.
pub(super) fn pem(text: &str) -> String {
    let lines: String = text.split_whitespace().collect();
    String::from_utf8_lossy(&STANDARD.decode(lines).unwrap_or_default()).into_owned()
}

fn has(text: &str, count: std::ops::RangeInclusive<usize>) -> bool {
    count.contains(&text.chars().count())
}

pub(super) fn up_to_24(text: &str) -> bool {
    has(text, 1..=24)
}

pub(super) fn up_to_255(text: &str) -> bool {
    has(text, 1..=255)
}

/// The value of a variable.
pub(super) fn value(text: &str) -> bool {
    has(text, 0..=1024)
}

/// Only Canyon sets variables of its own.
pub(super) fn variable(name: &str) -> bool {
    !name.to_ascii_uppercase().starts_with("CANYON_")
}

/// A token is not sent in clear, and definitions, which the API shows, contain no password.
pub(super) fn server(text: &str) -> bool {
    !text.to_ascii_lowercase().starts_with("http://") && proxy(text)
}

/// As [`server`], but the connection to a proxy may be in clear, because the content is encrypted.
pub(super) fn proxy(text: &str) -> bool {
    !text.contains('@')
}

/// `^[a-zA-Z0-9._:/-]+(?:@[a-z0-9]+:[a-fA-F0-9]+)?$`, of at most 255.
pub(super) fn image(text: &str) -> bool {
    has(text, 1..=255) && !text.starts_with('@') && is_image(&format!("a{text}"))
}

/// `^-----BEGIN PUBLIC KEY-----\n[^\n]+\n-----END PUBLIC KEY-----(\n)?$`, of at most 200.
pub(super) fn public_key(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let body = body.strip_prefix("-----BEGIN PUBLIC KEY-----\n");
    let body = body.and_then(|body| body.strip_suffix("\n-----END PUBLIC KEY-----"));
    has(text, 1..=200) && body.is_some_and(|body| !body.is_empty() && !body.contains('\n'))
}

/// `^[a-zA-Z0-9+=,.@\-_/]+$`, of 3 to 64.
pub(super) fn session_name(text: &str) -> bool {
    has(text, 3..=64) && text.chars().all(|c| c == '/' || is_session_char(c))
}

/// `^arn:aws:((secretsmanager:[^:]+:[^:]+:secret:[^:]+-[a-zA-Z0-9]{6})|(ssm:[^:]+:[^:]+:parameter\/.+))$`
pub(super) fn secret_arn(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("arn:aws:") else { return false };
    let parts: Vec<&str> = rest.splitn(4, ':').collect();
    let [service, region, account, what] = parts.as_slice() else { return false };
    let named = match *service {
        "secretsmanager" => what.strip_prefix("secret:").is_some_and(|name| {
            let end = name.rsplit_once('-');
            !name.contains(':')
                && end
                    .is_some_and(|(stem, end)| !stem.is_empty() && end.len() == 6 && only(end, ""))
        }),
        "ssm" => what.strip_prefix("parameter/").is_some_and(|name| !name.is_empty()),
        _ => false,
    };
    named && !region.is_empty() && !account.is_empty()
}

/// `^[a-z0-9][a-z0-9\-]*[a-z0-9]$`
pub(super) fn bucket(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() >= 2
        && text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|c| c == '-' || plain(c))
}

/// `^[a-zA-Z0-9._-]+(?:\/[a-zA-Z0-9._-]+)*\/?$`
pub(super) fn path_prefix(text: &str) -> bool {
    let path = text.strip_suffix('/').unwrap_or(text);
    path.split('/').all(|part| !part.is_empty() && only(part, "._-"))
}

#[cfg(test)]
mod tests;
