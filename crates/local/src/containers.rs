//! Runners of type `docker`: their jobs are containers of this machine's Docker engine.

use crate::container_access::ContainerAccess;
use async_trait::async_trait;
use canyon_dispatch::docker::{DockerPlatform, DockerSettings, EngineUser};
use canyon_dispatch::{
    CheckReports, DispatchError, Dispatcher, JobRef, Launch, Platform, RemovalOutcome, Started,
    StopMode, TailStream, Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::OrgUuid;
use canyon_domain::runner_check::CheckStep;
use std::sync::Arc;

/// The variable by which a job finds the API (`canyon_identity::job_environment`).
const API_URL: &str = "CANYON_API_URL";

/// The platform of type `docker`. It connects to the engine when a job needs it.
#[derive(Clone)]
pub(crate) struct Containers {
    /// The engine, or why its address is invalid.
    engine: Result<Arc<DockerPlatform>, String>,
    access: Arc<ContainerAccess>,
}

impl Containers {
    /// The engine of `DOCKER_HOST`, else of the usual socket. `image` is the runner image of jobs whose runner names none.
    pub(crate) fn new(image: Option<String>, access: ContainerAccess) -> Self {
        let settings = DockerSettings {
            user: EngineUser::CanyonLocal,
            image,
            extra_hosts: access.extra_hosts(),
            ..DockerSettings::default()
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let engine = DockerPlatform::new(settings, &variable).map(Arc::new);
        // The user gives no other setting.
        let engine = engine.map_err(|error| format!("DOCKER_HOST {}", error.reason));
        Self { engine, access: Arc::new(access) }
    }

    /// The jobs of an earlier run, for which it makes the API reachable again.
    pub(crate) async fn adopt(&self, org: OrgUuid) -> Vec<JobRef> {
        let Ok(engine) = &self.engine else { return Vec::new() };
        let jobs = engine.jobs_of(org).await.unwrap_or_default();
        if !jobs.is_empty() {
            self.access.reopen(engine).await;
        }
        jobs
    }
}

impl Platform for Containers {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        let engine = self.engine.clone();
        let engine = engine.map(|engine| (engine.dispatcher(target), engine));
        Arc::new(ContainerDispatcher { engine, access: self.access.clone() })
    }
}

struct ContainerDispatcher {
    engine: Result<(Arc<dyn Dispatcher>, Arc<DockerPlatform>), String>,
    access: Arc<ContainerAccess>,
}

impl ContainerDispatcher {
    fn engine(&self) -> Result<(&dyn Dispatcher, &DockerPlatform), DispatchError> {
        let (dispatcher, engine) = self
            .engine
            .as_ref()
            .map_err(|reason| DispatchError::refused(FailureClass::Config, reason))?;
        Ok((&**dispatcher, engine))
    }
}

#[async_trait]
impl Dispatcher for ContainerDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let (dispatcher, engine) = self.engine()?;
        self.access.open(engine).await?;
        let mut launch = launch.clone();
        launch.environment.insert(API_URL.to_owned(), self.access.url().into());
        dispatcher.start(&launch).await
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        match self.engine() {
            Ok((dispatcher, engine)) => {
                self.access.reopen(engine).await;
                dispatcher.observe(job).await
            }
            Err(error) => Observation::Unknown(error.to_string()),
        }
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        self.engine()?.0.stop(job, how).await
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        self.engine()?.0.tail(job, stream, offset).await
    }

    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        match self.engine() {
            Ok((dispatcher, _)) => dispatcher.forget(job).await,
            Err(_) => RemovalOutcome::JobAlive,
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.engine()?.0.jobs().await
    }

    async fn check(&self, reports: &CheckReports) {
        let (dispatcher, engine) = match self.engine() {
            Ok(engine) => engine,
            Err(error) => return reports.failed(CheckStep::Connect, error.to_string()),
        };
        match self.access.open(engine).await {
            Ok(()) => dispatcher.check(reports).await,
            Err(error) => reports.failed(CheckStep::Connect, error.to_string()),
        }
    }
}
