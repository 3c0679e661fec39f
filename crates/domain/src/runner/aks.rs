//! `kubernetes-aks`: an Azure Kubernetes Service cluster.

use super::{
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{AKS_CLUSTER, RESOURCE_GROUP, UUID},
};
use serde::Serialize;

/// `kubernetes-aks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Aks {
    /// What to run.
    pub job: KubernetesJob,
    /// The cluster and the access to it.
    pub cluster: AksCluster,
}

/// `cluster` of `kubernetes-aks`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AksCluster {
    /// Name of the cluster.
    pub name: String,
    /// Resource group of the cluster.
    pub resource_group: String,
    /// Subscription of the cluster.
    pub subscription_id: String,
    /// How Canyon authenticates.
    pub auth: AzureAuth,
}

/// Canyon's OIDC token is a federated credential of an application: no secret is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AzureAuth {
    /// Entra tenant.
    pub tenant_id: String,
    /// Application, or managed identity, that trusts Canyon's issuer.
    pub client_id: String,
}

impl Aks {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            job: fields.required_object("job", KubernetesJob::read),
            cluster: fields.required_object("cluster", |cluster| AksCluster {
                name: cluster.required_text("name", &AKS_CLUSTER),
                resource_group: cluster.required_text("resource_group", &RESOURCE_GROUP.strict()),
                subscription_id: cluster.required_text("subscription_id", &UUID),
                auth: cluster.required_object("auth", |auth| AzureAuth {
                    tenant_id: auth.required_text("tenant_id", &UUID),
                    client_id: auth.required_text("client_id", &UUID),
                }),
            }),
        }
    }
}
