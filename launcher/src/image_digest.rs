//! Asks the platform for the digest of the image that a container job has run, and records it.

use crate::{LaunchError, Launcher};
use canyon_dispatch::{Dispatcher, JobRef};
use canyon_domain::deployment::Deployment;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use std::sync::Arc;

impl Launcher {
    /// Asks the platform for the image of `job`, before the job is removed. The runner program reports it itself where the platform
    /// tells it before the start. Returns whether there is nothing more to ask: a node tells it some time after the start.
    pub(crate) async fn record_image(
        &self,
        due: Due,
        dispatcher: &Arc<dyn Dispatcher>,
        job: &JobRef,
    ) -> Result<bool, LaunchError> {
        let Some(digest) = dispatcher.image_digest(job).await else { return Ok(false) };
        // The record of a stream may be old.
        let Some(mut current) = self.table.deployment(due.org, due.id).await? else {
            return Ok(true);
        };
        if !current.record_image_digest(job.attempt, digest) {
            return Ok(true);
        }
        current.version += 1;
        let step = DeploymentChange {
            deployment: &current,
            environment: EnvironmentChange::Keep,
            next: None,
            wake: Wake::None,
            record: None,
        };
        if self.table.change_deployment(due.org, &step).await? == Saved::Lost {
            tracing::warn!(deployment = %due.id, "the digest of its image is not recorded");
        }
        Ok(true)
    }
}

/// Whether it has run an image by its tag, and it is not recorded yet which one that was.
pub(crate) fn lacks_digest(deployment: &Deployment) -> bool {
    let ran = deployment.attempts.last().is_some_and(|attempt| attempt.claim.is_some());
    ran && deployment.lacks_image_digest()
}
