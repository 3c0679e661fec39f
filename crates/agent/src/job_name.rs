//! How the agent's log names a job.

use canyon_api::agent::JobKey;

/// The job's name in the agent's log.
pub(crate) fn job_name(key: &JobKey) -> String {
    format!("{}-{}", key.deployment, key.attempt)
}
