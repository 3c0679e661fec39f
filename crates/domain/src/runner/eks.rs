//! `kubernetes-eks`: an Amazon EKS cluster, and the AWS login that it shares with `serverless-ecs`.

use super::check_step::{CLOUD_CLUSTER_STEPS, CheckStep};
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::trust::{self, Grants, TrustSubject};
use super::{
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{EKS_CLUSTER, EKS_REGION, REGION, ROLE_ARN, SESSION_NAME, partition_of},
};
use crate::state_storage::StateStorage;
use serde::Serialize;
use serde_json::{Map, Value};

properties! {
    /// `kubernetes-eks`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct Eks {
        /// What to run.
        pub job: KubernetesJob = required_object(KubernetesJob::read),
        /// The cluster and the access to it.
        pub cluster: EksCluster = required_object(EksCluster::read),
    }
}

properties! {
    /// `cluster` of `kubernetes-eks`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct EksCluster, check {
        /// Name of the cluster.
        pub name: String = required_text(&EKS_CLUSTER),
        /// Region of the cluster.
        pub region: String = required_text(&EKS_REGION),
        /// How Canyon authenticates.
        pub auth: AwsAuth = required_object(AwsAuth::read),
    }
}

properties! {
    /// Canyon exchanges its OIDC token for credentials of a role: no secret is stored.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct AwsAuth {
        /// Role to assume.
        pub role_arn: String = required_text(&ROLE_ARN),
        /// Name of the session; `{org_id}-{runner_id}` unless set.
        pub session_name: Option<String> = text(&SESSION_NAME),
        /// Region of the STS endpoint; the region of the runner unless set.
        pub sts_region: Option<String> = text(&REGION),
    }
}

/// Why `arn` cannot be used in `region`, if so: AWS partitions are separate.
pub(crate) fn other_partition(arn: &str, region: &str) -> Option<String> {
    let wanted = partition_of(region);
    let is_other = arn.split(':').nth(1).is_some_and(|given| given != wanted);
    (!region.is_empty() && is_other)
        .then(|| format!("must be of the partition `{wanted}`, as the region is"))
}

/// Warns if `arn` cannot be used in `region`.
pub(crate) fn check_partition(fields: &mut Fields, name: &str, arn: &str, region: &str) {
    if let Some(reason) = other_partition(arn, region) {
        fields.warn(name, reason);
    }
}

impl EksCluster {
    fn check(&self, fields: &mut Fields) {
        check_partition(fields, "auth.role_arn", &self.auth.role_arn, &self.region);
    }
}

impl Eks {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Cluster, launched_by: LaunchedBy::Canyon };
}

impl Kind for Eks {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Cluster(&self.job))
    }

    fn cloud_cluster(&self) -> Option<Map<String, Value>> {
        let it = &self.cluster;
        let members =
            [("cluster_type", "eks"), ("name", it.name.as_str()), ("region", it.region.as_str())];
        Some(members.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        CLOUD_CLUSTER_STEPS
    }

    fn grants(&self, trusted: &TrustSubject, storage: &StateStorage) -> Grants {
        let audience = Some(trust::aws::audience(&self.cluster.auth).to_owned());
        Grants { audience, documents: trust::aws::eks_documents(trusted, self, storage) }
    }
}
