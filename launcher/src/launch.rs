//! Takes the environment's turn and starts the job.

use crate::concurrency::ConcurrencySlots;
use crate::fallbacks::{Obstacle, TakingRunner};
use crate::resolved_runner::ResolvedRunner;
use crate::step_outcome::StepOutcome;
use crate::{LaunchError, Launcher, jobs_of};
use canyon_dispatch::{DispatchError, JobRef, Launch, OnFailure, Started};
use canyon_domain::attempt::{Limits, Outcome};
use canyon_domain::deadline::{self, DEFERRED_CHECK_INTERVAL, QUEUE_CHECK};
use canyon_domain::deployment::Deployment;
use canyon_domain::environment_removal::RemovalTurn;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle::{self, START_RETRY_INTERVAL};
use canyon_domain::waiting::Hold;
use canyon_identity::bearer::{self, AttemptRef};
use canyon_identity::job_environment::job_environment;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// The fence of the next attempt, if the deployment may begin now. Otherwise it is changed: it waits, or has ended.
fn take_turn(
    environment: &mut Environment,
    deployment: &mut Deployment,
    now: Timestamp,
) -> Option<u64> {
    if !deployment.mode.takes_turn() {
        if environment.may_check(Some(deployment.id)).is_err() {
            lifecycle::overtake(deployment, now);
            return None;
        }
        // A check draws no fence: it holds nothing that a later run could need.
        return Some(environment.queue.fence);
    }
    let Some(fence) = environment.queue.take(deployment.id) else {
        deployment.due_at = Some(now + QUEUE_CHECK);
        return None;
    };
    let of_removal = match environment.removal_turn(deployment, now) {
        RemovalTurn::Go => None,
        RemovalTurn::Wait(until) => {
            deployment.due_at = Some(until);
            return None;
        }
        RemovalTurn::End(failure) => Some(failure),
    };
    let of_resource = || {
        let refusal = environment.check_resource(deployment).err()?;
        Some(Failure::new(FailureClass::Config, refusal.to_string()))
    };
    let Some(failure) = of_removal.or_else(of_resource) else { return Some(fence) };
    lifecycle::end_without_attempt(deployment, Outcome::Failed(failure), now);
    None
}

impl Launcher {
    /// Writes the next attempt with the turn and fence of its environment, which was read after the deployment, then starts
    /// its job. If this process dies in between, the attempt stays due, and the next call repeats the same start.
    pub(crate) async fn launch(
        &self,
        due: Due,
        mut deployment: Deployment,
        resolved: &ResolvedRunner,
        found: Option<Environment>,
    ) -> Result<StepOutcome, LaunchError> {
        // Read the clock after the turn: so the record shows that the previous attempt ended before this one began.
        let now = self.clock.now();
        let Some(mut environment) = found.filter(|found| found.uuid == deployment.env_uuid) else {
            let failure = Failure::new(FailureClass::Config, "its environment was deleted");
            lifecycle::end_without_attempt(&mut deployment, Outcome::Failed(failure), now);
            return self.save(due, deployment).await;
        };
        let is_check = !deployment.mode.takes_turn();
        let Some(fence) = take_turn(&mut environment, &mut deployment, now) else {
            return self.save(due, deployment).await;
        };
        let overtaken = if is_check { None } else { environment.overtake_check() };
        // While it waits, it keeps its environment's runner.
        let mut waiting = deployment.clone();
        let fallback;
        let resolved =
            match Box::pin(self.taking_runner(due, &mut deployment, &environment, resolved)).await?
            {
                TakingRunner::Own => resolved,
                TakingRunner::Fallback(runner) => {
                    fallback = runner;
                    &*fallback
                }
                TakingRunner::None(Obstacle { hold, reason, pause }) => {
                    deadline::deferred(&mut waiting, hold, reason, now + pause);
                    return self.save(due, waiting).await;
                }
            };
        if let Some(reason) = &resolved.hold_reason {
            let until = now + DEFERRED_CHECK_INTERVAL;
            deadline::deferred(&mut waiting, Hold::Runner, reason.clone(), until);
            return self.save(due, waiting).await;
        }
        if !is_check
            && !deployment.accept_state
            && Box::pin(self.salvage_unfinished(due, environment.module_of(&deployment))).await?
        {
            return Ok(StepOutcome::Changed);
        }
        if !is_check
            && deployment.kind().facts().has_state
            && let Some((home, former)) = &resolved.state
            && let Err(misplaced) =
                environment.record_state_location(&deployment, &home.storage, former)
        {
            let failure = Failure::new(FailureClass::Config, misplaced.to_string());
            lifecycle::end_without_attempt(&mut deployment, Outcome::Failed(failure), now);
            return self.save(due, deployment).await;
        }
        let slots = match Box::pin(self.concurrency_slots(due.org, &deployment, resolved)).await? {
            ConcurrencySlots::Free(slots) => slots,
            ConcurrencySlots::None { hold, reason, pause, check } => {
                deadline::deferred(&mut waiting, hold, reason, now + pause);
                let saved = self.save(due, waiting).await?;
                // Only now is it certain that the deployment still waits.
                if let (StepOutcome::Settled, Some(check)) = (&saved, check) {
                    self.end_overtaken(Due { id: check, ..due }).await;
                }
                return Ok(saved);
            }
        };
        let attempt = AttemptRef {
            org: due.org,
            deployment: due.id,
            number: u32::try_from(deployment.attempts.len()).unwrap_or(u32::MAX) + 1,
        };
        let code = self.master_keys.get().await?.claim_code(attempt, fence);
        let hash = bearer::hash(code.expose_secret());
        let limits = Limits::new(resolved.timeouts, deployment.counts_from());
        let limits = deployment.container.as_ref().map_or(limits, |run| limits.of_container(run));
        let limits = if is_check { limits.of_check() } else { limits };
        if lifecycle::launch(&mut deployment, fence, hash, limits, now).is_err() {
            return Ok(StepOutcome::Changed);
        }
        if let Some(attempt) = deployment.attempts.last_mut() {
            attempt.runner_version = resolved.version;
            attempt.slots = slots.iter().map(|taking| taking.slot.clone()).collect();
        }
        environment.record_launch(&deployment);
        deployment.version += 1;
        environment.version += 1;
        let step = DeploymentChange {
            deployment: &deployment,
            environment: EnvironmentChange::Save(&environment),
            next: None,
            wake: Wake::None,
            record: None,
        };
        match Box::pin(self.table.launch_deployment(due.org, &step, &slots)).await? {
            Saved::Yes => {
                if let Some(check) = overtaken {
                    self.end_overtaken(Due { id: check, ..due }).await;
                }
                Box::pin(self.start(due, deployment, resolved)).await
            }
            Saved::Lost => Ok(StepOutcome::Changed),
        }
    }

    /// Starts the job of the open attempt. Idempotent: a repeated call finds the job.
    pub(crate) async fn start(
        &self,
        due: Due,
        mut deployment: Deployment,
        resolved: &ResolvedRunner,
    ) -> Result<StepOutcome, LaunchError> {
        let Some(attempt) = deployment.open_attempt() else { return Ok(StepOutcome::Changed) };
        let (number, fence) = (attempt.number, attempt.fence);
        // In another place the start would make a second job with the first one's claim code.
        if resolved.dispatcher.is_ok() && !resolved.has_launch_version_of(attempt) {
            let reason = "its runner was changed after the launch; the job may start where it was";
            deadline::postponed(
                &mut deployment,
                reason.to_owned(),
                self.clock.now() + START_RETRY_INTERVAL,
            );
            return self.save(due, deployment).await;
        }
        let launched_at = attempt.launched_at;
        let dispatcher = match (&resolved.dispatcher, &resolved.start_refusal) {
            (Ok(dispatcher), None) => dispatcher,
            (Err(reason), _) | (Ok(_), Some(reason)) => {
                let failure = Failure::new(FailureClass::Config, reason);
                return self.fail(due, deployment, number, failure).await;
            }
        };
        // Earlier attempts have ended, and no later call removes their jobs.
        for earlier in jobs_of(&deployment).skip(1) {
            dispatcher.forget(&earlier).await;
        }
        let environment = self.job_environment(due, number, fence).await?;
        let job = JobRef { deployment: due.id, attempt: number, handle: None };
        let (project, env) = (deployment.project.clone(), deployment.env.clone());
        let container = deployment.container.as_ref().map(|run| run.launch());
        let launch = Launch { job, environment, project, env, launched_at, container };
        let answer = dispatcher.start(&launch).await;
        let waits = |error: &DispatchError| matches!(error.on_failure, OnFailure::WaitForTurn(_));
        let has_waited = !answer.as_ref().is_err_and(waits)
            && deadline::start_sent(&mut deployment, self.clock.now());
        match answer {
            Ok(Started::Now(None)) if has_waited => self.save(due, deployment).await,
            Ok(Started::Now(None)) => Ok(StepOutcome::Settled),
            Ok(Started::Now(Some(handle))) => {
                match lifecycle::started(&mut deployment, number, handle) {
                    Ok(()) => self.save(due, deployment).await,
                    Err(_) => Ok(StepOutcome::Changed),
                }
            }
            // An earlier start was not recorded: observe whether its job still lives.
            Ok(Started::Already(handle)) => {
                let handle = handle.map(|name| lifecycle::started(&mut deployment, number, name));
                match handle {
                    None | Some(Ok(())) => self.observe(due, deployment, resolved).await,
                    Some(Err(_)) => Ok(StepOutcome::Changed),
                }
            }
            Err(error) => self.not_started(due, deployment, number, error).await,
        }
    }

    async fn not_started(
        &self,
        due: Due,
        mut deployment: Deployment,
        number: u32,
        error: DispatchError,
    ) -> Result<StepOutcome, LaunchError> {
        match error.on_failure {
            OnFailure::EndAttempt => self.fail(due, deployment, number, error.failure).await,
            OnFailure::Observe => {
                tracing::warn!(%error, deployment = %due.id, "cannot tell whether the job started");
                let until = self.clock.now() + START_RETRY_INTERVAL;
                deadline::postponed(&mut deployment, error.failure.message, until);
                self.save(due, deployment).await
            }
            OnFailure::RetryAfter(pause) => {
                let until = self.clock.now() + pause;
                deadline::postponed(&mut deployment, error.failure.message, until);
                self.save(due, deployment).await
            }
            OnFailure::WaitForTurn(pause) => {
                let until = self.clock.now() + pause;
                deadline::throttled(&mut deployment, error.failure.message, until);
                self.save(due, deployment).await
            }
        }
    }

    /// Ends the attempt. The failure's class decides whether another attempt follows.
    async fn fail(
        &self,
        due: Due,
        mut deployment: Deployment,
        number: u32,
        failure: Failure,
    ) -> Result<StepOutcome, LaunchError> {
        let outcome = Outcome::Failed(failure);
        match lifecycle::end(&mut deployment, number, outcome, self.clock.now()) {
            Ok(()) => self.save(due, deployment).await,
            Err(_) => Ok(StepOutcome::Changed),
        }
    }

    pub(crate) async fn organization(&self, org: OrgUuid) -> Result<Option<OrgId>, LaunchError> {
        let known = |names: &Self| {
            let names = names.organizations.lock().unwrap_or_else(PoisonError::into_inner);
            names.get(&org).cloned()
        };
        if let Some(name) = known(self) {
            return Ok(Some(name));
        }
        let Some(organization) = self.table.organization(org).await? else { return Ok(None) };
        let mut names = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(org, organization.id.clone());
        Ok(Some(organization.id))
    }

    /// The environment variables that the runner needs for its claim, equal for every start of the
    /// attempt.
    async fn job_environment(
        &self,
        due: Due,
        number: u32,
        fence: u64,
    ) -> Result<BTreeMap<String, SecretString>, LaunchError> {
        let attempt = AttemptRef { org: due.org, deployment: due.id, number };
        let org = self.organization(due.org).await?.unwrap_or_else(OrgId::none);
        let code = self.master_keys.get().await?.claim_code(attempt, fence);
        Ok(job_environment(&self.api_url, &org, attempt, code))
    }
}
