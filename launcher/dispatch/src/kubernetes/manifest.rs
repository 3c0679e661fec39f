//! The Job of an attempt, to be created by a remote runner.

use super::defaults::JobDefaults;
use super::{job, names};
use crate::{DispatchError, Launch, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::polled_job::{CLAIM_CODE, Manifest};

/// The Job of `launch` without its claim code, which the API fills in when a remote runner takes
/// the job.
///
/// # Errors
///
/// If the runner's definition gives no valid Job, or needs more objects than a Job.
pub fn manifest(
    target: &Target,
    image: Option<&str>,
    launch: &Launch,
) -> Result<Manifest, DispatchError> {
    let settings = job::settings(target)?;
    if settings.deny_metadata_access == Some(true) {
        // It needs a second object, but a remote runner creates only the Job.
        let message = "`job.deny_metadata_access` needs canyon-agent, which creates the network policy; a remote runner, \
            which polls with the runner's key, creates only Jobs";
        return Err(DispatchError::refused(FailureClass::Config, message));
    }
    let mut launch = launch.clone();
    launch.environment.insert("CANYON_CLAIM_CODE".to_owned(), CLAIM_CODE.into());
    let defaults = JobDefaults { image: image.map(str::to_owned), ..JobDefaults::default() };
    let mut job = job::job(target, &defaults, &launch)?;
    // Canyon compares these with what it has sent itself, which this Job is not yet.
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.remove(names::LAUNCH);
    annotations.remove(names::SPEC);
    let unwritable = |error: serde_json::Error| {
        DispatchError::refused(
            FailureClass::Config,
            format!("the Job cannot be serialized: {error}"),
        )
    };
    Ok(Manifest {
        name: names::job_name(&launch.job),
        namespace: settings.namespace.clone(),
        job: serde_json::to_value(&job).map_err(unwritable)?,
    })
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
