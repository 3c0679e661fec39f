//! Reconciles one deployment: decides what is to be done now, and does it.

use crate::lock_owner::is_proof;
use crate::resolved_runner::ResolvedRunner;
use crate::step_outcome::StepOutcome;
use crate::{LaunchError, Launcher, last_job};
use canyon_dispatch::StopMode;
use canyon_domain::attempt::Attempt;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deadline::{self, Observation, Step, next_step};
use canyon_domain::deployment::Deployment;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_domain::plan_check_answer;
use canyon_domain::state_lock;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;
use std::time::Duration;

/// How often one call decides again after a lost race.
pub(crate) const MAX_TRIES: u32 = 20;

/// Limit of one reconciliation: longer than all requests that it may make to a platform, with their
/// own limits. A reconciliation that takes longer hangs, and its slot goes to others.
pub const RECONCILE_TIMEOUT: Duration = Duration::from_mins(4);

/// Why a deployment is reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileTrigger {
    /// It is due, or was just written.
    Due,
    /// It has ended, and its end was just published.
    EndPublished,
    /// It has ended, and its end need not be published.
    Ended,
    /// A hint says that its job is gone: observe the job even if nothing is due.
    JobGone,
}

impl Launcher {
    /// Does for a deployment everything that is to be done now.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]: the table, the object store, the master key or the event bus failed, the
    /// deployment kept changing, or [`RECONCILE_TIMEOUT`] has passed. The deployment stays due, so the sweep
    /// retries it.
    pub async fn reconcile(&self, due: Due, trigger: ReconcileTrigger) -> Result<(), LaunchError> {
        within_time_limit(due, Box::pin(self.reconcile_steps(due, trigger, None))).await
    }

    /// The same for a deployment that a write has left as `image`. Before the first attempt the launcher uses the
    /// image: its first write fails if the image is stale. Later it reads the deployment from the table.
    pub(crate) async fn reconcile_written(
        &self,
        due: Due,
        image: Deployment,
    ) -> Result<(), LaunchError> {
        let has_begun = !image.attempts.is_empty() || image.status.is_terminal();
        let known = Some(image).filter(|_| !has_begun);
        let steps = self.reconcile_steps(due, ReconcileTrigger::Due, known);
        within_time_limit(due, Box::pin(steps)).await
    }

    /// The same for a deployment that has ended, and that a write or a read has left as `image`. An end is final, so that
    /// the image is as good as the table.
    pub(crate) async fn reconcile_ended(
        &self,
        due: Due,
        image: Option<Deployment>,
    ) -> Result<(), LaunchError> {
        let steps = self.reconcile_steps(due, ReconcileTrigger::Ended, image);
        within_time_limit(due, Box::pin(steps)).await
    }

    async fn reconcile_steps(
        &self,
        due: Due,
        mut trigger: ReconcileTrigger,
        mut known: Option<Deployment>,
    ) -> Result<(), LaunchError> {
        let mut lock_owner_checked = false;
        for _ in 0..MAX_TRIES {
            let found = match known.take() {
                Some(image) => Some(image),
                None => self.table.deployment(due.org, due.id).await?,
            };
            let Some(deployment) = found else { return Ok(()) };
            if deployment.status.is_terminal() {
                return self.clean_up(due, &deployment, trigger).await;
            }
            let awaited = state_lock::awaited_job(&deployment, self.clock.now());
            if let Some(holder) = awaited.filter(|_| !lock_owner_checked) {
                lock_owner_checked = true;
                Box::pin(self.prove_lock_owner_gone(due, deployment, holder)).await?;
                continue;
            }
            let (resolved, environment) =
                Box::pin(self.resolve_with_environment(due, &deployment)).await?;
            let step = self.apply_step(due, deployment, &resolved, environment, trigger);
            match Box::pin(step).await? {
                StepOutcome::Settled => return Ok(()),
                // Another write won, and the job is still to be observed.
                StepOutcome::Changed if trigger == ReconcileTrigger::JobGone => {}
                StepOutcome::Changed => trigger = ReconcileTrigger::Due,
            }
        }
        Err(LaunchError::Contended(due.id))
    }

    async fn apply_step(
        &self,
        due: Due,
        mut deployment: Deployment,
        resolved: &ResolvedRunner,
        environment: Option<Environment>,
        trigger: ReconcileTrigger,
    ) -> Result<StepOutcome, LaunchError> {
        let now = self.clock.now();
        let step = match (next_step(&deployment, &resolved.timeouts, self.up_since, now), trigger) {
            // Keep `Step::Start`: a start that is not recorded may not have happened, and then happens now. If it
            // did happen, the start finds the job, and the launcher observes it.
            (Step::Wait(_), ReconcileTrigger::JobGone) => Step::Observe,
            // Its platform takes no start yet, and a hint changes nothing of that.
            (Step::Start, ReconcileTrigger::Due)
                if deployment.open_attempt().is_some_and(|attempt| attempt.throttled) =>
            {
                let turn = deployment.due_at.filter(|at| *at > now);
                turn.map_or(Step::Start, Step::Wait)
            }
            (step, _) => step,
        };
        match step {
            Step::Nothing => Ok(StepOutcome::Settled),
            Step::Wait(until) => {
                if deployment.due_at.is_some_and(|at| at > now) {
                    return Ok(StepOutcome::Settled);
                }
                deployment.due_at = Some(until);
                self.save(due, deployment).await
            }
            Step::Launch => Box::pin(self.launch(due, deployment, resolved, environment)).await,
            Step::Start => Box::pin(self.start(due, deployment, resolved)).await,
            Step::Observe => self.observe(due, deployment, resolved).await,
            Step::Stop => self.stop(due, deployment, resolved, StopMode::Graceful).await,
            Step::Kill => self.stop(due, deployment, resolved, StopMode::Kill).await,
            Step::GiveUp(reason) => {
                lifecycle::give_up(&mut deployment, reason, now);
                self.save(due, deployment).await
            }
            Step::RequestChecks => Box::pin(self.request_checks(due, deployment)).await,
            Step::ExpireChecks => {
                plan_check_answer::expire(&mut deployment, now);
                self.save(due, deployment).await
            }
            Step::End(outcome) => {
                lifecycle::end_without_attempt(&mut deployment, outcome, now);
                self.save(due, deployment).await
            }
        }
    }

    /// Records that the job is being stopped, and why, before it calls the platform: the runner may
    /// report at once, and its report must find the record. If this process dies in between, the
    /// next reconciliation calls the platform.
    async fn stop(
        &self,
        due: Due,
        mut deployment: Deployment,
        resolved: &ResolvedRunner,
        how: StopMode,
    ) -> Result<StepOutcome, LaunchError> {
        let is_known = deployment.open_attempt().is_some_and(|attempt| attempt.stop.is_some());
        deadline::stopping(&mut deployment, self.clock.now());
        if !is_known {
            if let StepOutcome::Changed = self.save(due, deployment.clone()).await? {
                return Ok(StepOutcome::Changed);
            }
            deployment.version += 1;
        }
        if let (Ok(dispatcher), Some(job)) = (&resolved.dispatcher, last_job(&deployment))
            && let Err(error) = dispatcher.stop(&job, how).await
        {
            // The next reconciliation retries the stop. The last deadline ends the attempt even if every stop fails.
            tracing::warn!(%error, deployment = %due.id, "cannot stop the job");
        }
        self.observe(due, deployment, resolved).await
    }

    /// Observes the job. If the job is dead, fetches the output that it had not sent before its end
    /// is written.
    pub(crate) async fn observe(
        &self,
        due: Due,
        mut deployment: Deployment,
        resolved: &ResolvedRunner,
    ) -> Result<StepOutcome, LaunchError> {
        let observation = match (&resolved.dispatcher, last_job(&deployment)) {
            (Ok(dispatcher), Some(job)) => dispatcher.observe(&job).await,
            // The job may still live, so only a deadline ends the attempt.
            (Err(reason), Some(_)) => Observation::Unknown(reason.clone()),
            (_, None) => Observation::Gone(None),
        };
        let observation = match deployment.open_attempt() {
            Some(attempt) => observation_to_act_on(observation, attempt, resolved),
            None => observation,
        };
        if let Observation::Gone(_) = observation
            && let Ok(dispatcher) = &resolved.dispatcher
            && let Some(attempt) = deployment.open_attempt()
        {
            let (number, is_same) = (attempt.number, resolved.finds_job_of(attempt));
            self.salvage(due, &mut deployment, number, dispatcher, is_same).await?;
        }
        let now = self.clock.now();
        let open = deployment.open_attempt();
        let proved = open.filter(|attempt| is_proof(&observation, attempt, resolved));
        let proved = proved.map(|attempt| attempt.number);
        deadline::observed(&mut deployment, observation, now);
        if let Some(number) = proved {
            lifecycle::job_gone(&mut deployment, number, now);
        }
        self.save(due, deployment).await
    }

    /// Writes a step. If the step ends the deployment, the next deployment of the environment gets
    /// its turn.
    pub(crate) async fn save(
        &self,
        due: Due,
        mut deployment: Deployment,
    ) -> Result<StepOutcome, LaunchError> {
        deployment.version += 1;
        if !deployment.status.is_terminal() {
            return Ok(
                match self.table.save_deployment(due.org, &deployment, Wake::None).await? {
                    Saved::Yes => StepOutcome::Settled,
                    Saved::Lost => StepOutcome::Changed,
                },
            );
        }
        let now = self.clock.now();
        let record = AuditRecord::of_end(self.entropy.id(now), now, "canyon", &deployment);
        let saved = self.table.end_deployment(due.org, &deployment, now, Some(&record)).await?;
        if saved == Saved::Yes {
            tracing::info!(deployment = %due.id, status = %deployment.status, "deployment ended");
        }
        // Reconcile once more to remove what the job left.
        Ok(StepOutcome::Changed)
    }
}

/// Runs `work` within [`RECONCILE_TIMEOUT`].
pub(crate) async fn within_time_limit(
    due: Due,
    work: impl Future<Output = Result<(), LaunchError>>,
) -> Result<(), LaunchError> {
    let ended = tokio::time::timeout(RECONCILE_TIMEOUT, work).await;
    ended.unwrap_or(Err(LaunchError::Late(due.id)))
}

/// The observation to act on. After a change of its runner, the dispatcher may look in another
/// place than where the job runs. A job that is missing there does not end a claimed attempt: only
/// the silence of its runner does.
fn observation_to_act_on(
    observation: Observation,
    attempt: &Attempt,
    resolved: &ResolvedRunner,
) -> Observation {
    let is_gone = matches!(observation, Observation::Gone(_));
    if is_gone && attempt.claim.is_some() && !is_proof(&observation, attempt, resolved) {
        let reason = "its runner was changed after the launch; the job may run where it was";
        return Observation::Unknown(reason.to_owned());
    }
    observation
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::runner::{Timeouts, timeouts::TimeoutSettings};
    use serde_json::json;

    #[test]
    fn a_missing_job_ends_no_claimed_attempt_if_its_runner_was_changed_after_the_launch() {
        let attempt: Attempt = serde_json::from_value(json!({
            "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:10Z", "claim_hash": "",
            "runner_version": 3,
            "limits": { "start": 1, "run": 1, "stop": 1 },
            "claim": {
                "claimant": "one", "at": "2026-01-01T00:00:11Z", "token_hash": "",
                "heartbeat_at": "2026-01-01T00:00:11Z",
            },
        }))
        .unwrap();
        let resolved = |finds_jobs_since| ResolvedRunner {
            timeouts: Timeouts::from(&TimeoutSettings::default()),
            dispatcher: Err(String::new()),
            start_refusal: None,
            hold_reason: None,
            state: None,
            version: Some(4),
            finds_jobs_since: Some(finds_jobs_since),
        };
        let (before, after) = (resolved(3), resolved(4));
        let nothing = || Observation::Gone(None);
        assert_eq!(observation_to_act_on(nothing(), &attempt, &before), nothing());
        assert!(matches!(
            observation_to_act_on(nothing(), &attempt, &after),
            Observation::Unknown(_)
        ));
        assert_eq!(observation_to_act_on(Observation::Alive, &attempt, &after), Observation::Alive);
        let unclaimed = Attempt { claim: None, ..attempt };
        assert_eq!(observation_to_act_on(nothing(), &unclaimed, &after), nothing());
    }
}
