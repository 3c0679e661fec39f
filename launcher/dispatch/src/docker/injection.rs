//! The runner program in a container job, whose image has none.
//!
//! The runner's image has the program at `/canyon`, and at `/canyon-git` a git that runs in any image (docs/runner-image.md). An
//! engine fills an empty volume with what the image has at the place where the volume is mounted, when it creates the container.
//! So a container of the runner's image, which is never started, fills the volumes, and the job's container gets them.

use super::container::Plan;
use super::names;
use super::{DockerDispatcher, engine, refusal};
use crate::{DispatchError, JobRef, Launch};
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder};

/// Where the volume is, in both containers.
pub(super) const TREE: &str = "/canyon";
/// Where the volume with git is.
const GIT_TREE: &str = "/canyon-git";
/// The runner program, which starts the job's program.
pub(super) const PROGRAM: &str = "/canyon/bin/canyon-runner";
/// The working directory of the runner program.
pub(super) const RUN_DIRECTORY: &str = "/canyon/run";

/// The name of the container that fills the volume.
pub(super) fn injector_name(job: &JobRef) -> String {
    format!("{}-inject", names::container_name(job))
}

impl DockerDispatcher {
    /// Fills the job's volumes, unless an earlier start has.
    pub(super) async fn inject(
        &self,
        docker: &Docker,
        plan: &Plan<'_>,
        launch: &Launch,
    ) -> Result<(), DispatchError> {
        let how =
            CreateContainerOptionsBuilder::default().name(&injector_name(&launch.job)).build();
        let needs_git = launch.container.as_ref().is_some_and(|job| job.needs_git);
        let trees = [Some(TREE), needs_git.then_some(GIT_TREE)];
        let mounts = trees.into_iter().flatten().map(|tree| Mount {
            target: Some(tree.to_owned()),
            typ: Some(MountType::VOLUME),
            ..Mount::default()
        });
        let body = ContainerCreateBody {
            image: Some(plan.image.to_owned()),
            labels: Some(plan.labels(launch)),
            network_disabled: Some(true),
            host_config: Some(HostConfig {
                mounts: Some(mounts.collect()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        match docker.create_container(Some(how), body).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(engine::status_and_message(&error), Some((409, _))) => Ok(()),
            Err(error) => Err(refusal::of_start(&self.platform.engine, &error)),
        }
    }

    /// Removes the container that has filled the job's volume, and with `volume` the volume too. An engine does not count the
    /// volume as used before the job's container has started.
    ///
    /// # Errors
    ///
    /// If the engine refuses it or does not answer.
    pub(super) async fn remove_injector(
        &self,
        docker: &Docker,
        job: &JobRef,
        volume: bool,
    ) -> Result<(), DispatchError> {
        let how = RemoveContainerOptionsBuilder::default().v(volume).build();
        match docker.remove_container(&injector_name(job), Some(how)).await {
            Ok(()) => Ok(()),
            // It is gone, or another call removes it.
            Err(error) if matches!(engine::status_and_message(&error), Some((404 | 409, _))) => {
                Ok(())
            }
            Err(error) => {
                Err(refusal::of_request(&self.platform.engine, "remove the container", &error))
            }
        }
    }
}
