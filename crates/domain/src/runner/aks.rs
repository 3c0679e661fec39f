//! `kubernetes-aks`: an Azure Kubernetes Service cluster.

use super::properties::properties;
use super::{
    kubernetes::KubernetesJob,
    patterns::{AKS_CLUSTER, RESOURCE_GROUP, UUID},
};
use serde::Serialize;

properties! {
    /// `kubernetes-aks`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Aks {
        /// What to run.
        pub job: KubernetesJob = required_object(KubernetesJob::read),
        /// The cluster and the access to it.
        pub cluster: AksCluster = required_object(AksCluster::read),
    }
}

properties! {
    /// `cluster` of `kubernetes-aks`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct AksCluster {
        /// Name of the cluster.
        pub name: String = required_text(&AKS_CLUSTER),
        /// Resource group of the cluster.
        pub resource_group: String = required_text(&RESOURCE_GROUP.strict()),
        /// Subscription of the cluster.
        pub subscription_id: String = required_text(&UUID),
        /// How Canyon authenticates.
        pub auth: AzureAuth = required_object(AzureAuth::read),
    }
}

properties! {
    /// Canyon's OIDC token is a federated credential of an application: no secret is stored.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct AzureAuth {
        /// Entra tenant.
        pub tenant_id: String = required_text(&UUID),
        /// Application, or managed identity, that trusts Canyon's issuer.
        pub client_id: String = required_text(&UUID),
    }
}
