//! A signed token as it comes: three parts of base64 with dots between (RFC 7515, section 7.1).

use super::strict_json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The longest token that is read, in bytes. Those of issuers have one or two KiB.
const MAX_TOKEN: usize = 16 * 1024;
/// The longest name of a key.
const MAX_KID: usize = 128;
/// What a header may have besides algorithm, key and type: the hashes of a certificate, which some
/// issuers add and nothing here looks at. Whatever else there is would say how to read the token
/// (`crit`, `b64`, `zip`) or where to find a key (`jku`, `jwk`, `x5u`, `x5c`): RFC 8725, section 3.10.
const IGNORED: [&str; 2] = ["x5t", "x5t#S256"];

/// A token, taken apart and not yet believed.
#[derive(Debug)]
pub(super) struct Compact<'t> {
    /// The algorithm that it says it is signed with.
    pub(super) alg: String,
    /// The key that it says it is signed with.
    pub(super) kid: Option<String>,
    /// What it says.
    pub(super) claims: Map<String, Value>,
    /// What is signed.
    pub(super) signed: &'t [u8],
    /// The signature.
    pub(super) signature: Vec<u8>,
}

impl<'t> Compact<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    ///
    /// Says what is wrong with its form, without a piece of it.
    pub(super) fn read(token: &'t str) -> Result<Self, &'static str> {
        if token.len() > MAX_TOKEN {
            return Err("it is longer than 16 KiB");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("it is no signed token")?;
        let (header, payload) = signed.split_once('.').ok_or("it is no signed token")?;
        if payload.contains('.') {
            return Err("it has more than three parts");
        }
        let (alg, kid) = read_header(object(header, "its header is no JSON object")?)?;
        Ok(Self {
            alg,
            kid,
            claims: object(payload, "its payload is no JSON object")?,
            signed: signed.as_bytes(),
            signature: decode(signature).ok_or("its signature is no base64")?,
        })
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn object(part: &str, reason: &'static str) -> Result<Map<String, Value>, &'static str> {
    let bytes = decode(part).ok_or("it is no base64")?;
    match strict_json::read(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(reason),
    }
}

fn read_header(header: Map<String, Value>) -> Result<(String, Option<String>), &'static str> {
    let (mut alg, mut kid) = (None, None);
    for (name, value) in header {
        let Value::String(value) = value else { return Err("a member of its header is no text") };
        match name.as_str() {
            "alg" => alg = Some(value),
            "kid" if value.len() > MAX_KID => return Err("the name of its key is too long"),
            "kid" => kid = Some(value),
            "typ" if !is_type(&value) => return Err("its type is not that of a token"),
            "typ" => {}
            name if IGNORED.contains(&name) && value.len() <= MAX_KID => {}
            _ => return Err("its header has a member that is not taken"),
        }
    }
    Ok((alg.ok_or("its header names no algorithm")?, kid))
}

/// `JWT`, or what a profile of it says (RFC 8725, section 3.11); compared as media types are.
fn is_type(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let text = text.strip_prefix("application/").unwrap_or(&text);
    ["jwt", "at+jwt"].contains(&text)
}
