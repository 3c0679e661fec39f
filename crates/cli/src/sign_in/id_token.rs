//! The claims of an ID token. This program does not verify them: Canyon does, when it exchanges the token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

/// The claim `name`, if the token has it as text.
pub(super) fn claim(id_token: &SecretString, name: &str) -> Option<String> {
    let payload = id_token.expose_secret().split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    claims.get(name)?.as_str().map(str::to_owned)
}
