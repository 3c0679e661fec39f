//! The sign-in by a code, in a browser of any machine (RFC 8628).

use super::issuer::{Issuer, Tokens};
use crate::error::CliError;
use crate::output::Output;
use oauth2::StandardDeviceAuthorizationResponse;

/// Shows a code and waits until the person has entered it at the issuer.
pub(super) async fn sign_in(issuer: &Issuer, output: Output) -> Result<Tokens, CliError> {
    let client = issuer.client().set_device_authorization_url(issuer.device_url()?);
    let http = issuer.http();
    let asked = client.exchange_device_code().add_scopes(issuer.scopes());
    let details: StandardDeviceAuthorizationResponse =
        asked.request_async(&http).await.map_err(|error| issuer.no_code(&error))?;
    let code = details.user_code().secret().escape_debug();
    match details.verification_uri_complete() {
        Some(complete) => output.notice(&format!(
            "open {} in a browser of any machine, and compare the code: {code}",
            complete.secret().escape_debug()
        )),
        None => output.notice(&format!(
            "open {} in a browser of any machine, and enter the code: {code}",
            details.verification_uri().as_str()
        )),
    }
    // The issuer says how often to ask, and until when.
    let answer = client.exchange_device_access_token(&details);
    issuer.tokens(answer.request_async(&http, tokio::time::sleep, None).await)
}
