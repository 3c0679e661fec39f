//! Starts an attempt's task, once.

use super::definition::Definition;
use super::refusal::Refusals;
use super::request::{EcsLocation, Request};
use super::session::Clients;
use super::started::Known;
use super::{EcsDispatcher, TOKEN_HELD};
use crate::{DispatchError, Launch, OnFailure, Permit, Rate, Started};
use aws_sdk_ecs::config::Builder;
use aws_sdk_ecs::config::retry::RetryConfig;
use aws_sdk_ecs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ecs::operation::run_task::RunTaskError;
use aws_sdk_ecs::types::Task;
use canyon_domain::container::ContainerLaunch;
use canyon_domain::failure::FailureClass;
use jiff::SignedDuration;
use std::time::Duration;

/// The rate limit of AWS for `RunTask`, for all clusters of an account in a region together
/// (developer guide, "Request throttling"). Fargate's own limit is 20 launches a second after a
/// burst of 100, for on-demand and Spot separately. It is never reached first, because each call
/// launches one task.
const CALLS_PER_SECOND: u32 = 20;
const BURST: u32 = 20;
/// The maximum wait for a permit; a start that would wait longer is retried later.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a start is retried when the rate limiter fails.
const LIMITER_RETRY_PAUSE: Duration = Duration::from_secs(1);

impl EcsDispatcher {
    pub(super) fn refusals(&self) -> Refusals<'_> {
        Refusals { location: self.location() }
    }

    pub(super) async fn start_task(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let entry = self.started.entry(&launch.job);
        let mut known = entry.lock().await;
        if let Some(task) = &known.task {
            return Ok(Started::Already(Some(task.clone())));
        }
        let started = self.find_or_run(launch, &mut known).await?;
        let (Started::Now(task) | Started::Already(task)) = &started;
        known.task.clone_from(task);
        Ok(started)
    }

    async fn find_or_run(
        &self,
        launch: &Launch,
        known: &mut Known,
    ) -> Result<Started, DispatchError> {
        let name = self.name(&launch.job);
        self.missing.forget(&name);
        let definition = self.definition(launch.container.as_ref())?;
        let request = Request::new(&self.target, &self.config.job, launch, name.clone())?;
        let clients =
            self.session.clients().await.map_err(|error| Refusals::no_credentials(&error))?;
        let is_late = self.clock.now().duration_since(launch.launched_at)
            >= SignedDuration::try_from(TOKEN_HELD).unwrap_or(SignedDuration::MAX);
        if (is_late || known.start_was_sent)
            && let Some(task) = self.find(&clients, &name).await?
        {
            return Ok(Started::Already(Some(task)));
        }
        if is_late {
            return Err(too_late());
        }
        self.run(&clients, &definition, &request, known).await
    }

    /// The task definition for modules, or for a container job.
    pub(super) fn definition(
        &self,
        container: Option<&ContainerLaunch>,
    ) -> Result<Definition, DispatchError> {
        let Some(image) = &self.image else {
            let message = "no image for the task: set `job.image` of the runner, or CANYON_RUNNER_IMAGE for \
                           the process that launches it, which is Canyon's launcher or the agent";
            return Err(DispatchError::refused(FailureClass::Config, message));
        };
        Ok(Definition::new(&self.target, &self.config.job, image, container))
    }

    async fn run(
        &self,
        clients: &Clients,
        definition: &Definition,
        request: &Request<'_>,
        known: &mut Known,
    ) -> Result<Started, DispatchError> {
        let refusals = self.refusals();
        let mut may_register_again = true;
        loop {
            let family = self.registration.family(clients, definition, &refusals).await?;
            self.wait_for_permit().await?;
            let call = request.build(&clients.ecs, &family).map_err(|error| {
                let message = format!("cannot make a request of the runner's `job`: {error}");
                DispatchError::refused(FailureClass::Config, message)
            })?;
            // Without the SDK's retries: each call needs its own permit, and after no answer the task is looked for first.
            let once = Builder::default().retry_config(RetryConfig::disabled());
            let error = match call.customize().config_override(once).send().await {
                Ok(answer) => {
                    return match answer.tasks() {
                        [task, ..] => Ok(started(task)),
                        [] => Err(refusals.of_failures(answer.failures())),
                    };
                }
                Err(error) => error,
            };
            if let Some(task) = task_in_conflict(&error) {
                return Ok(Started::Already(Some(task)));
            }
            if may_register_again && is_definition_gone(&error) {
                may_register_again = false;
                self.registration.forget(&family).await;
                continue;
            }
            let error = refusals.of_start(&error);
            known.start_was_sent |= error.on_failure == OnFailure::Observe;
            return Err(error);
        }
    }

    async fn wait_for_permit(&self) -> Result<(), DispatchError> {
        let EcsLocation { account, region, .. } = self.location();
        let rate = Rate {
            name: format!("ecs-run-task/{account}/{region}"),
            burst: BURST,
            per_second: CALLS_PER_SECOND,
        };
        match self.limiter.acquire(&rate, PERMIT_TIMEOUT).await {
            Ok(Permit::Granted(wait)) => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
            Ok(Permit::RetryAfter(pause)) => {
                let before = pause.as_millis() * u128::from(CALLS_PER_SECOND) / 1_000;
                let message = format!(
                    "AWS starts {CALLS_PER_SECOND} tasks a second in account {account}, {region}; \
                     about {before} launches come first"
                );
                Err(DispatchError::not_yet(message, pause))
            }
            Err(error) => {
                let message = format!("the rate limiter failed: {error}");
                Err(DispatchError::later(FailureClass::Throttled, message, LIMITER_RETRY_PAUSE))
            }
        }
    }
}

/// The outcome of an answered `RunTask`. Only a new task is in its first state: the answer to a
/// repeat shows the current state of the first one's task.
fn started(task: &Task) -> Started {
    let arn = task.task_arn().map(str::to_owned);
    match task.last_status() {
        Some("PROVISIONING") => Started::Now(arn),
        _ => Started::Already(arn),
    }
}

/// The task that an earlier start of the attempt created with other parameters, because the runner
/// was changed in between.
fn task_in_conflict(error: &SdkError<RunTaskError>) -> Option<String> {
    match error.as_service_error()? {
        RunTaskError::ConflictException(conflict) => conflict.resource_ids().first().cloned(),
        _ => None,
    }
}

/// Whether the task definition was deregistered.
fn is_definition_gone(error: &SdkError<RunTaskError>) -> bool {
    let Some(error) = error.as_service_error() else { return false };
    let words = error.message().unwrap_or_default();
    words.contains("TaskDefinition") && (words.contains("inactive") || words.contains("not found"))
}

fn too_late() -> DispatchError {
    let message = format!(
        "the task was not started within {} minutes of its launch; ECS may have forgotten the \
         attempt by now, so a start could run it twice",
        TOKEN_HELD.as_secs() / 60
    );
    DispatchError::refused(FailureClass::Lost, message)
}
