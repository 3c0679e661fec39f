//! The sign-in in a browser of this machine: the authorization code with PKCE (RFC 7636), received at a port of this
//! machine (RFC 8252, section 7.3).

use super::id_token;
use super::issuer::{Issuer, Tokens};
use crate::error::CliError;
use crate::output::Output;
use crate::process_variable::variable;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use oauth2::{AuthorizationCode, CsrfToken, PkceCodeChallenge, RedirectUrl};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use url::Url;

/// How long the person has to sign in.
const PATIENCE: Duration = Duration::from_mins(10);

/// The address of this machine to which the issuer sends the browser back. Some issuers accept only an address that
/// they know exactly.
#[derive(Clone, Debug)]
pub(crate) struct RedirectUri(Url);

impl FromStr for RedirectUri {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "it must be an address of this machine with a port, such as http://localhost:8085/callback";
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        let is_own = ["localhost", "127.0.0.1"].contains(&url.host_str().unwrap_or_default());
        let is_plain = url.query().is_none() && url.fragment().is_none();
        let is_plain = is_plain && url.username().is_empty() && url.password().is_none();
        let has_port = url.port().is_some_and(|port| port != 0);
        let is_fit = url.scheme() == "http" && is_own && is_plain && has_port;
        if is_fit { Ok(Self(url)) } else { Err(EXPECTED) }
    }
}

/// Whether this machine seems to have a browser that the person sees.
pub(super) fn is_likely() -> bool {
    if variable("BROWSER").is_some() || cfg!(any(target_os = "macos", target_os = "windows")) {
        return variable("SSH_CONNECTION").is_none();
    }
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| variable(name).is_some())
        && variable("SSH_CONNECTION").is_none()
}

/// Opens the issuer's page in a browser and waits for the answer.
pub(super) async fn sign_in(
    issuer: &Issuer,
    redirect: Option<RedirectUri>,
    output: Output,
) -> Result<Tokens, CliError> {
    let port = redirect.as_ref().and_then(|RedirectUri(url)| url.port()).unwrap_or(0);
    let failed = |source| CliError::SignIn {
        message: format!("cannot listen on port {port} of this machine: {source}"),
        hint: Some("choose another port with --redirect-uri, or use --device".to_owned()),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let redirect = match redirect {
        Some(RedirectUri(url)) => RedirectUrl::from_url(url),
        None => RedirectUrl::new(format!("http://127.0.0.1:{port}/callback"))
            .map_err(|error| CliError::usage(error.to_string()))?,
    };
    let path = redirect.url().path().to_owned();
    let client =
        issuer.client().set_auth_uri(issuer.authorization_url()).set_redirect_uri(redirect);
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let nonce = CsrfToken::new_random();
    let (url, state) = client
        .authorize_url(CsrfToken::new_random)
        .add_scopes(issuer.scopes())
        .add_extra_param("nonce", nonce.secret())
        .set_pkce_challenge(challenge)
        .url();
    output.notice("sign in with your browser at:");
    output.notice(&format!("    {url}"));
    output.notice("waiting until you have signed in; Ctrl-C ends this");
    open(url);
    let expected = Expected {
        path,
        state,
        issuer: issuer.name().to_owned(),
        must_name_issuer: issuer.names_itself(),
    };
    let code = receive(listener, expected).await?;
    let answer = client.exchange_code(code).set_pkce_verifier(verifier);
    let tokens = issuer.tokens(answer.request_async(&issuer.http()).await)?;
    // Another sign-in's token could otherwise be passed in (OpenID Connect Core, section 3.1.3.7). Canyon verifies the
    // signature.
    let answered = id_token::claim(tokens.id_token(issuer.name())?, "nonce");
    if answered.as_deref() != Some(nonce.secret()) {
        return Err(CliError::SignIn {
            message: format!("the token of the issuer {} is for another sign-in", issuer.name()),
            hint: Some("try again".to_owned()),
        });
    }
    Ok(tokens)
}

/// Opens the page in the person's browser, if there is one. The person may also follow the printed address.
fn open(url: Url) {
    // It waits for some browsers.
    drop(std::thread::spawn(move || webbrowser::open(url.as_str())));
}

/// What the answer must have.
struct Expected {
    /// The path at which it arrives.
    path: String,
    state: CsrfToken,
    issuer: String,
    must_name_issuer: bool,
}

/// The answer of the issuer, in the parameters of the address to which it sends the browser.
#[derive(Debug, Deserialize)]
struct Answer {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Expected {
    /// The code of an answer; `None` for a request that does not belong to this sign-in.
    fn judge(&self, answer: Answer) -> Option<Result<AuthorizationCode, String>> {
        if answer.state.as_ref() != Some(self.state.secret()) {
            return None;
        }
        // RFC 9207: another issuer could have sent the browser here.
        let names_other = answer.iss.as_ref().is_some_and(|iss| *iss != self.issuer);
        if names_other || self.must_name_issuer && answer.iss.is_none() {
            return Some(Err("the answer is from another issuer".to_owned()));
        }
        Some(match (answer.code, answer.error) {
            (Some(code), None) => Ok(AuthorizationCode::new(code)),
            (_, Some(error)) => Err(match answer.error_description {
                Some(more) => format!("{error}: {more}"),
                None => error,
            }),
            (None, None) => Err("the answer has no code".to_owned()),
        })
    }
}

type Judged = Result<AuthorizationCode, String>;

/// Waits for the browser to come back.
async fn receive(listener: TcpListener, expected: Expected) -> Result<AuthorizationCode, CliError> {
    let (sender, mut receiver) = mpsc::channel(1);
    // As a fallback: a path of the person's choice may have characters that routes give a meaning.
    let router = Router::new().fallback(get(answered)).with_state((Arc::new(expected), sender));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        // An error is an end too: the sender is gone.
        let _ = ended.await;
    });
    let server = tokio::spawn(server.into_future());
    let judged = tokio::time::timeout(PATIENCE, receiver.recv()).await;
    // The browser gets its page before the server ends.
    drop(end);
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    let refused = |reason: String| CliError::SignIn {
        message: format!("the issuer refused the sign-in: {reason}"),
        hint: Some("sign in again with `canyon login`".to_owned()),
    };
    match judged {
        Ok(Some(Ok(code))) => Ok(code),
        Ok(Some(Err(reason))) => Err(refused(reason.escape_debug().to_string())),
        Ok(None) | Err(_) => Err(CliError::SignIn {
            message: format!("no one signed in within {} minutes", PATIENCE.as_secs() / 60),
            hint: Some("sign in again with `canyon login`".to_owned()),
        }),
    }
}

async fn answered(
    State((expected, sender)): State<(Arc<Expected>, mpsc::Sender<Judged>)>,
    uri: Uri,
    Query(answer): Query<Answer>,
) -> Response {
    let answer = Some(answer).filter(|_| uri.path() == expected.path);
    let Some(judged) = answer.and_then(|answer| expected.judge(answer)) else {
        return page(
            StatusCode::BAD_REQUEST,
            "This does not belong to the sign-in that is waited for.",
        );
    };
    let text = match &judged {
        Ok(_) => "You may close this page, and go on in your terminal.",
        Err(_) => "The sign-in failed. Your terminal has the reason.",
    };
    // Only the first answer counts; a reload of the page is none.
    let _ = sender.try_send(judged);
    page(StatusCode::OK, text)
}

fn page(status: StatusCode, text: &str) -> Response {
    // The address has the code: no other site may learn it.
    let headers =
        [(CONTENT_SECURITY_POLICY, "default-src 'none'"), (REFERRER_POLICY, "no-referrer")];
    let html =
        format!("<!doctype html><html lang=\"en\"><title>Canyon</title><p>{text}</p></html>");
    (status, headers, Html(html)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(must_name_issuer: bool, answer: &str) -> Option<Judged> {
        let (state, issuer) = (CsrfToken::new("s".into()), "https://login.example.com".into());
        let answer = serde_json::from_str(answer).unwrap();
        let path = "/callback".into();
        Expected { path, state, issuer, must_name_issuer }.judge(answer)
    }

    fn code(judged: Option<Judged>) -> Option<Result<String, String>> {
        judged.map(|judged| judged.map(|code| code.secret().clone()))
    }

    #[test]
    fn only_the_answer_to_this_sign_in_counts() {
        assert_eq!(code(judged(false, r#"{"state":"x","code":"c"}"#)), None);
        assert_eq!(code(judged(false, r#"{"code":"c"}"#)), None);
        assert_eq!(code(judged(false, r#"{"state":"s","code":"c"}"#)), Some(Ok("c".into())));
        let refused = code(judged(false, r#"{"state":"s","error":"access_denied"}"#));
        assert_eq!(refused, Some(Err("access_denied".into())));
        for answer in
            [r#"{"state":"s","code":"c"}"#, r#"{"state":"s","code":"c","iss":"https://other"}"#]
        {
            let refused = code(judged(true, answer));
            assert_eq!(refused, Some(Err("the answer is from another issuer".into())));
        }
        let named = r#"{"state":"s","code":"c","iss":"https://login.example.com"}"#;
        assert_eq!(code(judged(true, named)), Some(Ok("c".into())));
    }

    #[test]
    fn a_redirect_uri_is_an_address_of_this_machine() {
        for good in ["http://localhost:8085/callback", "http://127.0.0.1:1/"] {
            assert!(good.parse::<RedirectUri>().is_ok(), "{good}");
        }
        for bad in [
            "https://localhost:8085/",
            "http://example.com:80/",
            "http://localhost/",
            "http://localhost:0/",
            "http://u:p@localhost:1/",
            "http://localhost:1/?a=b",
            "x",
        ] {
            assert!(bad.parse::<RedirectUri>().is_err(), "{bad}");
        }
    }
}
