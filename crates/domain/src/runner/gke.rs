//! `kubernetes-gke`: a Google Kubernetes Engine cluster.

use super::{
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{GCP_AUDIENCE, GCP_PROJECT, GCP_SERVICE_ACCOUNT, GKE_NAME, PROXY_URL},
};
use serde::Serialize;

/// `kubernetes-gke`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gke {
    /// What to run.
    pub job: KubernetesJob,
    /// The cluster and the access to it.
    pub cluster: GkeCluster,
}

/// `cluster` of `kubernetes-gke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GkeCluster {
    /// Name of the cluster.
    pub name: String,
    /// Project of the cluster.
    pub project_id: String,
    /// Region or zone of the cluster.
    pub location: String,
    /// Proxy for connections to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Use the private endpoint of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_ip: Option<bool>,
    /// How Canyon authenticates.
    pub auth: GcpAuth,
}

/// Canyon exchanges its OIDC token for a Google token: no secret is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcpAuth {
    /// Workload identity provider that trusts Canyon's issuer.
    pub gcp_audience: String,
    /// Service account to act as.
    pub gcp_service_account: String,
}

impl Gke {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            job: fields.required_object("job", KubernetesJob::read),
            cluster: fields.required_object("cluster", |cluster| GkeCluster {
                name: cluster.required_text("name", &GKE_NAME),
                project_id: cluster.required_text("project_id", &GCP_PROJECT),
                location: cluster.required_text("location", &GKE_NAME),
                proxy_url: cluster.text("proxy_url", &PROXY_URL),
                internal_ip: cluster.flag("internal_ip"),
                auth: cluster.required_object("auth", |auth| GcpAuth {
                    gcp_audience: auth.required_text("gcp_audience", &GCP_AUDIENCE),
                    gcp_service_account: auth
                        .required_text("gcp_service_account", &GCP_SERVICE_ACCOUNT),
                }),
            }),
        }
    }
}
