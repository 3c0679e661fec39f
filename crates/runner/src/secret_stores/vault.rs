//! `HashiCorp` Vault and `OpenBao`: signs in by the method `jwt` with Canyon's token
//! (<https://developer.hashicorp.com/vault/api-docs/auth/jwt>), and reads the secrets engine `kv`
//! (<https://developer.hashicorp.com/vault/api-docs/secret/kv>).

use crate::sign_in::answer::{Answer, Calls};
use crate::sign_in::{Access, CallError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::json::Json;
use canyon_domain::secret_store::StoreConfiguration;
use reqwest::{Client, Method, RequestBuilder};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;
use url::Url;

/// Vault's header for its tokens.
const TOKEN: &str = "x-vault-token";
const NAMESPACE: &str = "x-vault-namespace";

/// A server, signed in.
pub(super) struct Vault {
    server: Server,
    /// Path of the secrets engine.
    mount: String,
    has_versions: bool,
    token: SecretString,
    identity: String,
}

struct Server {
    url: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct Login {
    auth: Auth,
}

#[derive(Deserialize)]
struct Auth {
    client_token: SecretString,
}

#[derive(Deserialize)]
struct Versioned {
    data: WithMetadata,
}

#[derive(Deserialize)]
struct WithMetadata {
    /// Absent if the version was deleted.
    data: Option<Json>,
}

#[derive(Deserialize)]
struct Unversioned {
    data: Json,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    errors: Vec<String>,
}

impl Vault {
    pub(super) async fn sign_in(
        of: &StoreConfiguration,
        access: &Access<'_>,
    ) -> Result<Self, CallError> {
        let StoreConfiguration::Vault {
            url, role, auth_mount, mount, kv_version, namespace, ..
        } = of
        else {
            return Err(CallError::Refused("it is no Vault".to_owned()));
        };
        let audience = of.audience().unwrap_or_default();
        let server = Server { url: url.clone(), namespace: namespace.clone() };
        let token = access.token(audience).await?;
        let path = format!("auth/{}/login", auth_mount.as_deref().unwrap_or("jwt"));
        let body = json!({ "role": role, "jwt": token.expose_secret() });
        let answer = access
            .calls
            .send(|client| Ok(server.request(client, Method::POST, &path)?.json(&body)))
            .await?;
        let login: Login = answer.read(&format!("{url} refuses the role `{role}`"), said).map_err(|unread| {
            match unread {
                CallError::Refused(reason) => {
                    let subject = subject(token.expose_secret());
                    CallError::Refused(format!(
                        "{reason}. Canyon's token has the issuer of jobs' tokens, the audience `{audience}` and the subject \
                         `{subject}`"
                    ))
                }
                unreachable @ CallError::Unreachable(_) => unreachable,
            }
        })?;
        let mount = mount.clone().unwrap_or_else(|| "secret".to_owned());
        let identity = format!("role `{role}` of {url}");
        let has_versions = kv_version.unwrap_or(2) == 2;
        Ok(Self { server, mount, has_versions, token: login.auth.client_token, identity })
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) async fn secret(
        &self,
        calls: &Calls,
        name: &str,
        version: Option<&str>,
    ) -> Result<Json, CallError> {
        let Self { mount, has_versions, .. } = self;
        let path =
            if *has_versions { format!("{mount}/data/{name}") } else { format!("{mount}/{name}") };
        let answer = calls
            .send(|client| {
                let mut request = self.server.request(client, Method::GET, &path)?;
                if let Some(version) = version {
                    request = request.query(&[("version", version)]);
                }
                Ok(request.header(TOKEN, self.token.expose_secret()))
            })
            .await?;
        if answer.status() == 404 {
            let reason = format!("there is no such secret or version at `{path}`");
            return Err(CallError::Refused(reason));
        }
        self.content(&answer, &path)
    }

    fn content(&self, answer: &Answer, path: &str) -> Result<Json, CallError> {
        let what = format!("`{path}` cannot be read");
        if !self.has_versions {
            return Ok(answer.read::<Unversioned>(&what, said)?.data);
        }
        let content = answer.read::<Versioned>(&what, said)?.data.data;
        content.ok_or_else(|| CallError::Refused(format!("{what}: that version was deleted")))
    }
}

impl Server {
    fn request(
        &self,
        client: &Client,
        method: Method,
        path: &str,
    ) -> Result<RequestBuilder, CallError> {
        let unusable = || CallError::Refused(format!("{} is no address of a server", self.url));
        let mut url = Url::parse(&self.url).map_err(|_| unusable())?;
        url.path_segments_mut()
            .map_err(|()| unusable())?
            .pop_if_empty()
            .push("v1")
            .extend(path.split('/'));
        let mut request = client.request(method, url);
        if let Some(namespace) = &self.namespace {
            request = request.header(NAMESPACE, namespace);
        }
        Ok(request)
    }
}

fn said(body: &[u8]) -> Option<String> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    Some(refusal.errors.join("; "))
}

/// The `sub` of a token.
fn subject(token: &str) -> String {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Option<serde_json::Value> =
        claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    let subject = claims.and_then(|claims| claims["sub"].as_str().map(str::to_owned));
    subject.unwrap_or_default()
}
