//! `kubernetes-aks`: an Azure Kubernetes Service cluster.

use super::check_step::{CLOUD_CLUSTER_STEPS, CheckStep};
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::trust::{self, Grants, TrustSubject};
use super::{
    kubernetes::KubernetesJob,
    patterns::{AKS_CLUSTER, RESOURCE_GROUP, UUID},
};
use crate::job_identity::AZURE_AUDIENCE;
use crate::state_storage::StateStorage;
use serde::Serialize;
use serde_json::{Map, Value};

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

impl Aks {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Cluster, launched_by: LaunchedBy::Canyon };
}

impl Kind for Aks {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Cluster(&self.job))
    }

    fn cloud_cluster(&self) -> Option<Map<String, Value>> {
        let it = &self.cluster;
        let members = [
            ("cluster_type", "aks"),
            ("name", it.name.as_str()),
            ("resource_group", it.resource_group.as_str()),
            ("subscription_id", it.subscription_id.as_str()),
        ];
        Some(members.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        CLOUD_CLUSTER_STEPS
    }

    fn grants(&self, trusted: &TrustSubject, storage: &StateStorage) -> Grants {
        let audience = Some(AZURE_AUDIENCE.to_owned());
        Grants { audience, documents: trust::azure::documents(trusted, self, storage) }
    }
}
