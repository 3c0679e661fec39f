//! The Job of an attempt, for somebody else to create.

use super::defaults::JobDefaults;
use super::{job, names};
use crate::{DispatchError, Launch, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::polled_job::{CLAIM_CODE, Manifest};

/// The Job of `launch`, without its claim code: whoever hands it out fills that in.
///
/// # Errors
///
/// If the runner's definition makes no Job, or none that could be handed out.
pub fn manifest(
    target: &Target,
    image: Option<&str>,
    launch: &Launch,
) -> Result<Manifest, DispatchError> {
    let settings = job::settings(target)?;
    if settings.deny_metadata_access == Some(true) {
        // It needs an object beside the Job, and a Job is all that can be handed out.
        let message = "`job.deny_metadata_access` needs canyon-agent, which makes the network policy; what polls \
            by the key of the runner creates Jobs alone";
        return Err(DispatchError::refused(FailureClass::Config, message));
    }
    let mut launch = launch.clone();
    launch.environment.insert("CANYON_CLAIM_CODE".to_owned(), CLAIM_CODE.into());
    let defaults = JobDefaults { image: image.map(str::to_owned), ..JobDefaults::default() };
    let mut job = job::job(target, &defaults, &launch)?;
    // Canyon compares by these what it has sent itself, and this is not yet what will be sent.
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.remove(names::LAUNCH);
    annotations.remove(names::SPEC);
    let unwritable = |error: serde_json::Error| {
        DispatchError::refused(FailureClass::Config, format!("the Job cannot be written: {error}"))
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
