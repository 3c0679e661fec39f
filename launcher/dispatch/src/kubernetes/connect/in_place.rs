//! `kubernetes-agent`: the agent finds its cluster by itself; Canyon stores nothing of it.

use super::{Access, Connector, Identity, eks};
use crate::{AmbientAws, DispatchError};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock as _;
use canyon_identity::federation::FederationError;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use secrecy::SecretString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in which a pod has its service account's token and the cluster's certificate
/// authority (Kubernetes documentation, "Accessing the Kubernetes API from a Pod").
const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How an agent finds its cluster, and its credentials there.
#[derive(Clone, Debug)]
pub enum ClusterSource {
    /// The cluster that the agent runs in, with the pod's service account.
    InCluster {
        /// The API server's address.
        server: String,
        /// The folder with `token` and `ca.crt`. Both are read again as they change.
        folder: PathBuf,
    },
    /// A kubeconfig. It is the agent's own, so programs that it names are started.
    KubeConfig {
        /// The file.
        path: PathBuf,
        /// The name of the context; `None`: the current one.
        context: Option<String>,
    },
    /// A client certificate.
    Certificate {
        /// The API server's address.
        server: String,
        /// Its certificate authority, PEM in base64.
        authority: String,
        /// The certificate, PEM in base64.
        certificate: String,
        /// Its key, PEM in base64.
        key: SecretString,
    },
    /// An EKS cluster, with the agent's own role.
    EksIam {
        /// The agent's credentials.
        ambient: Arc<AmbientAws>,
        /// The cluster's region.
        region: String,
        /// Its name.
        cluster: String,
    },
}

impl ClusterSource {
    /// The cluster of the pod that this process runs in; `variable` reads the environment. `None`
    /// outside of a pod.
    pub fn of_pod(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let host = variable("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty())?;
        let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
        let server = match host.parse() {
            Ok(IpAddr::V6(address)) => format!("https://[{address}]:{port}"),
            _ => format!("https://{host}:{port}"),
        };
        Some(Self::InCluster { server, folder: ACCOUNT_FOLDER.into() })
    }

    /// The credentials that the agent presents, and what the cluster needs to accept them, for
    /// messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::InCluster { folder, .. } => {
                format!("the token of its service account, in {}", folder.display())
            }
            Self::KubeConfig { path, .. } => {
                format!("the credentials in {}: try `kubectl --kubeconfig` with it", path.display())
            }
            Self::Certificate { .. } => {
                "a client certificate: it must be signed by the authority of the API \
                server's flag `--client-ca-file`, and must not have expired"
                    .to_owned()
            }
            Self::EksIam { .. } => {
                "a login of the agent's own role: the cluster needs an access entry for \
                exactly this role"
                    .to_owned()
            }
        }
    }
}

/// A kubeconfig, the name of its context, and whether a proxy of the environment is used.
pub(super) struct Found {
    pub(super) kubeconfig: Kubeconfig,
    pub(super) context: Option<String>,
    pub(super) is_proxied: bool,
}

pub(super) async fn find(
    connector: &Connector,
    source: &ClusterSource,
) -> Result<Found, DispatchError> {
    let given = |access: Access| Found {
        kubeconfig: super::kubeconfig(access),
        context: None,
        is_proxied: true,
    };
    let until = connector.until(None);
    match source {
        ClusterSource::InCluster { server, folder } => {
            Ok(Found { kubeconfig: of_pod(server, folder)?, context: None, is_proxied: false })
        }
        ClusterSource::KubeConfig { path, context } => {
            let kubeconfig = read(path, context.as_deref())?;
            Ok(Found { kubeconfig, context: context.clone(), is_proxied: true })
        }
        ClusterSource::Certificate { server, authority, certificate, key } => Ok(given(Access {
            server: server.clone(),
            authority: Some(authority.clone()),
            proxy: None,
            identity: Identity::Certificate { certificate: certificate.clone(), key: key.clone() },
            until,
        })),
        ClusterSource::EksIam { ambient, region, cluster } => {
            let credentials =
                ambient.credentials().await.map_err(|error| without_credentials(&error))?;
            let caller = eks::Caller {
                http: ambient.http(),
                endpoint: ambient.endpoints().aws_eks.clone(),
                doing: format!("the agent's EKS cluster `{cluster}` in {region}"),
            };
            let (server, authority) = eks::describe(&caller, cluster, region, &credentials).await?;
            let now = connector.clock.now();
            let token = eks::token(&credentials, cluster, region, now.into());
            let token =
                token.ok_or_else(|| refused("the sign-in token for EKS cannot be signed"))?;
            let identity = Identity::Bearer(token);
            Ok(given(Access { server, authority: Some(authority), proxy: None, identity, until }))
        }
    }
}

fn refused(message: impl Into<String>) -> DispatchError {
    DispatchError::refused(FailureClass::Config, message)
}

/// The error if the agent has no credentials; nothing was sent to the cluster. A retry does not
/// help an agent without any role; a metadata service that cannot be reached at the agent's very
/// first request looks the same (aws-config).
fn without_credentials(error: &FederationError) -> DispatchError {
    match error {
        FederationError::Refused(_) => DispatchError::refused(error.class(), error.to_string()),
        FederationError::Assertion(_)
        | FederationError::Throttled(_)
        | FederationError::Unavailable(_) => {
            DispatchError::later(error.class(), error.to_string(), eks::RETRY_PAUSE)
        }
    }
}

/// A kubeconfig with the names of the files: kubelet replaces the token every hour, and kube reads
/// it again every minute.
fn of_pod(server: &str, folder: &Path) -> Result<Kubeconfig, DispatchError> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::metadata(&path).map_err(|error| {
            refused(format!(
                "cannot read {}: {error}; the agent's pod needs `automountServiceAccountToken: true`",
                path.display()
            ))
        })?;
        Ok::<_, DispatchError>(path.display().to_string())
    };
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority: Some(file("ca.crt")?),
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: Some(file("token")?), ..AuthInfo::default() };
    Ok(single(cluster, user))
}

/// A kubeconfig of one cluster and one user.
pub(super) fn single(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
    let name = "canyon".to_owned();
    let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

fn read(path: &Path, context: Option<&str>) -> Result<Kubeconfig, DispatchError> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| {
        refused(format!("cannot use the kubeconfig {}: {}", path.display(), Causes(&error)))
    })?;
    let wanted = context.or(kubeconfig.current_context.as_deref()).unwrap_or_default();
    let found = kubeconfig.contexts.iter().find(|named| named.name == wanted);
    let found = found.and_then(|named| named.context.as_ref()).ok_or_else(|| {
        let names: Vec<_> = kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect();
        let (file, names) = (path.display(), names.join(", "));
        refused(format!("kubeconfig {file} has no context `{wanted}`; it has: {names}"))
    })?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == found.cluster);
    let cluster = cluster.and_then(|named| named.cluster.as_ref());
    if cluster.is_some_and(|cluster| cluster.insecure_skip_tls_verify == Some(true)) {
        return Err(refused(format!(
            "cluster `{}` of {} has `insecure-skip-tls-verify`: an attacker on the network could launch jobs; set \
             the cluster's `certificate-authority` instead",
            found.cluster,
            path.display()
        )));
    }
    Ok(kubeconfig)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnFailure;
    use crate::kubernetes::LocalClusters;
    use crate::kubernetes::connect::AccessMethod;
    use aws_credential_types::credential_fn::provide_credentials_fn;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use aws_credential_types::provider::error::CredentialsError;
    use canyon_identity::aws_http;
    use canyon_identity::federation::Endpoints;

    /// The error for an EKS cluster if the agent's credentials are not available for this reason.
    async fn error_without(reason: fn() -> CredentialsError) -> DispatchError {
        let provider = provide_credentials_fn(move || async move { Err(reason()) });
        let provider = SharedCredentialsProvider::new(provider);
        let ambient =
            AmbientAws::new(provider, aws_http::client(), Endpoints::from_variables(&|_| None));
        let (region, cluster) = ("eu-central-1".to_owned(), "production".to_owned());
        let source = ClusterSource::EksIam { ambient: Arc::new(ambient), region, cluster };
        let way = AccessMethod::InPlace(Box::new(source.clone()));
        let connector = Connector::new(way, LocalClusters::Allowed);
        find(&connector, &source).await.err().unwrap()
    }

    #[tokio::test]
    async fn an_agent_without_any_role_is_refused_and_one_whose_provider_fails_retries() {
        let none = error_without(|| CredentialsError::not_loaded("no role here")).await;
        assert_eq!(
            (none.failure.class, none.on_failure),
            (FailureClass::Config, OnFailure::EndAttempt),
            "{none}"
        );
        assert!(none.to_string().contains("no role here"), "{none}");
        let silent = error_without(|| CredentialsError::provider_error("no answer")).await;
        let again = OnFailure::RetryAfter(eks::RETRY_PAUSE);
        assert_eq!(
            (silent.failure.class, silent.on_failure),
            (FailureClass::Lost, again),
            "{silent}"
        );
    }
}
