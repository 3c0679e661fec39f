//! The agent's proof of identity.
//!
//! The proof is a signature with the agent's own key, or a token of Canyon's. A service account gets its token in exchange
//! for a token of the platform (RFC 8693), so no secret is stored.

pub mod agent_key;
pub mod credential_helper;
pub mod exchange;
pub mod gcp;
pub mod key_secret;
pub mod source;
pub mod token_file;

use crate::exit::Exit;
use crate::settings::Settings;
use crate::settings::identity::IdentitySettings;
use crate::settings::served::Served;
use agent_key::{OwnKey, OwnKeyError};
use canyon_api::client::ServerClock;
use canyon_domain::causes::Causes;
use canyon_domain::ids::{AgentId, OrgId};
use exchange::Exchange;
use secrecy::{ExposeSecret, SecretString};
use source::Source;

/// Why the agent has no proof of identity at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignInError(pub String);

/// The proof that `settings` name, for one of their organizations. `http` is for the exchange.
///
/// # Errors
///
/// [`Exit`] when the key cannot be used, or this machine cannot make requests.
pub async fn of(
    settings: &Settings,
    served: &Served,
    http: &reqwest::Client,
) -> Result<SignIn, Exit> {
    let key = |key: Result<OwnKey, OwnKeyError>| match key {
        Ok(key) => {
            let (agent, org) = (settings.name.clone(), served.org.clone());
            Ok(SignIn::Key { key, agent, org })
        }
        Err(error) => Err(Exit::Settings(Causes(&error).to_string())),
    };
    match &settings.identity {
        IdentitySettings::OwnKey => {
            key(OwnKey::load_or_create(&settings.state_dir.join("agent.key")))
        }
        IdentitySettings::KeyFile(path) => key(OwnKey::load(path)),
        IdentitySettings::KeySecret(namespace, name) => {
            let pem = key_secret::load_or_create(namespace, name).await;
            let pem =
                pem.map_err(|error| Exit::Settings(format!("CANYON_AGENT_KEY_SECRET: {error}")))?;
            key(OwnKey::from_pem(pem.expose_secret(), &format!("the Secret `{namespace}/{name}`")))
        }
        IdentitySettings::Token(token) => Ok(SignIn::Token(token.clone())),
        IdentitySettings::ServiceAccount(from) => {
            let Some(account) = &served.account else {
                let reason = format!("no service account of organization `{}` is set", served.org);
                return Err(Exit::Settings(reason));
            };
            let source = Source::of(from).map_err(|error| Exit::Broken(error.to_string()))?;
            let (url, org) = (&settings.api_url, &served.org);
            let exchange = Exchange::new(http.clone(), url, org, account.clone(), source);
            Ok(SignIn::ServiceAccount(Box::new(exchange)))
        }
    }
}

/// The agent's proof.
#[derive(Debug)]
pub enum SignIn {
    /// It signs each request with its own key.
    Key {
        /// The key.
        key: OwnKey,
        /// The agent's name in the token.
        agent: AgentId,
        /// The organization in the token.
        org: OrgId,
    },
    /// It sends the token of its settings.
    Token(SecretString),
    /// It signs in as a service account, with a token of the platform.
    ServiceAccount(Box<Exchange>),
}

impl SignIn {
    /// The bearer token for the next request.
    ///
    /// # Errors
    ///
    /// [`SignInError`] names the source that gave no token, and the reason.
    pub async fn bearer(&self, clock: &ServerClock) -> Result<SecretString, SignInError> {
        match self {
            Self::Key { key, agent, org } => Ok(key.token(agent, org, clock.now())),
            Self::Token(token) => Ok(token.clone()),
            Self::ServiceAccount(exchange) => exchange.token().await,
        }
    }

    /// Drops a token that Canyon has refused. Returns whether there may be another one.
    pub fn forget(&self, refused: &SecretString) -> bool {
        match self {
            Self::ServiceAccount(exchange) => {
                exchange.forget(refused);
                true
            }
            Self::Key { .. } | Self::Token(_) => false,
        }
    }

    /// The public key in PEM, if the agent signs in with a key.
    pub fn public_key(&self) -> Option<String> {
        match self {
            Self::Key { key, .. } => Some(key.public().to_pem()),
            Self::Token(_) | Self::ServiceAccount(_) => None,
        }
    }

    /// The fingerprint of that key, which an administrator compares before adopting the agent.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Key { key, .. } => Some(key.public().fingerprint()),
            Self::Token(_) | Self::ServiceAccount(_) => None,
        }
    }
}
