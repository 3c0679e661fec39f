//! `state_storage_configuration`: where the state of a runner's environments is stored.

use crate::{
    field_error::FieldErrors,
    runner::{
        configuration::{RunnerType, type_of},
        fields::Fields,
        patterns::{
            BUCKET, DIRECTORY, DNS_LABEL, PATH_PREFIX, RESOURCE_GROUP, STORAGE_ACCOUNT,
            STORAGE_CONTAINER,
        },
        string_enum::{listed, string_enum},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

string_enum! {
    /// The types of state storage.
    StorageType {
        /// Secrets in the cluster that the job runs in.
        Kubernetes = "kubernetes",
        /// An Amazon S3 bucket.
        S3 = "s3",
        /// A Google Cloud Storage bucket.
        Gcs = "gcs",
        /// An Azure storage container.
        Azurerm = "azurerm",
        /// A directory on the machine that the job runs on.
        Local = "local",
    }
}

/// `state_storage_configuration`. It never contains credentials: jobs take them from their own identity or
/// from environment variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum StateStorage {
    /// Secrets in the cluster that the job runs in.
    #[serde(rename = "kubernetes")]
    Kubernetes {
        /// Namespace of the secrets.
        namespace: String,
    },
    /// An Amazon S3 bucket.
    #[serde(rename = "s3")]
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// Path prefix of the state objects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_prefix: Option<String>,
    },
    /// A Google Cloud Storage bucket.
    #[serde(rename = "gcs")]
    Gcs {
        /// Name of the bucket.
        bucket: String,
        /// Path prefix of the state objects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_prefix: Option<String>,
    },
    /// An Azure storage container.
    #[serde(rename = "azurerm")]
    Azurerm {
        /// Resource group of the storage account.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_group_name: Option<String>,
        /// Name of the storage account.
        storage_account_name: String,
        /// Name of the container.
        container_name: String,
        /// Path prefix of the state blobs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_prefix: Option<String>,
    },
    /// A directory on the machine that the job runs on.
    #[serde(rename = "local")]
    Local {
        /// Absolute path of the directory.
        path: String,
    },
}

impl StateStorage {
    /// The type.
    pub fn storage_type(&self) -> StorageType {
        match self {
            Self::Kubernetes { .. } => StorageType::Kubernetes,
            Self::S3 { .. } => StorageType::S3,
            Self::Gcs { .. } => StorageType::Gcs,
            Self::Azurerm { .. } => StorageType::Azurerm,
            Self::Local { .. } => StorageType::Local,
        }
    }

    pub(crate) fn read(value: Value, path: &str, errors: &mut FieldErrors) -> Option<Self> {
        let storage_type: StorageType = type_of(&value, path, errors)?;
        Fields::read(value, path, errors, |fields| {
            fields.take("type");
            match storage_type {
                StorageType::Kubernetes => {
                    Self::Kubernetes { namespace: fields.required_text("namespace", &DNS_LABEL) }
                }
                StorageType::S3 => Self::S3 {
                    bucket: fields.required_text("bucket", &BUCKET),
                    path_prefix: fields.text("path_prefix", &PATH_PREFIX),
                },
                StorageType::Gcs => Self::Gcs {
                    bucket: fields.required_text("bucket", &BUCKET),
                    path_prefix: fields.text("path_prefix", &PATH_PREFIX),
                },
                StorageType::Azurerm => Self::Azurerm {
                    resource_group_name: fields.text("resource_group_name", &RESOURCE_GROUP),
                    storage_account_name: fields
                        .required_text("storage_account_name", &STORAGE_ACCOUNT),
                    container_name: fields.required_text("container_name", &STORAGE_CONTAINER),
                    path_prefix: fields.text("path_prefix", &PATH_PREFIX),
                },
                StorageType::Local => {
                    Self::Local { path: fields.required_text("path", &DIRECTORY) }
                }
            }
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
        let because = self.obstacle(runner)?;
        let others: Vec<&str> = Self::ALL
            .iter()
            .filter(|other| other.obstacle(runner).is_none())
            .map(|other| other.as_str())
            .collect();
        let others = listed(&others);
        Some(format!(
            "`{self}` state cannot be used by a `{runner}` runner: {because}; use one of {others}"
        ))
    }

    const fn obstacle(self, runner: RunnerType) -> Option<&'static str> {
        let is_ecs = matches!(runner, RunnerType::ServerlessEcs | RunnerType::EcsAgent);
        // The job's disk must outlive the job.
        let keeps_disk = matches!(runner, RunnerType::Local);
        match self {
            Self::Kubernetes if !runner.is_kubernetes() => Some(
                "that state is in the cluster of the job, and this job does not run in a cluster",
            ),
            // A Docker host or a laptop may have any identity; an ECS task has its AWS role.
            Self::Gcs if is_ecs => Some("an ECS task has no Google identity"),
            Self::Azurerm if is_ecs => Some("an ECS task has no Azure identity"),
            Self::Local if !keeps_disk => Some("the disk of a job there is deleted with the job"),
            Self::Kubernetes | Self::S3 | Self::Gcs | Self::Azurerm | Self::Local => None,
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
        local: s3 gcs azurerm local
        "#);
    }

    #[test]
    fn a_refusal_of_a_pair_has_the_reason_and_the_alternatives() {
        let refusal = StorageType::Gcs.refusal_for(RunnerType::ServerlessEcs).unwrap();
        insta::assert_snapshot!(refusal, @"`gcs` state cannot be used by a `serverless-ecs` runner: an ECS task has no Google identity; use one of `s3`");
    }
}
