//! The removal of a job's container, with everything that goes with it.

use super::names::container_name;
use super::{DockerDispatcher, engine, refusal};
use crate::{DispatchError, JobRef};
use bollard::query_parameters::RemoveContainerOptionsBuilder;

impl DockerDispatcher {
    /// Removes a container whose process does not live. Returns whether nothing is left of it.
    pub(super) async fn remove(&self, job: &JobRef) -> Result<bool, DispatchError> {
        let docker = self.docker().await?;
        let how = RemoveContainerOptionsBuilder::default().v(true).build();
        let removed = match docker.remove_container(&container_name(job), Some(how)).await {
            Ok(()) => true,
            Err(error) => match engine::status_and_message(&error) {
                Some((404, _)) => true,
                // The container runs, or another call removes it at the same time.
                Some((409, words)) => words.contains("already in progress"),
                _ => {
                    return Err(refusal::of_request(
                        &self.platform.engine,
                        "remove the container",
                        &error,
                    ));
                }
            },
        };
        if removed {
            // A start that was killed has left it.
            self.remove_injector(&docker, job, true).await?;
        }
        Ok(removed)
    }
}
