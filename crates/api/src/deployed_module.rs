//! What a deployment ran.

use canyon_domain::job::Inputs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The module of a deployment, as it was requested and as it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeployedModule {
    /// As in the request.
    pub source: String,
    /// With a git repository: the commit that the last attempt fetched. Absent before its runner has reported it, and if the
    /// runner is of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// With an archive: its SHA-256, in hexadecimal. With an OCI registry: that of the manifest that the last attempt fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The inputs that the module declares as neither sensitive nor ephemeral.
    #[serde(default, skip_serializing_if = "Inputs::is_empty")]
    #[schema(value_type = Object)]
    pub inputs: Inputs,
    /// The names of all other inputs, with the secret ones. Before a runner has reported what the module declares, and with encrypted logs, all
    /// inputs are here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_inputs: Vec<String>,
    /// The only resources and modules that it planned (`-target`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// The resources that it was to replace (`-replace`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<String>,
}
