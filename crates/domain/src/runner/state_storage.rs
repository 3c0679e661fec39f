//! `state_storage_configuration`: where the state of a runner's environments is stored.

use crate::{
    field_error::FieldErrors,
    runner::{
        configuration::{RunnerType, type_of},
        fields::Fields,
        kind::JobPlace,
        patterns::{
            BUCKET, DIRECTORY, DNS_LABEL, PATH_PREFIX, RESOURCE_GROUP, STORAGE_ACCOUNT,
            STORAGE_CONTAINER,
        },
        string_enum::listed,
        tagged_object::tagged_object,
    },
};
use serde_json::Value;

tagged_object! {
    /// The types of state storage.
    StorageType,
    /// `state_storage_configuration`. It never contains credentials: jobs take them from their own identity or from
    /// environment variables.
    StateStorage.storage_type,
    /// Secrets in the cluster that the job runs in.
    Kubernetes = "kubernetes" {
        /// Namespace of the secrets.
        namespace: String = required_text(&DNS_LABEL),
    }
    /// An Amazon S3 bucket.
    S3 = "s3" {
        /// Name of the bucket.
        bucket: String = required_text(&BUCKET),
        /// Path prefix of the state objects.
        path_prefix: Option<String> = text(&PATH_PREFIX),
    }
    /// A Google Cloud Storage bucket.
    Gcs = "gcs" {
        /// Name of the bucket.
        bucket: String = required_text(&BUCKET),
        /// Path prefix of the state objects.
        path_prefix: Option<String> = text(&PATH_PREFIX),
    }
    /// An Azure storage container.
    Azurerm = "azurerm" {
        /// Resource group of the storage account.
        resource_group_name: Option<String> = text(&RESOURCE_GROUP),
        /// Name of the storage account.
        storage_account_name: String = required_text(&STORAGE_ACCOUNT),
        /// Name of the container.
        container_name: String = required_text(&STORAGE_CONTAINER),
        /// Path prefix of the state blobs.
        path_prefix: Option<String> = text(&PATH_PREFIX),
    }
    /// A directory on the machine that the job runs on.
    Local = "local" {
        /// Absolute path of the directory.
        path: String = required_text(&DIRECTORY),
    }
}

impl StateStorage {
    pub(crate) fn read(value: Value, path: &str, errors: &mut FieldErrors) -> Option<Self> {
        let storage_type: StorageType = type_of(&value, path, errors)?;
        Fields::read(value, path, errors, |fields| {
            fields.take("type");
            Self::read_as(storage_type, fields)
        })
    }
}

impl StorageType {
    /// Whether the state is on the job's machine or in its cluster, so that each platform has another one.
    pub const fn is_on_job_platform(self) -> bool {
        match self {
            Self::Kubernetes | Self::Local => true,
            Self::S3 | Self::Gcs | Self::Azurerm => false,
        }
    }

    /// Why a runner of type `runner` cannot keep its state here, if so: the published matrix, extended by the
    /// same reasoning to `local` storage and to runner types that it does not list.
    pub fn refusal_for(self, runner: RunnerType) -> Option<String> {
        let because = self.obstacle(runner.job_place())?;
        let fits = |other: &&StorageType| other.obstacle(runner.job_place()).is_none();
        let others: Vec<&str> = Self::ALL.iter().filter(fits).map(|other| other.as_str()).collect();
        let others = listed(&others);
        Some(format!(
            "`{self}` state cannot be used by a `{runner}` runner: {because}; use one of {others}"
        ))
    }

    /// A Docker host or a laptop may have any identity; an ECS task has its AWS role. The job's disk must outlive the
    /// job.
    const fn obstacle(self, place: JobPlace) -> Option<&'static str> {
        match (self, place) {
            (Self::S3, _)
            | (Self::Kubernetes, JobPlace::Cluster)
            | (
                Self::Gcs | Self::Azurerm,
                JobPlace::Cluster | JobPlace::Docker | JobPlace::Machine,
            )
            | (Self::Local, JobPlace::Machine) => None,
            (Self::Kubernetes, JobPlace::Ecs | JobPlace::Docker | JobPlace::Machine) => Some(
                "that state is in the cluster of the job, and this job does not run in a cluster",
            ),
            (Self::Gcs, JobPlace::Ecs) => Some("an ECS task has no Google identity"),
            (Self::Azurerm, JobPlace::Ecs) => Some("an ECS task has no Azure identity"),
            (Self::Local, JobPlace::Cluster | JobPlace::Ecs | JobPlace::Docker) => {
                Some("the disk of a job there is deleted with the job")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compatibility_matrix_is_the_published_one_and_local() {
        let rows = RunnerType::ALL.iter().map(|runner| {
            let fits = |storage: &&StorageType| storage.refusal_for(*runner).is_none();
            let fitting: Vec<_> =
                StorageType::ALL.iter().filter(fits).map(|storage| storage.as_str()).collect();
            format!("{runner}: {}", fitting.join(" "))
        });
        insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r#"
        kubernetes: kubernetes s3 gcs azurerm
        kubernetes-gke: kubernetes s3 gcs azurerm
        kubernetes-eks: kubernetes s3 gcs azurerm
        kubernetes-aks: kubernetes s3 gcs azurerm
        serverless-ecs: s3
        kubernetes-agent: kubernetes s3 gcs azurerm
        ecs-agent: s3
        docker-agent: s3 gcs azurerm
        docker: s3 gcs azurerm
        local: s3 gcs azurerm local
        "#);
    }

    #[test]
    fn a_refusal_of_a_pair_has_the_reason_and_the_alternatives() {
        let refusal = StorageType::Gcs.refusal_for(RunnerType::ServerlessEcs).unwrap();
        insta::assert_snapshot!(refusal, @"`gcs` state cannot be used by a `serverless-ecs` runner: an ECS task has no Google identity; use one of `s3`");
        let refusal = StorageType::Local.refusal_for(RunnerType::Docker).unwrap();
        insta::assert_snapshot!(refusal, @"`local` state cannot be used by a `docker` runner: the disk of a job there is deleted with the job; use one of `s3`, `gcs`, `azurerm`");
    }
}
