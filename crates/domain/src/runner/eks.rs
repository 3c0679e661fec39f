//! `kubernetes-eks`: an Amazon EKS cluster, and the AWS login that it shares with `serverless-ecs`.

use super::{
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{EKS_CLUSTER, EKS_REGION, REGION, ROLE_ARN, SESSION_NAME, partition_of},
};
use serde::Serialize;

/// `kubernetes-eks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Eks {
    /// What to run.
    pub job: KubernetesJob,
    /// The cluster and the access to it.
    pub cluster: EksCluster,
}

/// `cluster` of `kubernetes-eks`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EksCluster {
    /// Name of the cluster.
    pub name: String,
    /// Region of the cluster.
    pub region: String,
    /// How Canyon authenticates.
    pub auth: AwsAuth,
}

/// Canyon exchanges its OIDC token for credentials of a role: no secret is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AwsAuth {
    /// Role to assume.
    pub role_arn: String,
    /// Name of the session; `{org_id}-{runner_id}` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Region of the STS endpoint; the region of the runner unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sts_region: Option<String>,
}

impl AwsAuth {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            role_arn: fields.required_text("role_arn", &ROLE_ARN),
            session_name: fields.text("session_name", &SESSION_NAME),
            sts_region: fields.text("sts_region", &REGION),
        }
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

impl Eks {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            job: fields.required_object("job", KubernetesJob::read),
            cluster: fields.required_object("cluster", |cluster| {
                let read = EksCluster {
                    name: cluster.required_text("name", &EKS_CLUSTER),
                    region: cluster.required_text("region", &EKS_REGION),
                    auth: cluster.required_object("auth", AwsAuth::read),
                };
                check_partition(cluster, "auth.role_arn", &read.auth.role_arn, &read.region);
                read
            }),
        }
    }
}
