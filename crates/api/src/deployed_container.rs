//! What the container job of a deployment runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The container job of a deployment, without values that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeployedContainer {
    /// Its image, as in the request.
    #[schema(example = "ghcr.io/acme/bucket:1.1.0")]
    pub image: String,
    /// The SHA-256 digest of the image that the last attempt ran, in hexadecimal, if its platform tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// Further arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The folder that the program starts in.
    pub shared_directory: String,
    /// The names of its environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The paths of its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The names of its secret environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_variables: Vec<String>,
    /// The paths of its secret files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_files: Vec<String>,
    /// The git repository that it has in its shared directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<DeployedSource>,
    /// The names of its inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Maximum duration of the program, in seconds.
    pub timeout_seconds: u32,
    /// Seconds from the request to stop until the kill.
    pub grace_seconds: u32,
    /// Whether the program may run again after its job was lost.
    pub idempotent: bool,
    /// The cluster in which it runs, if its resource definition names another than the runner's own: the type of a runner there,
    /// and the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "kubernetes-gke my-cluster")]
    pub cluster: Option<String>,
}

/// The source of a container job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeployedSource {
    /// Its address.
    #[schema(example = "https://git.example.com/acme/bucket.git")]
    pub url: String,
    /// The branch, tag or commit, as in the request. Without one, it is the default branch.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The folder below the shared directory. Without one, it is the shared directory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
