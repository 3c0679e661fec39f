//! Secrets of the cluster that the job runs in, read by the service account of its pod
//! (<https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>).

use crate::sign_in::answer::Calls;
use crate::sign_in::{Access, CallError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::json::Json;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Where Kubernetes puts the pod's own identity.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The API server of the job's cluster.
pub(super) struct Kubernetes {
    calls: Calls,
    server: String,
    namespace: String,
    token: SecretString,
    identity: String,
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Status {
    message: String,
}

impl Kubernetes {
    pub(super) fn sign_in(namespace: Option<&str>, access: &Access<'_>) -> Result<Self, CallError> {
        let outside = || {
            CallError::Refused(
                "the job does not run in a Kubernetes cluster, or its pod mounts no token of its service account".to_owned(),
            )
        };
        let host = access.variable("KUBERNETES_SERVICE_HOST").ok_or_else(outside)?;
        let port = access.variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let read = |name: &str| {
            std::fs::read_to_string(Path::new(FOLDER).join(name)).map_err(|_| outside())
        };
        let own = read("namespace")?.trim().to_owned();
        let calls = Calls::trusting(read("ca.crt")?.as_bytes()).map_err(CallError::Refused)?;
        let token = SecretString::from(read("token")?.trim().to_owned());
        let namespace = namespace.map_or_else(|| own.clone(), str::to_owned);
        let identity = format!("the service account of its pod in namespace `{own}`");
        Ok(Self { calls, server: format!("https://{host}:{port}"), namespace, token, identity })
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// The content as an object of texts.
    pub(super) async fn secret(&self, name: &str) -> Result<Json, CallError> {
        let url = format!("{}/api/v1/namespaces/{}/secrets/{name}", self.server, self.namespace);
        let token = self.token.expose_secret();
        let answer = self.calls.send(|client| Ok(client.get(&url).bearer_auth(token))).await?;
        let said =
            |body: &[u8]| serde_json::from_slice(body).ok().map(|Status { message }| message);
        let what = format!("the Secret `{name}` of namespace `{}` cannot be read", self.namespace);
        let Secret { data } = answer.read(&what, said)?;
        let text = |(key, value): (String, String)| {
            let bytes = STANDARD.decode(value).map_err(|_| ())?;
            Ok((key, Json::String(String::from_utf8(bytes).map_err(|_| ())?)))
        };
        let fields: Result<_, ()> = data.into_iter().map(text).collect();
        fields
            .map(Json::Object)
            .map_err(|()| CallError::Refused(format!("{what}: it has a value that is not UTF-8")))
    }
}
