//! The steps of a check of a runner.

use super::string_enum::string_enum;

string_enum! {
    /// The steps of a check. The names are part of the API.
    CheckStep {
        /// The stored definition can be read, and its secrets decrypted.
        Definition = "definition",
        /// Canyon signs a token about the runner.
        Assertion = "assertion",
        /// The cloud accepts that token and issues one of its own.
        Exchange = "exchange",
        /// The cloud knows the cluster and returns its address.
        Cluster = "cluster",
        /// The cluster's API answers over TLS with a certificate of its own authority, and authenticates
        /// Canyon.
        Connect = "connect",
        /// An agent is connected that takes the runner's jobs.
        Agent = "agent",
        /// All permissions for launch, observation, stop and log tail are granted.
        Permissions = "permissions",
        /// The job's image is present on the platform, or can be pulled there.
        Image = "image",
        /// The platform accepts the job in a dry run.
        DryRun = "dry_run",
        /// The job cannot reach the metadata service of its machine.
        Metadata = "metadata",
    }
}

/// The steps of a check of a cluster that its cloud describes.
pub(super) const CLOUD_CLUSTER_STEPS: &[CheckStep] = &[
    CheckStep::Assertion,
    CheckStep::Exchange,
    CheckStep::Cluster,
    CheckStep::Connect,
    CheckStep::Permissions,
    CheckStep::DryRun,
];
