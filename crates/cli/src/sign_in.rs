//! The sign-in of a person at the team's own issuer: by a browser, or by a code on another device, and its renewal.
//!
//! The issuer's tokens never reach a file, except for the one that renews the sign-in. Canyon's token, which the
//! commands use, is good for at most an hour.

mod browser;
mod device;
mod id_token;
mod issuer;
mod renewal;

pub(crate) use browser::RedirectUri;
pub(crate) use renewal::{Renewal, lock_renewals, refused, renewed};

use crate::context::{Context, SignIn};
use crate::error::CliError;
use crate::output::Output;
use canyon_api::client::{Client, SignInAs};
use canyon_api::identity_provider::SignInChoice;
use issuer::{Issuer, Tokens};
use secrecy::SecretString;
use std::time::Duration;

/// How a person shows the issuer who it is.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// In a browser on this machine, which the issuer sends back to this program at that address.
    Browser(Option<RedirectUri>),
    /// In a browser on any machine, by a code (RFC 8628).
    Device,
    /// In a browser if this machine seems to have one, otherwise by a code.
    Either,
}

/// Lets a person sign in, and returns the credential for a context. `client` needs no token.
pub(crate) async fn sign_in(
    client: &Client,
    choice: SignInChoice,
    way: Way,
    output: Output,
) -> Result<Context, CliError> {
    let SignInChoice { id, issuer, client_id, scopes, .. } = choice;
    let signing_in =
        SignIn { identity_provider: id, issuer, client_id, subject: None, refresh_token: None };
    let issuer = Issuer::discover(&signing_in, scopes).await?;
    let tokens = match way {
        Way::Browser(redirect) => browser::sign_in(&issuer, redirect, output).await?,
        Way::Device => device::sign_in(&issuer, output).await?,
        Way::Either if !browser::is_likely() && issuer.has_devices() => {
            device::sign_in(&issuer, output).await?
        }
        Way::Either => browser::sign_in(&issuer, None, output).await?,
    };
    exchanged(client, signing_in, tokens).await
}

/// Exchanges the issuer's token for one of Canyon's.
async fn exchanged(client: &Client, of: SignIn, tokens: Tokens) -> Result<Context, CliError> {
    let person = SignInAs::PersonOf(&of.identity_provider);
    let id_token = tokens.id_token(&of.issuer)?;
    let issued = client.exchange_token(id_token, person).await?;
    let subject = id_token::claim(id_token, "sub");
    let life = Duration::from_secs(issued.expires_in);
    Ok(Context {
        token: Some(SecretString::from(issued.access_token)),
        token_expires_at: Some(jiff::Timestamp::now() + life),
        sign_in: Some(SignIn { subject, refresh_token: tokens.refresh_token, ..of }),
        ..Context::default()
    })
}

/// Ends a sign-in at the issuer, as far as the issuer supports it: the renewing token is revoked.
pub(crate) async fn end_at_issuer(of: &SignIn) -> Result<(), CliError> {
    let Some(refresh_token) = &of.refresh_token else { return Ok(()) };
    Issuer::discover(of, Vec::new()).await?.revoke(refresh_token).await
}
