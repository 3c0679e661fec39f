//! The kind whose job is a container of a Docker engine. `canyon local` calls it for runners of type `docker`, an agent
//! beside the engine for those of type `docker-agent`.
//!
//! | step | what is called |
//! |---|---|
//! | `start` | pulls the image if the engine does not have it, creates the container with a name that follows from the attempt, and starts it; an existing container is compared |
//! | `observe` | inspects the container. Once it has ended, the engine has reaped its process |
//! | `stop` | SIGTERM or SIGKILL to its process 1; a container that was never started is removed |
//! | `tail` | reads the container's output, see `canyon_domain::container_log` |
//! | `forget` | removes the container with its volume |
//!
//! A container gets no privileges of the engine: no capabilities, no new privileges, a user that is
//! not root, a read-only root file system, limits of memory and processes, and no host network.
//! Other programs on the host are protected as well as the kernel isolates containers.

mod check;
mod container;
mod engine;
mod engine_user;
mod host_gateway;
mod image;
mod injection;
mod log;
mod metadata;
mod names;
mod refusal;
mod removal;
mod settings;
mod state;

pub use engine_user::EngineUser;
pub use host_gateway::HostGateway;
pub use settings::{DockerSettings, SettingsError};

use crate::check::CheckReports;
use crate::container_output;
use crate::{
    DispatchError, Dispatcher, JobRef, Launch, Platform, RemovalOutcome, Started, StopMode,
    TailStream, Target,
};
use async_trait::async_trait;
use bollard::Docker;
use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::RunnerUuid;
use container::Plan;
use engine::Engine;
use image::{ImageOf, Pulls};
use log::LogCache;
use names::container_name;
use settings::ValidSettings;
use state::Life;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the process that created a container may take to start it.
const START_WAIT: Duration = Duration::from_secs(2);
const START_PAUSE: Duration = Duration::from_millis(100);

/// The platform of runners whose jobs are containers of one engine.
pub struct DockerPlatform {
    settings: ValidSettings,
    engine: Engine,
    pulls: Arc<Pulls>,
    /// The jobs to which this process has sent SIGTERM. A runner must not pass on a second one.
    signalled: Mutex<HashSet<String>>,
}

impl DockerPlatform {
    /// Validates the settings; `variable` reads the environment of the process. Makes no request.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the invalid setting.
    pub fn new(
        settings: DockerSettings,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let settings = settings.check(variable)?;
        let engine = Engine::new(settings.user, settings.host.clone());
        Ok(Self { settings, engine, pulls: Arc::default(), signalled: Mutex::default() })
    }

    /// The engine's id, which is unique and stays the same as long as the engine keeps its data.
    ///
    /// # Errors
    ///
    /// If the engine does not answer, or has no id.
    pub async fn platform_id(&self) -> Result<String, DispatchError> {
        let unreachable = |error| self.engine.unreachable(&error);
        let docker = self.engine.docker().await.map_err(unreachable)?;
        let id = docker.info().await.map_err(unreachable)?.id.filter(|id| !id.is_empty());
        id.ok_or_else(|| {
            let message = format!("the engine at {} does not report its id", self.engine.host());
            DispatchError::refused(FailureClass::Config, message)
        })
    }

    /// The jobs of all runners that the engine has, dead or alive.
    ///
    /// # Errors
    ///
    /// If the engine could not be signalled.
    pub async fn all_jobs(&self) -> Result<Vec<(RunnerUuid, JobRef)>, DispatchError> {
        self.list(&names::of_canyon()).await
    }

    async fn list(
        &self,
        filters: &HashMap<String, Vec<String>>,
    ) -> Result<Vec<(RunnerUuid, JobRef)>, DispatchError> {
        let docker = self.engine.docker().await.map_err(|error| self.engine.unreachable(&error))?;
        let how = ListContainersOptionsBuilder::default().all(true).filters(filters).build();
        let found = docker
            .list_containers(Some(how))
            .await
            .map_err(|error| refusal::of_request(&self.engine, "list the containers", &error))?;
        let job = |found: &ContainerSummary| {
            names::job_of(found.names.as_deref().unwrap_or_default(), found.labels.as_ref())
        };
        Ok(found.iter().filter_map(job).collect())
    }

    /// A dispatcher that only ends and removes jobs, of which no more than the name is known. It
    /// starts none.
    pub fn remover(self: &Arc<Self>) -> Arc<dyn Dispatcher> {
        self.of(None)
    }

    fn of(self: &Arc<Self>, target: Option<Arc<Target>>) -> Arc<dyn Dispatcher> {
        Arc::new(DockerDispatcher { platform: self.clone(), target, kept: LogCache::default() })
    }
}

impl Platform for Arc<DockerPlatform> {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.of(Some(target.clone()))
    }
}

/// A dispatcher of one runner's jobs, or without a target of any runner's.
pub struct DockerDispatcher {
    platform: Arc<DockerPlatform>,
    target: Option<Arc<Target>>,
    kept: LogCache,
}

impl DockerDispatcher {
    fn target(&self) -> Result<&Target, DispatchError> {
        self.target.as_deref().ok_or_else(|| {
            let message = "the runner of this job is not known to the dispatcher";
            DispatchError::refused(FailureClass::Config, message)
        })
    }

    async fn docker(&self) -> Result<Docker, DispatchError> {
        let engine = &self.platform.engine;
        engine.docker().await.map_err(|error| engine.unreachable(&error))
    }

    async fn find(&self, job: &JobRef) -> Result<Option<ContainerInspectResponse>, DispatchError> {
        let engine = &self.platform.engine;
        let docker = self.docker().await?;
        match docker.inspect_container(&container_name(job), None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if engine::is_missing(&error) => Ok(None),
            Err(error) => {
                engine.forget(&error).await;
                Err(refusal::of_request(engine, "look at the container", &error))
            }
        }
    }

    /// Compares the existing container of this name with the one that the launch would create.
    async fn compare(&self, docker: &Docker, launch: &Launch) -> Result<Started, DispatchError> {
        let (target, name) = (self.target()?, container_name(&launch.job));
        let mut left = START_WAIT;
        loop {
            let found = self.find(&launch.job).await?;
            if found.as_ref().is_some_and(|found| !container::is_of(launch, target, found)) {
                let message = format!(
                    "container `{name}` exists, but Canyon did not create it for this attempt; remove it with: docker rm -f {name}"
                );
                return Err(DispatchError::refused(FailureClass::Config, message));
            }
            match found.map(|found| state::life(&found)) {
                // The engine reserves the name before it shows the container.
                None | Some(Some(Life::Created)) if !left.is_zero() => {}
                // Another call or a user removed it in between.
                None => {
                    let message = format!("container `{name}` was removed during its start");
                    return Err(DispatchError::unknown(FailureClass::Lost, message));
                }
                // The process that created it died before the start. If the container has ended in between, the
                // start would run it again; of two runners, only one gets its claim.
                Some(Some(Life::Created)) => {
                    self.begin(docker, launch).await?;
                    return Ok(Started::Already(self.engine_id(docker).await));
                }
                Some(_) => return Ok(Started::Already(self.engine_id(docker).await)),
            }
            tokio::time::sleep(START_PAUSE).await;
            left = left.saturating_sub(START_PAUSE);
        }
    }

    async fn begin(&self, docker: &Docker, launch: &Launch) -> Result<(), DispatchError> {
        let started = docker.start_container(&container_name(&launch.job), None).await;
        started.map_err(|error| refusal::of_start(&self.platform.engine, &error))
    }

    /// The engine's id, which tells a job that is gone from a job of another engine.
    async fn engine_id(&self, docker: &Docker) -> Option<String> {
        docker.info().await.ok()?.id.filter(|id| !id.is_empty())
    }

    /// The observation of a job without a container.
    async fn missing(&self, job: &JobRef) -> Observation {
        if let Some(words) = self.platform.pulls.progress_for(job) {
            return Observation::Waiting(words);
        }
        let Some(handle) = &job.handle else { return Observation::Gone(None) };
        let docker = match self.docker().await {
            Ok(docker) => docker,
            Err(error) => return Observation::Unknown(error.to_string()),
        };
        match self.engine_id(&docker).await {
            Some(id) if id == *handle => Observation::Gone(None),
            Some(_) => Observation::Unknown(format!(
                "the job was started on another Docker engine than the one that is now at {}; connect that engine again",
                self.platform.engine.host()
            )),
            None => Observation::Unknown("the engine does not report its id".to_owned()),
        }
    }

    async fn signal(&self, job: &JobRef, signal: &str) -> Result<(), DispatchError> {
        let docker = self.docker().await?;
        let how = KillContainerOptionsBuilder::default().signal(signal).build();
        match docker.kill_container(&container_name(job), Some(how)).await {
            Ok(()) => Ok(()),
            // The container is gone, or its process has ended.
            Err(error) if matches!(engine::status_and_message(&error), Some((404 | 409, _))) => {
                Ok(())
            }
            Err(error) => {
                Err(refusal::of_request(&self.platform.engine, "stop the container", &error))
            }
        }
    }

    /// The failure, with the runner's last message if the engine gives no reason.
    async fn with_last_message(&self, job: &JobRef, mut failure: Failure) -> Failure {
        if failure.class == FailureClass::Lost
            && let Ok(output) = self.last_output(job).await
            && let Some(words) = container_output::last_message(&output)
        {
            failure.message = format!("{}; its last message: {words}", failure.message);
        }
        failure
    }

    fn signalled(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.platform.signalled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Dispatcher for DockerDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let plan = Plan::new(&self.platform.settings, self.target()?)?;
        let docker = self.docker().await?;
        let mut image = self.image(&docker, plan.image, ImageOf::Runner, launch).await?;
        if let Some(job) = &launch.container {
            image = self.image(&docker, &job.image, ImageOf::Job, launch).await?;
            self.inject(&docker, &plan, launch).await?;
        }
        let how =
            CreateContainerOptionsBuilder::default().name(&container_name(&launch.job)).build();
        let created = docker.create_container(Some(how), plan.container(launch, &image)).await;
        // After a refusal nothing uses the volume, unless the job's container exists already.
        let answer = created.as_ref().err().and_then(engine::status_and_message);
        let is_unused = answer.is_some_and(|(status, _)| status != 409);
        if launch.container.is_some()
            && let Err(error) = self.remove_injector(&docker, &launch.job, is_unused).await
        {
            tracing::warn!(job = ?launch.job, %error, "leaves the container that has filled the job's volume");
        }
        match created {
            Ok(_) => {
                let begun = self.begin(&docker, launch).await;
                begun.map_err(|error| refusal::without_claim_code(error, launch))?;
                Ok(Started::Now(self.engine_id(&docker).await))
            }
            Err(error) if matches!(engine::status_and_message(&error), Some((409, _))) => {
                self.compare(&docker, launch).await
            }
            Err(error) => {
                let error = refusal::of_start(&self.platform.engine, &error);
                Err(refusal::without_claim_code(error, launch))
            }
        }
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        match self.find(job).await {
            Ok(Some(found)) => match state::observation(self.platform.settings.user, &found) {
                Observation::Gone(Some(failure)) => {
                    Observation::Gone(Some(self.with_last_message(job, failure).await))
                }
                observation => observation,
            },
            Ok(None) => self.missing(job).await,
            Err(error) => Observation::Unknown(error.to_string()),
        }
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        self.platform.pulls.stop_waiting(job);
        let Some(found) = self.find(job).await? else { return Ok(()) };
        match (state::life(&found), how) {
            (Some(Life::Ended), _) => return Ok(()),
            // A concurrent start finds the container gone.
            (Some(Life::Created), _) if self.remove(job).await? => return Ok(()),
            (_, StopMode::Kill) => return self.signal(job, "SIGKILL").await,
            (_, StopMode::Graceful) => {}
        }
        let name = container_name(job);
        if !self.signalled().insert(name.clone()) {
            return Ok(());
        }
        let signalled = self.signal(job, "SIGTERM").await;
        if signalled.is_err() {
            self.signalled().remove(&name);
        }
        signalled
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        let output = self.output(job).await?;
        Ok(container_output::part(&output, stream, offset))
    }

    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        self.platform.pulls.stop_waiting(job);
        self.kept.forget();
        let forgotten = async {
            let found = self.find(job).await?;
            if found.is_some_and(|found| state::life(&found) == Some(Life::Lives)) {
                return Ok(false);
            }
            self.signalled().remove(&container_name(job));
            self.remove(job).await
        };
        match forgotten.await {
            Ok(true) => RemovalOutcome::Removed,
            Ok(false) => RemovalOutcome::JobAlive,
            Err(error) => {
                let error: DispatchError = error;
                tracing::warn!(?job, %error, "cannot remove the container");
                RemovalOutcome::JobAlive
            }
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        let found = self.platform.list(&names::of_runner(self.target()?)).await?;
        Ok(found.into_iter().map(|(_, job)| job).collect())
    }

    async fn check(&self, reports: &CheckReports) {
        self.check_steps(reports).await;
    }
}
