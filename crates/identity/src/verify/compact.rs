//! The compact form of a signed token: three parts of base64 with dots between (RFC 7515, section
//! 7.1).

use super::strict_json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Longest accepted token, in bytes. Tokens of issuers have one or two KiB.
const MAX_TOKEN: usize = 16 * 1024;
/// Longest accepted name of a key, in bytes.
const MAX_KID: usize = 128;
/// Header members that are accepted besides algorithm, key and type: the hashes of a certificate,
/// which some issuers add and this verifier does not use. Every other member would change how to
/// read the token (`crit`, `b64`, `zip`) or where to find a key (`jku`, `jwk`, `x5u`, `x5c`): RFC
/// 8725, section 3.10.
const IGNORED: [&str; 2] = ["x5t", "x5t#S256"];

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Compact<'t> {
    /// The algorithm in its header.
    pub(super) alg: String,
    /// The name of the key in its header.
    pub(super) kid: Option<String>,
    /// Its claims.
    pub(super) claims: Map<String, Value>,
    /// The signed bytes.
    pub(super) signed: &'t [u8],
    /// The signature.
    pub(super) signature: Vec<u8>,
}

impl<'t> Compact<'t> {
    /// Parses a token.
    ///
    /// # Errors
    ///
    /// The fault of its form, without any part of the token.
    pub(super) fn read(token: &'t str) -> Result<Self, &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("it is longer than 16 KiB");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("it is not a signed token")?;
        let (header, payload) = signed.split_once('.').ok_or("it is not a signed token")?;
        if payload.contains('.') {
            return Err("it has more than three parts");
        }
        let (alg, kid) = read_header(object(header, "its header is not a JSON object")?)?;
        Ok(Self {
            alg,
            kid,
            claims: object(payload, "its payload is not a JSON object")?,
            signed: signed.as_bytes(),
            signature: decode(signature).ok_or("its signature is not base64")?,
        })
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn object(part: &str, reason: &'static str) -> Result<Map<String, Value>, &'static str> {
    let bytes = decode(part).ok_or("it is not base64")?;
    match strict_json::read(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(reason),
    }
}

fn read_header(header: Map<String, Value>) -> Result<(String, Option<String>), &'static str> {
    let (mut alg, mut kid) = (None, None);
    for (name, value) in header {
        let Value::String(value) = value else {
            return Err("a member of its header is not a string");
        };
        match name.as_str() {
            "alg" => alg = Some(value),
            "kid" if value.len() > MAX_KID => return Err("the name of its key is too long"),
            "kid" => kid = Some(value),
            "typ" if !is_type(&value) => return Err("its `typ` is not that of a token"),
            "typ" => {}
            name if IGNORED.contains(&name) && value.len() <= MAX_KID => {}
            _ => return Err("its header has a member that is not accepted"),
        }
    }
    Ok((alg.ok_or("its header names no algorithm")?, kid))
}

/// `JWT` or a profile of it (RFC 8725, section 3.11); compared like a media type.
fn is_type(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let text = text.strip_prefix("application/").unwrap_or(&text);
    ["jwt", "at+jwt"].contains(&text)
}
