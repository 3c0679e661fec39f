//! `kubernetes-aks`: Azure Resource Manager describes the cluster, and its API server accepts an
//! Entra token; or, if the cluster does not use Entra, the certificate in the same answer.

use super::{Access, Connector, Identity, https, identity_of, of_federation};
use crate::kubernetes::cloud_answer;
use crate::{DispatchError, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::aks::AksCluster;
use canyon_identity::federation::AccessToken;
use kube::config::{AuthInfo, Kubeconfig};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The API version of "Managed Clusters - List Cluster User Credentials".
const API_VERSION: &str = "2025-05-01";
/// The application that every AKS cluster with Entra shares (Microsoft, "Use kubelogin to
/// authenticate users in AKS").
const SERVER_APPLICATION: &str = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";

#[derive(Debug, Deserialize)]
struct Credentials {
    #[serde(default)]
    kubeconfigs: Vec<Credential>,
}

#[derive(Deserialize)]
struct Credential {
    value: SecretString,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential")
    }
}

/// A token for Azure Resource Manager.
pub(super) async fn token(
    connector: &Connector,
    target: &Target,
    cluster: &AksCluster,
) -> Result<AccessToken, DispatchError> {
    let federation = connector.federation(target)?;
    let scope = format!("{}/.default", federation.endpoints().azure_resource_manager);
    let given = federation.azure(identity_of(target), &cluster.auth, &scope).await;
    given.map_err(|error| of_federation(target, &error))
}

pub(super) async fn access(
    connector: &Connector,
    target: &Target,
    cluster: &AksCluster,
) -> Result<Access, DispatchError> {
    let who = identity_of(target);
    let federation = connector.federation(target)?;
    let resource_manager = &federation.endpoints().azure_resource_manager;
    let token = token(connector, target, cluster).await?;
    let AksCluster { name, resource_group, subscription_id, .. } = cluster;
    let url = format!(
        "{resource_manager}/subscriptions/{subscription_id}/resourceGroups/{resource_group}/providers/\
        Microsoft.ContainerService/managedClusters/{name}/listClusterUserCredential"
    );
    let request = connector
        .http()?
        .post(url)
        .query(&[("api-version", API_VERSION), ("format", "exec")])
        .header(http::header::CONTENT_LENGTH, 0)
        .bearer_auth(token.secret.expose_secret());
    let what = format!(
        "get the user credential of AKS cluster `{name}` in resource group `{resource_group}`"
    );
    let answer: Credentials = cloud_answer::read(target, &what, request).await?;
    let read = answer.kubeconfigs.first().and_then(read);
    let Some((server, authority, user)) = read else {
        let message = format!("runner `{}`: Azure's answer contains no cluster", target.runner_id);
        return Err(DispatchError::refused(FailureClass::Config, message));
    };
    let certificate = user.client_certificate_data.zip(user.client_key_data);
    let (identity, ends_at) = if let Some((certificate, key)) = certificate {
        (Identity::Certificate { certificate, key }, None)
    } else {
        let token = federation
            .azure(who, &cluster.auth, SERVER_APPLICATION)
            .await
            .map_err(|error| of_federation(target, &error))?;
        (Identity::Bearer(token.secret), Some(token.ends_at))
    };
    let until = connector.until(ends_at);
    Ok(Access { server, authority: Some(authority), proxy: None, identity, until })
}

/// Address, authority and user of a kubeconfig. Of the user, only data is used, neither files nor
/// programs.
fn read(credential: &Credential) -> Option<(String, String, AuthInfo)> {
    let bytes = STANDARD.decode(credential.value.expose_secret()).ok()?;
    let config = Kubeconfig::from_yaml(&String::from_utf8(bytes).ok()?).ok()?;
    let current = config.current_context.as_ref();
    let context = config.contexts.iter().find(|context| Some(&context.name) == current);
    let context = context.or(config.contexts.first())?.context.as_ref()?;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    let user = config.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let user = user.and_then(|user| user.auth_info.clone()).unwrap_or_default();
    let server = https(cluster.server.as_ref()?)?;
    Some((server, cluster.certificate_authority_data.clone()?, user))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(user: &str) -> Option<(String, String, AuthInfo)> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: \
             https://k.hcp.westeurope.azmk8s.io:443\n    certificate-authority-data: Q0E=\ncontexts:\n- name: c\n  \
             context: {{cluster: k, user: u}}\nusers:\n- name: u\n  user: {user}\n"
        );
        read(&Credential { value: STANDARD.encode(text).into() })
    }

    #[test]
    fn address_and_authority_are_used_and_a_program_is_not() {
        let (server, authority, user) =
            kubeconfig("{exec: {apiVersion: client.authentication.k8s.io/v1, command: kubelogin}}")
                .unwrap();
        assert_eq!(server, "https://k.hcp.westeurope.azmk8s.io:443");
        assert_eq!(authority, "Q0E=");
        assert!(user.client_certificate_data.is_none());
    }

    #[test]
    fn a_cluster_without_entra_is_accessed_with_its_certificate() {
        let (_, _, user) =
            kubeconfig("{client-certificate-data: Yw==, client-key-data: aw==}").unwrap();
        assert_eq!(user.client_certificate_data.as_deref(), Some("Yw=="));
        assert!(user.client_key_data.is_some());
    }
}
