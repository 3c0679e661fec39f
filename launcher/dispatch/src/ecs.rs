//! The kinds `serverless-ecs` and `ecs-agent`: a job is a task on AWS Fargate. They differ in the
//! credentials: the role that the runner names, or the agent's own.
//!
//! The task definition contains nothing of an attempt and is registered once for each content
//! (`definition`). What differs between attempts is in the request that starts the task: five
//! variables, and a client token that follows from the attempt (`request`). A repeat of the same
//! request finds the task of the first one, as long as ECS remembers the token.
//!
//! ECS forgets a token an hour after its task has stopped, and a stopped task after an hour too
//! (Amazon ECS API reference, "Ensuring idempotency"; developer guide, "Stopped tasks error
//! messages"). So no start is repeated later than `TOKEN_HELD` after its launch. The lists of ECS
//! lag behind: a task that is missing from them counts as gone only after some minutes.

mod check;
mod containers;
mod definition;
mod describe;
mod in_place;
mod injection;
mod jobs;
mod log;
mod refusal;
mod registration;
mod request;
mod session;
mod start;
mod started;
mod stopped;

use crate::{
    CheckReports, DispatchError, Dispatcher, JobRef, Launch, Platform, RateLimiter, RemovalOutcome,
    Started, StopMode, TailStream, Target,
};
use async_trait::async_trait;
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock;
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::runner::ecs::{EcsJob, ServerlessEcs};
use canyon_domain::runner::eks::AwsAuth;
use canyon_identity::bearer::AttemptRef;
use canyon_identity::federation::Federation;
use canyon_identity::job_name::job_name;
use canyon_identity::system::System;
use describe::{Describer, Missing};
pub use in_place::EcsDefaults;
use log::LogReader;
use registration::Registration;
use session::{CredentialSource, Session};
use started::StartedTasks;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The name of the container that runs `canyon-runner`.
const CONTAINER: &str = "canyon-runner";
/// How long after the launch a repeated request certainly finds the first one's task: ECS remembers
/// its token for an hour at least.
const TOKEN_HELD: Duration = Duration::from_mins(50);
/// The maximum number of runners whose clients are cached; creating a client costs a few requests.
const MAX_RUNNERS: usize = 1_000;

/// The platform that starts tasks on ECS.
pub struct EcsPlatform {
    source: CredentialSource,
    limiter: Arc<dyn RateLimiter>,
    image: Option<String>,
    clock: Arc<dyn Clock>,
    http: session::Http,
    runners: Mutex<HashMap<canyon_domain::ids::RunnerUuid, Arc<EcsDispatcher>>>,
}

impl EcsPlatform {
    /// Creates the platform. `federation` exchanges Canyon's tokens for credentials, `limiter` keeps
    /// AWS's rate limits, and `image` is the runner image where a runner names none. Makes no
    /// request.
    pub fn new(
        federation: Arc<Federation>,
        limiter: Arc<dyn RateLimiter>,
        image: Option<String>,
    ) -> Self {
        let http = federation.aws_http();
        Self::with_credentials(CredentialSource::Roles(federation), http, limiter, image)
    }

    fn with_credentials(
        source: CredentialSource,
        http: session::Http,
        limiter: Arc<dyn RateLimiter>,
        image: Option<String>,
    ) -> Self {
        Self { source, limiter, image, clock: Arc::new(System), http, runners: Mutex::default() }
    }

    /// The same platform with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    fn runner(
        &self,
        target: &Arc<Target>,
        config: Settings,
    ) -> Result<Arc<EcsDispatcher>, DispatchError> {
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runners.get(&target.runner)
            && known.config == config
            && known.target.org_id == target.org_id
        {
            return Ok(known.clone());
        }
        if runners.len() >= MAX_RUNNERS {
            runners.clear();
        }
        let new = Arc::new(EcsDispatcher::new(self, target.clone(), config)?);
        runners.insert(target.runner, new.clone());
        Ok(new)
    }
}

impl Platform for Arc<EcsPlatform> {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        let runner = match &target.definition.configuration {
            RunnerConfiguration::ServerlessEcs(config) => {
                let ServerlessEcs { auth, job } = (**config).clone();
                self.runner(target, Settings { auth: Some(auth), job })
            }
            RunnerConfiguration::EcsAgent(config) => {
                let settings = self.settings_in_place(target, &config.job);
                settings.and_then(|settings| self.runner(target, settings))
            }
            _ => Err(not_ecs()),
        };
        match runner {
            Ok(runner) => runner,
            Err(error) => Arc::new(UnusableRunner(error)),
        }
    }
}

/// The settings of a runner of either type.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    /// The role that Canyon assumes; `None` where the agent's own credentials are used.
    auth: Option<AwsAuth>,
    job: EcsJob,
}

/// The tasks of one runner.
pub struct EcsDispatcher {
    target: Arc<Target>,
    config: Settings,
    image: Option<String>,
    clock: Arc<dyn Clock>,
    limiter: Arc<dyn RateLimiter>,
    session: Session,
    registration: Registration,
    describer: Describer,
    missing: Missing,
    started: StartedTasks,
    logs: LogReader,
}

impl EcsDispatcher {
    fn new(
        platform: &EcsPlatform,
        target: Arc<Target>,
        config: Settings,
    ) -> Result<Self, DispatchError> {
        let session = Session::new(&platform.source, &platform.http, &target, &config)?;
        Ok(Self {
            image: config.job.image.clone().or_else(|| platform.image.clone()),
            describer: Describer::new(config.job.cluster.clone()),
            missing: Missing::default(),
            target,
            config,
            clock: platform.clock.clone(),
            limiter: platform.limiter.clone(),
            session,
            registration: Registration::default(),
            started: StartedTasks::default(),
            logs: LogReader::default(),
        })
    }

    /// The task's `startedBy`, by which it is found.
    fn name(&self, job: &JobRef) -> String {
        let (org, deployment, number) = (self.target.org, job.deployment, job.attempt);
        job_name(AttemptRef { org, deployment, number })
    }

    /// Where the tasks run, for messages.
    fn location(&self) -> request::EcsLocation<'_> {
        request::EcsLocation::of(&self.config)
    }
}

#[async_trait]
impl Dispatcher for EcsDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        self.start_task(launch).await
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        self.observe_task(job).await
    }

    /// ECS has one way to stop a task: SIGTERM, and SIGKILL when `stopTimeout` has passed (120
    /// seconds, the maximum on Fargate). A repeated call neither signals again nor shortens that
    /// time, so both modes are the same call.
    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        self.stop_task(job, how).await
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        self.read_log(job, stream, offset).await
    }

    /// Removes nothing: ECS deletes its record of a stopped task itself, and the log group has its
    /// own retention.
    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        match self.observe_task(job).await {
            Observation::Alive | Observation::Queued(_) | Observation::Waiting(_) => {
                RemovalOutcome::JobAlive
            }
            Observation::Gone(_) | Observation::Unknown(_) => RemovalOutcome::Removed,
        }
    }

    async fn image_digest(&self, job: &JobRef) -> Option<Commit> {
        self.digest_of(job).await
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.running().await
    }

    async fn check(&self, reports: &CheckReports) {
        self.check_steps(reports).await;
    }
}

/// The error for a runner of another type, which only a defect in the wiring causes.
fn not_ecs() -> DispatchError {
    let message = "this runner is neither of type `serverless-ecs` nor `ecs-agent`";
    DispatchError::refused(FailureClass::Config, message)
}

/// The dispatcher of a runner whose tasks cannot be started.
struct UnusableRunner(DispatchError);

#[async_trait]
impl Dispatcher for UnusableRunner {
    async fn start(&self, _: &Launch) -> Result<Started, DispatchError> {
        Err(self.0.clone())
    }

    async fn observe(&self, _: &JobRef) -> Observation {
        Observation::Unknown(self.0.to_string())
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        Err(self.0.clone())
    }

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        Err(self.0.clone())
    }

    async fn forget(&self, _: &JobRef) -> RemovalOutcome {
        RemovalOutcome::Removed
    }
}
