//! `kubernetes-gke`: a Google Kubernetes Engine cluster.

use super::check_step::{CLOUD_CLUSTER_STEPS, CheckStep};
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::trust::{self, Grants, TrustSubject};
use super::{
    kubernetes::KubernetesJob,
    patterns::{GCP_AUDIENCE, GCP_PROJECT, GCP_SERVICE_ACCOUNT, GKE_NAME, PROXY_URL},
};
use crate::state_storage::StateStorage;
use serde::Serialize;
use serde_json::{Map, Value};

properties! {
    /// `kubernetes-gke`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Gke {
        /// What to run.
        pub job: KubernetesJob = required_object(KubernetesJob::read),
        /// The cluster and the access to it.
        pub cluster: GkeCluster = required_object(GkeCluster::read),
    }
}

properties! {
    /// `cluster` of `kubernetes-gke`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct GkeCluster {
        /// Name of the cluster.
        pub name: String = required_text(&GKE_NAME),
        /// Project of the cluster.
        pub project_id: String = required_text(&GCP_PROJECT),
        /// Region or zone of the cluster.
        pub location: String = required_text(&GKE_NAME),
        /// Proxy for connections to the cluster.
        pub proxy_url: Option<String> = text(&PROXY_URL),
        /// Use the private endpoint of the cluster.
        pub internal_ip: Option<bool> = flag(),
        /// How Canyon authenticates.
        pub auth: GcpAuth = required_object(GcpAuth::read),
    }
}

properties! {
    /// Canyon exchanges its OIDC token for a Google token: no secret is stored.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct GcpAuth {
        /// Workload identity provider that trusts Canyon's issuer.
        pub gcp_audience: String = required_text(&GCP_AUDIENCE),
        /// Service account to act as.
        pub gcp_service_account: String = required_text(&GCP_SERVICE_ACCOUNT),
    }
}

impl Gke {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Cluster, launched_by: LaunchedBy::Canyon };
}

impl Kind for Gke {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Cluster(&self.job))
    }

    fn cloud_cluster(&self) -> Option<Map<String, Value>> {
        let it = &self.cluster;
        let members = [
            ("cluster_type", "gke"),
            ("name", it.name.as_str()),
            ("project_id", it.project_id.as_str()),
            ("zone", it.location.as_str()),
            ("region", it.location.as_str()),
        ];
        Some(members.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        CLOUD_CLUSTER_STEPS
    }

    fn grants(&self, trusted: &TrustSubject, storage: &StateStorage) -> Grants {
        let audience = Some(self.cluster.auth.gcp_audience.clone());
        Grants { audience, documents: trust::gcp::documents(trusted, self, storage) }
    }
}
