//! A context: a server, an organization there, and the credential for it.

use crate::config_fields::{Faults, Fields};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

/// One context of the settings' file. A file that was edited by hand may leave out any part; a flag or a variable
/// gives it then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// The address of Canyon.
    pub(crate) url: Option<String>,
    /// The organization.
    pub(crate) org: Option<String>,
    /// The token for both.
    pub(crate) token: Option<SecretString>,
    /// When the token expires; `None` if the file does not say it.
    pub(crate) token_expires_at: Option<Timestamp>,
    /// How a person signs in again; `None` for a token that was given.
    pub(crate) sign_in: Option<SignIn>,
}

/// The sign-in of a person at an issuer.
#[derive(Clone, Debug)]
pub(crate) struct SignIn {
    /// The organization's name for the issuer.
    pub(crate) identity_provider: String,
    /// The issuer's address.
    pub(crate) issuer: String,
    /// The id of this program at the issuer.
    pub(crate) client_id: String,
    /// The issuer's name for the person. Earlier versions did not keep it.
    pub(crate) subject: Option<String>,
    /// Renews the sign-in without the person.
    pub(crate) refresh_token: Option<SecretString>,
}

impl Context {
    const KEYS: [&'static str; 5] = ["url", "org", "token", "token_expires_at", "sign_in"];

    /// Reads the context at `path` of the file. After a fault the result is incomplete.
    pub(crate) fn read(value: &Value, path: &str, faults: &mut Faults) -> Self {
        let Some(fields) = Fields::new(value, path, &Self::KEYS, faults) else {
            return Self::default();
        };
        let sign_in = fields.member("sign_in");
        Self {
            url: fields.text("url", faults),
            org: fields.text("org", faults),
            token: fields.secret("token", faults),
            token_expires_at: fields.time("token_expires_at", faults),
            sign_in: sign_in
                .and_then(|value| SignIn::read(value, &fields.path_of("sign_in"), faults)),
        }
    }

    /// What the file has of it, with its secrets.
    pub(crate) fn to_value(&self) -> Value {
        let expires_at = self.token_expires_at.map(|at| at.to_string());
        object([
            ("url", self.url.clone().map(Value::from)),
            ("org", self.org.clone().map(Value::from)),
            ("token", self.token.as_ref().map(exposed)),
            ("token_expires_at", expires_at.map(Value::from)),
            ("sign_in", self.sign_in.as_ref().map(SignIn::to_value)),
        ])
    }

    /// Whether it has something that Canyon does not show again.
    pub(crate) fn has_secret(&self) -> bool {
        let sign_in = self.sign_in.as_ref();
        self.token.is_some() || sign_in.is_some_and(|sign_in| sign_in.refresh_token.is_some())
    }
}

impl SignIn {
    const KEYS: [&'static str; 5] =
        ["identity_provider", "issuer", "client_id", "subject", "refresh_token"];

    fn read(value: &Value, path: &str, faults: &mut Faults) -> Option<Self> {
        let fields = Fields::new(value, path, &Self::KEYS, faults)?;
        Some(Self {
            identity_provider: fields.required("identity_provider", faults),
            issuer: fields.required("issuer", faults),
            client_id: fields.required("client_id", faults),
            subject: fields.text("subject", faults),
            refresh_token: fields.secret("refresh_token", faults),
        })
    }

    fn to_value(&self) -> Value {
        object([
            ("identity_provider", Some(self.identity_provider.clone().into())),
            ("issuer", Some(self.issuer.clone().into())),
            ("client_id", Some(self.client_id.clone().into())),
            ("subject", self.subject.clone().map(Value::from)),
            ("refresh_token", self.refresh_token.as_ref().map(exposed)),
        ])
    }
}

fn exposed(secret: &SecretString) -> Value {
    secret.expose_secret().into()
}

/// An object of the members that are there.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}
