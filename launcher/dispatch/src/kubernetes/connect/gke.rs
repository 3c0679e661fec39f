//! `kubernetes-gke`: Google describes the cluster, and its API server accepts Google's access
//! token.

use super::{Access, Connector, Identity, https, identity_of, of_federation};
use crate::kubernetes::cloud_answer;
use crate::{DispatchError, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::gke::GkeCluster;
use canyon_identity::federation::AccessToken;
use secrecy::ExposeSecret;
use serde::Deserialize;

/// The fields of a `Cluster` that are read (Google Kubernetes Engine API, v1,
/// `projects.locations.clusters`).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Described {
    endpoint: String,
    master_auth: MasterAuth,
    private_cluster_config: PrivateCluster,
    control_plane_endpoints_config: Endpoints,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MasterAuth {
    cluster_ca_certificate: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PrivateCluster {
    private_endpoint: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Endpoints {
    dns_endpoint_config: DnsEndpoint,
    ip_endpoints_config: IpEndpoints,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DnsEndpoint {
    endpoint: String,
    allow_external_traffic: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IpEndpoints {
    enabled: Option<bool>,
    private_endpoint: String,
}

pub(super) async fn token(
    connector: &Connector,
    target: &Target,
    cluster: &GkeCluster,
) -> Result<AccessToken, DispatchError> {
    let given = connector.federation(target)?.gcp(identity_of(target), &cluster.auth).await;
    given.map_err(|error| of_federation(target, &error))
}

pub(super) async fn access(
    connector: &Connector,
    target: &Target,
    cluster: &GkeCluster,
) -> Result<Access, DispatchError> {
    let token = token(connector, target, cluster).await?;
    let GkeCluster { name, project_id, location, .. } = cluster;
    let url = format!(
        "{}/v1/projects/{project_id}/locations/{location}/clusters/{name}",
        connector.federation(target)?.endpoints().gke
    );
    let request = connector.http()?.get(url).bearer_auth(token.secret.expose_secret());
    let what = format!("describe GKE cluster `{name}` of project `{project_id}` in `{location}`");
    let described: Described = cloud_answer::read(target, &what, request).await?;
    let (server, authority) = endpoint(cluster, &described).ok_or_else(|| {
        let wanted = if cluster.internal_ip == Some(true) { " for `internal_ip`" } else { "" };
        let message = format!(
            "runner `{}`: GKE cluster `{name}` has no endpoint{wanted} yet; check its state in the console",
            target.runner_id
        );
        DispatchError::refused(FailureClass::Config, message)
    })?;
    Ok(Access {
        server,
        authority,
        proxy: cluster.proxy_url.clone(),
        until: connector.until(Some(token.ends_at)),
        identity: Identity::Bearer(token.secret),
    })
}

/// The address and its certificate authority: the cluster's own for its IP addresses, a public one
/// for its DNS name ("Customize your network isolation in GKE").
fn endpoint(cluster: &GkeCluster, described: &Described) -> Option<(String, Option<String>)> {
    let own = Some(described.master_auth.cluster_ca_certificate.clone())
        .filter(|certificate| !certificate.is_empty());
    let Endpoints { dns_endpoint_config: dns, ip_endpoints_config: ip } =
        &described.control_plane_endpoints_config;
    if cluster.internal_ip == Some(true) {
        let private = [&ip.private_endpoint, &described.private_cluster_config.private_endpoint];
        let address = private.into_iter().find(|address| !address.is_empty())?;
        return Some((https(address)?, Some(own?)));
    }
    let by_name = ip.enabled == Some(false) && dns.allow_external_traffic;
    if by_name && !dns.endpoint.is_empty() {
        return Some((https(&dns.endpoint)?, None));
    }
    let address = Some(&described.endpoint).filter(|address| !address.is_empty())?;
    Some((https(address)?, Some(own?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn choose(internal: bool, described: serde_json::Value) -> Option<(String, Option<String>)> {
        let cluster = GkeCluster { internal_ip: Some(internal), ..GkeCluster::default() };
        endpoint(&cluster, &serde_json::from_value(described).unwrap())
    }

    #[test]
    fn the_endpoint_is_one_that_accepts_connections() {
        let own = Some("Q0E=".to_owned());
        let full = json!({
            "endpoint": "34.90.1.2",
            "masterAuth": { "clusterCaCertificate": "Q0E=" },
            "privateClusterConfig": { "privateEndpoint": "10.0.0.2" },
            "controlPlaneEndpointsConfig": {
                "dnsEndpointConfig": { "endpoint": "gke-1.gke.goog", "allowExternalTraffic": true },
                "ipEndpointsConfig": { "enabled": true },
            },
        });
        assert_eq!(choose(false, full.clone()), Some(("https://34.90.1.2".into(), own.clone())));
        assert_eq!(choose(true, full.clone()), Some(("https://10.0.0.2".into(), own)));
        let mut by_name = full;
        by_name["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]["enabled"] = json!(false);
        assert_eq!(choose(false, by_name), Some(("https://gke-1.gke.goog".into(), None)));
    }

    #[test]
    fn an_address_without_the_clusters_own_authority_is_not_used() {
        assert_eq!(choose(false, json!({ "endpoint": "34.90.1.2" })), None);
        assert_eq!(choose(true, json!({ "endpoint": "34.90.1.2" })), None);
        let plain = json!({
            "endpoint": "http://34.90.1.2", "masterAuth": { "clusterCaCertificate": "Q0E=" },
        });
        assert_eq!(choose(false, plain), None);
    }
}
