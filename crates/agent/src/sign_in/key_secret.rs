//! The agent's own key in a Secret of its cluster, so that it outlives the pod.
//!
//! The person who installs the agent creates the Secret, empty. The agent may read and write only this one.
//! No other program handles the key.

use super::agent_key::new_pem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::causes::Causes;
use reqwest::{Certificate, Client, Method, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The folder in which the kubelet puts the pod's credentials for the API server.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ENTRY: &str = "private_key";
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the write is tried: another agent may create the key at the same time, and then this one uses that key.
const TRIES: u32 = 5;
const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// The API server of the cluster that this process is in.
pub struct Cluster {
    http: Client,
    url: String,
    token: SecretString,
}

impl Cluster {
    /// The API server of the cluster in which this pod runs.
    ///
    /// # Errors
    ///
    /// A text that names the missing variable or file.
    pub fn of_this_pod() -> Result<Self, String> {
        let variable = |name: &str| {
            std::env::var(name)
                .map_err(|_| format!("{name} is not set: this process is not in a pod"))
        };
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        Self::at(&format!("https://{host}:{port}"), Path::new(FOLDER))
    }

    /// The API server at `url`, with the files `token` and `ca.crt` of `folder`.
    ///
    /// # Errors
    ///
    /// A text that names the missing or invalid file.
    pub fn at(url: &str, folder: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))
        };
        let authorities = Certificate::from_pem_bundle(read("ca.crt")?.as_bytes())
            .map_err(|error| format!("ca.crt: {}", Causes(&error)))?;
        let http = Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only(authorities)
            // Without a proxy, which would see the pod's token.
            .no_proxy()
            .build()
            .map_err(|error| Causes(&error).to_string())?;
        Ok(Self { http, url: url.to_owned(), token: read("token")?.trim().to_owned().into() })
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response, String> {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        request = request.bearer_auth(self.token.expose_secret());
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.map_err(|error| {
            format!("cannot reach the cluster's API server: {}", Causes(&error.without_url()))
        })
    }
}

/// The key in the Secret of this pod's cluster. If the Secret has none, a new key is written to it.
///
/// # Errors
///
/// A text that says what is wrong, and what to change.
pub async fn load_or_create(namespace: &str, name: &str) -> Result<SecretString, String> {
    load_or_create_in(&Cluster::of_this_pod()?, namespace, name).await
}

/// As [`load_or_create`], with the given cluster.
///
/// # Errors
///
/// A text that says what is wrong, and what to change.
pub async fn load_or_create_in(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<SecretString, String> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    for _ in 0..TRIES {
        let answer = cluster.call(Method::GET, &path, None).await?;
        let mut secret = match answer.status() {
            StatusCode::OK => read(answer).await?,
            StatusCode::NOT_FOUND => {
                return Err(format!(
                    "there is no Secret `{namespace}/{name}`; create an empty one"
                ));
            }
            status => return Err(refused(status, "get", namespace, name)),
        };
        if let Some(key) = entry(&secret)? {
            return Ok(key);
        }
        let key = new_pem();
        let Some(object) = secret.as_object_mut() else {
            return Err("the answer is not a JSON object".to_owned());
        };
        let data = object.entry("data").or_insert_with(|| json!({}));
        data[ENTRY] = json!(STANDARD.encode(key.expose_secret()));
        // The version that was read is part of the object: if another agent writes first, this write is refused.
        match cluster.call(Method::PUT, &path, Some(&secret)).await?.status() {
            StatusCode::OK => return Ok(key),
            StatusCode::CONFLICT => {}
            status => return Err(refused(status, "update", namespace, name)),
        }
    }
    Err(format!("other processes keep changing the Secret `{namespace}/{name}`"))
}

fn refused(status: StatusCode, verb: &str, namespace: &str, name: &str) -> String {
    format!(
        "the cluster answers {status} to `{verb}` of the Secret `{namespace}/{name}`; the agent's service \
         account needs a Role that allows it"
    )
}

fn entry(secret: &Value) -> Result<Option<SecretString>, String> {
    let Some(text) = secret["data"][ENTRY].as_str() else { return Ok(None) };
    let bytes = STANDARD.decode(text).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(Some(text.ok_or_else(|| format!("`{ENTRY}` in the Secret is not text"))?.into()))
}

async fn read(mut response: Response) -> Result<Value, String> {
    let mut bytes = Vec::new();
    let failed = |error: reqwest::Error| Causes(&error.without_url()).to_string();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ANSWER {
            return Err("the Secret is too long".to_owned());
        }
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("the answer is not a Secret: {error}"))
}
