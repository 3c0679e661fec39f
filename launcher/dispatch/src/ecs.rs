//! The kinds `serverless-ecs` and `ecs-agent`: a job is a task on AWS Fargate. They differ in who asks: the
//! role that the runner names, or whatever the agent is there.
//!
//! Nothing of an attempt is in the task definition, which is registered once for each content
//! (`definition`). What differs between attempts is in the request that starts the task: five
//! variables, and a token that follows from the attempt (`request`). A repeat of the same request
//! finds the task of the first one, as long as ECS remembers the token.
//!
//! ECS forgets: a token an hour after its task has stopped, a stopped task after an hour too
//! (Amazon ECS API reference, "Ensuring idempotency"; developer guide, "Stopped tasks error
//! messages"). So no start is repeated later than `TOKEN_HELD` after its launch. And its lists lag
//! behind: a task that is not there a moment after its start is not gone, and one that no list has is
//! gone only once that has been so for minutes.

mod check;
mod definition;
mod describe;
mod in_place;
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
    DispatchError, Dispatcher, JobRef, Launch, Pace, Platform, Remains, Started, Steps, StopMode,
    TailStream, Target,
};
use async_trait::async_trait;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::runner::ecs::{EcsJob, ServerlessEcs};
use canyon_domain::runner::eks::AwsAuth;
use canyon_domain::seam::Clock;
use canyon_identity::bearer::AttemptRef;
use canyon_identity::federation::Federation;
use canyon_identity::job_name::job_name;
use canyon_identity::system::System;
use describe::{Describer, Missing};
pub use in_place::EcsDefaults;
use log::LogReader;
use registration::Registration;
use session::{Entry, Session};
use started::StartedTasks;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The container that runs `canyon-runner`.
const CONTAINER: &str = "canyon-runner";
/// How long after the launch a repeated request surely finds the first one's task: ECS remembers
/// its token for an hour at least.
const TOKEN_HELD: Duration = Duration::from_mins(50);
/// The most runners whose clients are kept; a new one costs a few requests.
const MAX_RUNNERS: usize = 1_000;

/// Starts tasks on Fargate.
pub struct EcsPlatform {
    entry: Entry,
    pace: Arc<dyn Pace>,
    image: Option<String>,
    clock: Arc<dyn Clock>,
    http: session::Http,
    runners: Mutex<HashMap<canyon_domain::ids::RunnerUuid, Arc<EcsDispatcher>>>,
}

impl EcsPlatform {
    /// Is let in by `federation`, shares AWS's limits by `pace`, and runs `image` where a runner
    /// names no other. Makes no call.
    pub fn new(federation: Arc<Federation>, pace: Arc<dyn Pace>, image: Option<String>) -> Self {
        Self::entered_by(Entry::Roles(federation), session::http(), pace, image)
    }

    fn entered_by(
        entry: Entry,
        http: session::Http,
        pace: Arc<dyn Pace>,
        image: Option<String>,
    ) -> Self {
        Self { entry, pace, image, clock: Arc::new(System), http, runners: Mutex::default() }
    }

    /// The same by another clock.
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
            Err(error) => Arc::new(Refused(error)),
        }
    }
}

/// What a runner says, of either type.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    /// The role that Canyon is let in as; none where the agent's own is used.
    auth: Option<AwsAuth>,
    job: EcsJob,
}

/// The tasks of one runner.
pub struct EcsDispatcher {
    target: Arc<Target>,
    config: Settings,
    image: Option<String>,
    clock: Arc<dyn Clock>,
    pace: Arc<dyn Pace>,
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
        let session = Session::new(&platform.entry, &platform.http, &target, &config)?;
        Ok(Self {
            image: config.job.image.clone().or_else(|| platform.image.clone()),
            describer: Describer::new(config.job.cluster.clone()),
            missing: Missing::default(),
            target,
            config,
            clock: platform.clock.clone(),
            pace: platform.pace.clone(),
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
    fn place(&self) -> request::Place<'_> {
        request::Place::of(&self.config)
    }
}

#[async_trait]
impl Dispatcher for EcsDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        self.start_task(launch).await
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        self.look(job).await
    }

    /// ECS has one way to stop a task: SIGTERM, and SIGKILL when `stopTimeout` has passed (120
    /// seconds, the most that Fargate allows). A repeat neither signals again nor shortens that, so
    /// both modes are the same call.
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

    /// There is nothing to clear away: ECS removes what it knows of a stopped task itself, and the
    /// log group has a retention of its own.
    async fn forget(&self, job: &JobRef) -> Remains {
        match self.look(job).await {
            Observation::Alive | Observation::Queued(_) | Observation::Waiting(_) => Remains::Job,
            Observation::Gone(_) | Observation::Unknown(_) => Remains::Nothing,
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.running().await
    }

    async fn check(&self, steps: &Steps) {
        self.check_steps(steps).await;
    }
}

/// A runner of another type, which only a mistake in the wiring brings here.
fn not_ecs() -> DispatchError {
    let message = "this runner is neither of type `serverless-ecs` nor `ecs-agent`";
    DispatchError::refused(FailureClass::Config, message)
}

/// For a runner whose tasks are not started here.
struct Refused(DispatchError);

#[async_trait]
impl Dispatcher for Refused {
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

    async fn forget(&self, _: &JobRef) -> Remains {
        Remains::Nothing
    }
}
