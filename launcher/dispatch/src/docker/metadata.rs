//! Checks whether a job's container reaches the metadata service of the machine's cloud, and so the
//! machine's own credentials.
//!
//! No setting of the engine's API prevents that: a route or a filter belongs to the host, and a hop
//! limit to the cloud. So a check tries it from a container and reports what to do.

use super::DockerDispatcher;
use super::container::Plan;
use super::image::FoundImage;
use super::refusal;
use crate::Launch;
use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder,
};
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use std::time::Duration;

/// The argument with which the image's `canyon-runner` tries the services, and its exit code if one
/// answers (its `metadata_services.rs`).
const ARGUMENT: &str = "metadata-services";
const REACHABLE: i64 = 10;
/// Limit of the container, which takes 4 s at most once it runs.
const TRY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// What fixes it, in the order in which to try it.
const HELP: &str = "every module gets the machine's credentials. On EC2: aws ec2 modify-instance-metadata-options \
     --instance-id ID --http-tokens required --http-put-response-hop-limit 1. Elsewhere, on the \
     host: iptables -I DOCKER-USER -d 169.254.169.254 -j REJECT (ip6tables for fd00:ec2::254 and fd20:ce::254), kept over \
     restarts";

impl DockerDispatcher {
    /// Starts a container like a job's in which the runner only tries the services, waits for its
    /// end, and removes it.
    pub(super) async fn check_metadata(
        &self,
        docker: &Docker,
        plan: &Plan<'_>,
        launch: &Launch,
        image: &FoundImage,
    ) -> Result<((), String), String> {
        let engine = &self.platform.engine;
        // It has no name and labels of a job, so an agent that works meanwhile ignores it.
        let name = format!("canyon-check-{}", System.id(System.now()).simple());
        let body = ContainerCreateBody {
            cmd: Some(vec![ARGUMENT.to_owned()]),
            labels: None,
            ..plan.container(launch, image)
        };
        let how = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = docker.create_container(Some(how), body).await;
        made.map_err(|error| refusal::of_start(engine, &error).to_string())?;
        let ended = tokio::time::timeout(TRY_TIMEOUT, self.run_to_end(docker, &name)).await;
        let how = RemoveContainerOptionsBuilder::default().v(true).force(true).build();
        let removed = docker.remove_container(&name, Some(how)).await;
        removed.map_err(|error| {
            let words = refusal::message_of(engine, &error);
            format!("container `{name}` was created and cannot be removed: {words}")
        })?;
        let code = ended
            .map_err(|_| "the container that tries the services does not end".to_owned())??;
        match (code, self.platform.settings.acknowledge_host_credentials) {
            (0, _) => Ok(((), "no metadata service of a cloud answers a container".to_owned())),
            (REACHABLE, true) => {
                Ok(((), "one answers a container, as the settings acknowledge".to_owned()))
            }
            (REACHABLE, false) => Err(format!(
                "a metadata service of the cloud answers a container: {HELP}{}",
                engine.user.acknowledge_credentials()
            )),
            (code, _) => Ok((
                (),
                format!(
                    "not tried: the image's program ends with {code}; canyon-runner {} or newer can try it",
                    env!("CARGO_PKG_VERSION")
                ),
            )),
        }
    }

    /// The exit code of the container, once it has ended.
    async fn run_to_end(&self, docker: &Docker, name: &str) -> Result<i64, String> {
        let engine = &self.platform.engine;
        let started = docker.start_container(name, None).await;
        started.map_err(|error| refusal::of_start(engine, &error).to_string())?;
        loop {
            let found = docker.inspect_container(name, None::<InspectContainerOptions>).await;
            let found = found.map_err(|error| refusal::message_of(engine, &error))?;
            let state = found.state.unwrap_or_default();
            if state.running != Some(true) && state.finished_at.is_some() {
                return Ok(state.exit_code.unwrap_or(-1));
            }
            tokio::time::sleep(POLL_PAUSE).await;
        }
    }
}
