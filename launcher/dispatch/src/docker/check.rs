//! Checks what a launch needs, without launching.

use super::DockerDispatcher;
use super::container::Plan;
use super::engine;
use super::image::{FoundImage, ImageOf, of_registry};
use super::names::container_name;
use super::refusal;
use crate::{CheckReports, JobRef, Launch};
use bollard::Docker;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectNetworkOptions, RemoveContainerOptionsBuilder,
};
use canyon_domain::ids::DeploymentId;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::runner_check::CheckStep;
use canyon_identity::system::System;
use std::collections::BTreeMap;

impl DockerDispatcher {
    pub(super) async fn check_steps(&self, reports: &CheckReports) {
        let plan = self.target().and_then(|target| Plan::new(&self.platform.settings, target));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return reports.failed(CheckStep::Definition, error.to_string()),
        };
        let Some(docker) = reports.run_step(CheckStep::Connect, self.check_engine()).await else {
            return;
        };
        let Some(image) =
            reports.run_step(CheckStep::Image, self.check_image(&docker, &plan)).await
        else {
            return;
        };
        let Some(image) = image else {
            let message = "no container was created, because a launch pulls the image first";
            reports.ok(CheckStep::DryRun, message);
            return reports.ok(CheckStep::Metadata, format!("not tried: {message}"));
        };
        let Some(launch) = launch_of_no_job() else { return };
        let made = self.check_container(&docker, &plan, &launch, &image);
        if reports.run_step(CheckStep::DryRun, made).await.is_some() {
            let tried = self.check_metadata(&docker, &plan, &launch, &image);
            reports.run_step(CheckStep::Metadata, tried).await;
        }
    }

    async fn check_engine(&self) -> Result<(Docker, String), String> {
        let engine = &self.platform.engine;
        let docker = engine.docker().await.map_err(|error| engine.no_answer(&error))?;
        let version = docker.version().await.map_err(|error| engine.no_answer(&error))?;
        let found = format!(
            "{}: version {}, API {}, {}/{}",
            engine.host(),
            version.version.unwrap_or_default(),
            version.api_version.unwrap_or_default(),
            version.os.unwrap_or_default(),
            version.arch.unwrap_or_default()
        );
        Ok((docker, found))
    }

    /// The image's user, if the engine has the image. If not, asks the registry whether it would
    /// deliver the image.
    async fn check_image(
        &self,
        docker: &Docker,
        plan: &Plan<'_>,
    ) -> Result<(Option<FoundImage>, String), String> {
        let image = plan.image;
        match docker.inspect_image(image).await {
            Ok(found) => {
                let found = FoundImage::new(image, ImageOf::Runner, found);
                return Ok((Some(found), format!("the engine has image `{image}`")));
            }
            Err(error) if engine::is_missing(&error) => {}
            Err(error) => return Err(refusal::message_of(&self.platform.engine, &error)),
        }
        if self.platform.settings.local_image {
            return Err(refusal::not_on_engine(image).to_string());
        }
        let credentials = self.credentials(image).map(|pair| of_registry(image, pair));
        let answer = docker.inspect_registry_image(image, credentials).await;
        answer.map_err(|error| {
            let words = refusal::message_of(&self.platform.engine, &error);
            let job = no_job();
            refusal::of_pull(
                &self.pull_request(&job, image, ImageOf::Runner, System.now()),
                image,
                &words,
            )
            .to_string()
        })?;
        Ok((None, format!("the registry has image `{image}` for this engine")))
    }

    /// Creates the container that a launch would create, and removes it.
    async fn check_container(
        &self,
        docker: &Docker,
        plan: &Plan<'_>,
        launch: &Launch,
        image: &FoundImage,
    ) -> Result<((), String), String> {
        let engine = &self.platform.engine;
        // The engine looks for the network only when a container starts, which this one does not.
        if let Some(network) = &self.platform.settings.network {
            let found = docker.inspect_network(network, None::<InspectNetworkOptions>).await;
            found.map_err(|error| refusal::of_start(engine, &error).to_string())?;
        }
        let name = container_name(&launch.job);
        let how = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = docker.create_container(Some(how), plan.container(launch, image)).await;
        let made = made.map_err(|error| refusal::of_start(engine, &error).to_string())?;
        let how = RemoveContainerOptionsBuilder::default().v(true).build();
        let removed = docker.remove_container(&made.id, Some(how)).await;
        removed.map_err(|error| {
            let words = refusal::message_of(engine, &error);
            format!("container `{name}` was created and cannot be removed: {words}")
        })?;
        let found = match made.warnings.as_slice() {
            [] => "a container can be created and removed".to_owned(),
            warnings => format!("a container can be created and removed; {}", warnings.join("; ")),
        };
        Ok(((), found))
    }
}

/// The launch that a check describes and never makes.
fn launch_of_no_job() -> Option<Launch> {
    Some(Launch {
        job: no_job(),
        environment: BTreeMap::new(),
        project: "canyon".parse().ok()?,
        env: "check".parse().ok()?,
        launched_at: System.now(),
        container: None,
    })
}

/// A job of no deployment.
fn no_job() -> JobRef {
    JobRef { deployment: DeploymentId(System.id(System.now())), attempt: 1, handle: None }
}
