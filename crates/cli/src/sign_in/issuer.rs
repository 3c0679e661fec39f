//! An issuer of OpenID Connect: its configuration, and requests of its tokens.

use crate::context::SignIn;
use crate::error::CliError;
use crate::hint::{AUTHORITIES, is_of_certificate};
use crate::settings::is_unencrypted;
use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
    BasicTokenType,
};
use oauth2::{
    AuthType, AuthUrl, ClientId, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet,
    ErrorResponse, ExtraTokenFields, HttpRequest, HttpResponse, RefreshToken, RequestTokenError,
    RevocationUrl, Scope, StandardRevocableToken, StandardTokenResponse, TokenResponse as _,
    TokenUrl,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::time::Duration;
use url::Url;

/// The longest wait for one answer of an issuer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer, in bytes.
const MAX_ANSWER: usize = 256 * 1024;
/// The scope that asks for a token which renews the sign-in (OpenID Connect Core, section 11).
const OFFLINE: &str = "offline_access";

/// The token response of OpenID Connect has an ID token besides the fields of OAuth.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IdTokenField {
    id_token: Option<String>,
}

impl ExtraTokenFields for IdTokenField {}

type TokenResponse = StandardTokenResponse<IdTokenField, BasicTokenType>;

/// A client of OAuth whose token endpoint is known.
pub(super) type OAuthClient = oauth2::Client<
    BasicErrorResponse,
    TokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// What an issuer gave.
pub(super) struct Tokens {
    /// Proves the person to Canyon.
    id_token: Option<SecretString>,
    /// Renews the sign-in.
    pub(super) refresh_token: Option<SecretString>,
}

impl Tokens {
    /// The ID token, which not every renewal has (OpenID Connect Core, section 12.2).
    pub(super) fn id_token(&self, issuer: &str) -> Result<&SecretString, CliError> {
        self.id_token.as_ref().ok_or_else(|| CliError::SignIn {
            message: format!("the answer of the issuer {issuer} has no ID token"),
            hint: Some("sign in again with `canyon login`".to_owned()),
        })
    }
}

/// An issuer's configuration (OpenID Connect Discovery, section 3), as far as it is used.
#[derive(Debug, Deserialize)]
struct Configuration {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    device_authorization_endpoint: Option<Url>,
    revocation_endpoint: Option<Url>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    /// RFC 9207: the answer in the browser names the issuer.
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// An issuer, for the client that Canyon is there.
pub(super) struct Issuer {
    configuration: Configuration,
    client_id: String,
    scopes: Vec<String>,
    http: reqwest::Client,
}

impl Issuer {
    /// Reads the issuer's configuration.
    pub(super) async fn discover(of: &SignIn, scopes: Vec<String>) -> Result<Self, CliError> {
        let name = &of.issuer;
        let failed = |reason: String| CliError::SignIn {
            message: format!("cannot read the configuration of the issuer {name}: {reason}"),
            hint: Some("check the network, and the `issuer` of the identity provider".to_owned()),
        };
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .user_agent(concat!("canyon/", env!("CARGO_PKG_VERSION")))
            // A redirect could carry a code or a token to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| failed(causes(&error)))?;
        let url = format!("{}/.well-known/openid-configuration", name.trim_end_matches('/'));
        let answer = http.get(url).send().await.and_then(reqwest::Response::error_for_status);
        let answer =
            answer.map_err(|error| match (failed(causes(&error)), is_of_certificate(&error)) {
                (CliError::SignIn { message, .. }, true) => {
                    CliError::SignIn { message, hint: Some(AUTHORITIES.to_owned()) }
                }
                (failed, _) => failed,
            })?;
        let body = limited(answer).await.map_err(|error| failed(causes(&error)))?;
        let configuration: Configuration =
            serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
        // OpenID Connect Discovery, section 4.3.
        if configuration.issuer != *name {
            return Err(failed("it names another issuer".to_owned()));
        }
        let own = Url::parse(name).map_err(|error| failed(error.to_string()))?;
        let endpoints = [
            Some(&own),
            Some(&configuration.authorization_endpoint),
            Some(&configuration.token_endpoint),
            configuration.device_authorization_endpoint.as_ref(),
            configuration.revocation_endpoint.as_ref(),
        ];
        if endpoints.into_iter().flatten().any(|url| !is_protected(url)) {
            return Err(failed(
                "its address or that of an endpoint is not an https address".to_owned(),
            ));
        }
        Ok(Self { configuration, client_id: of.client_id.clone(), scopes, http })
    }

    /// Whether people may sign in by a code.
    pub(super) fn has_devices(&self) -> bool {
        self.configuration.device_authorization_endpoint.is_some()
    }

    /// Its address.
    pub(super) fn name(&self) -> &str {
        &self.configuration.issuer
    }

    /// Whether its answers in the browser name it.
    pub(super) fn names_itself(&self) -> bool {
        self.configuration.authorization_response_iss_parameter_supported
    }

    /// The scopes to ask for: those of the identity provider, and the one for a renewal where the issuer has it.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        let known = |scope: &&str| {
            let supported = &self.configuration.scopes_supported;
            supported.iter().any(|it| it == scope) && !self.scopes.iter().any(|it| it == scope)
        };
        let offline = Some(OFFLINE).filter(known);
        self.scopes.iter().map(String::as_str).chain(offline).map(|it| Scope::new(it.to_owned()))
    }

    /// A client of its token endpoint.
    pub(super) fn client(&self) -> OAuthClient {
        let token_url = TokenUrl::from_url(self.configuration.token_endpoint.clone());
        // Canyon is a public client: it has no secret, and says its id in the body.
        oauth2::Client::new(ClientId::new(self.client_id.clone()))
            .set_auth_type(AuthType::RequestBody)
            .set_token_uri(token_url)
    }

    /// The address of the page where people sign in.
    pub(super) fn authorization_url(&self) -> AuthUrl {
        AuthUrl::from_url(self.configuration.authorization_endpoint.clone())
    }

    /// The address that gives out codes for devices.
    pub(super) fn device_url(&self) -> Result<DeviceAuthorizationUrl, CliError> {
        let url = self.configuration.device_authorization_endpoint.clone();
        url.map(DeviceAuthorizationUrl::from_url).ok_or_else(|| CliError::SignIn {
            message: format!(
                "the issuer {} has no sign-in by a code on another device",
                self.name()
            ),
            hint: Some("sign in with a browser: canyon login --browser".to_owned()),
        })
    }

    /// Renews a sign-in. An answer without a new renewing token lets the old one be used again (RFC 6749, section 6).
    pub(super) async fn renew(&self, refresh_token: &SecretString) -> Result<Tokens, CliError> {
        let token = RefreshToken::new(refresh_token.expose_secret().to_owned());
        let answer = self.client();
        let answer = answer.exchange_refresh_token(&token).request_async(&self.http()).await;
        self.tokens(answer)
    }

    /// Revokes a token that renews the sign-in, if the issuer has an endpoint for it.
    pub(super) async fn revoke(&self, refresh_token: &SecretString) -> Result<(), CliError> {
        let Some(url) = self.configuration.revocation_endpoint.clone() else { return Ok(()) };
        let token = RefreshToken::new(refresh_token.expose_secret().to_owned());
        let client = self.client().set_revocation_url(RevocationUrl::from_url(url));
        let failed = |reason: String| CliError::SignIn {
            message: format!("cannot end the sign-in at {}: {reason}", self.name()),
            hint: None,
        };
        let request = client.revoke_token(token.into()).map_err(|error| failed(causes(&error)))?;
        request.request_async(&self.http()).await.map_err(|error| failed(reason(&error)))
    }

    /// The tokens of an answer.
    pub(super) fn tokens<E: std::error::Error + 'static>(
        &self,
        answer: Result<TokenResponse, RequestTokenError<E, impl ErrorResponse + 'static>>,
    ) -> Result<Tokens, CliError> {
        let failed = |reason: String| CliError::SignIn {
            message: format!("the issuer {} gave no token: {reason}", self.name()),
            hint: Some("sign in again with `canyon login`".to_owned()),
        };
        let answer = answer.map_err(|error| failed(reason(&error)))?;
        let refresh_token = answer.refresh_token().map(|token| token.secret().as_str().into());
        let id_token = answer.extra_fields().id_token.clone().map(Into::into);
        Ok(Tokens { id_token, refresh_token })
    }

    /// The error for a refused request of a code.
    pub(super) fn no_code<E: std::error::Error + 'static>(
        &self,
        error: &RequestTokenError<E, impl ErrorResponse + 'static>,
    ) -> CliError {
        let is_of_client = matches!(
            error,
            RequestTokenError::ServerResponse(refusal) if refusal.to_string().contains("_client")
        );
        let hint = if is_of_client {
            self.about_client()
        } else {
            "sign in with a browser: canyon login --browser".to_owned()
        };
        CliError::SignIn {
            message: format!("the issuer {} gave no code: {}", self.name(), reason(error)),
            hint: Some(hint),
        }
    }

    /// The hint for a client that the issuer does not know, or does not let sign in this way.
    fn about_client(&self) -> String {
        format!(
            "an administrator of the organization checks the `client_id` of the identity provider, which is `{}`, and at the \
             issuer that this public client may sign in by a code",
            self.client_id
        )
    }

    /// Sends the requests of `oauth2`.
    pub(super) fn http(&self) -> impl Fn(HttpRequest) -> Sending {
        let http = self.http.clone();
        move |request| {
            let http = http.clone();
            Box::pin(async move {
                let response = http.execute(request.try_into()?).await?;
                let mut answer = HttpResponse::default();
                *answer.status_mut() = response.status();
                *answer.headers_mut() = response.headers().clone();
                *answer.body_mut() = limited(response).await?;
                Ok(answer)
            })
        }
    }
}

/// A request on its way.
type Sending = Pin<Box<dyn Future<Output = Result<HttpResponse, Failure>> + Send>>;

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The issuer could not be reached.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// No issuer has such a long answer.
    #[error("its answer has more than {} KiB", MAX_ANSWER / 1024)]
    TooLong,
}

/// The body of an answer.
async fn limited(mut answer: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await? {
        body.extend_from_slice(&part);
        if body.len() > MAX_ANSWER {
            return Err(Failure::TooLong);
        }
    }
    Ok(body)
}

/// The issuer's own words, or what prevented them. None of them has a token.
fn reason<E: std::error::Error + 'static>(
    error: &RequestTokenError<E, impl ErrorResponse + 'static>,
) -> String {
    match error {
        // It goes to a terminal.
        RequestTokenError::ServerResponse(refusal) => {
            refusal.to_string().escape_debug().to_string()
        }
        RequestTokenError::Request(error) => causes(error),
        // The text of such an error may quote the answer, with tokens.
        RequestTokenError::Parse(..) => "its answer is not that of a token endpoint".to_owned(),
        RequestTokenError::Other(reason) => reason.clone(),
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Whether only this machine or the owner of a certificate can read what is sent there.
fn is_protected(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && !is_unencrypted(url)
}
