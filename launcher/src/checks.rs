//! A check of a runner: tries each step of a launch, and writes each result as it arrives.

use crate::resolved_runner::stored_definition;
use crate::{LaunchError, Launcher};
use canyon_dispatch::{CheckReports, Dispatcher};
use canyon_domain::ids::OrgUuid;
use canyon_domain::runner_check::{CheckStep, RunnerCheck, StepReport, StepResult, steps_of};
use canyon_store::outcome::Saved;
use canyon_store::runner_checks::OpenCheck;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

/// Limit of all steps together. The function that runs a check has a minute.
const CHECK_TIMEOUT: Duration = Duration::from_secs(40);
/// Limit of all steps together while a stream batch waits for them.
pub const STREAM_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a step has no result although none before it failed.
const TIMED_OUT: &str = "it did not answer in time; check again";
const NOT_TRIED: &str = "this installation does not try it";

/// How far the steps of a dispatcher got.
enum StepsOutcome {
    /// All steps have a result.
    Completed,
    /// The time limit ended the steps.
    TimedOut,
    /// Another check replaced this one.
    Superseded,
}

impl Launcher {
    /// Runs a check that no launcher has begun. If this process dies meanwhile, the check expires,
    /// and a user may start another.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Store`] if the table fails, [`LaunchError::MasterKey`] if the master key
    /// cannot be read.
    pub async fn check(&self, open: &OpenCheck) -> Result<(), LaunchError> {
        self.check_within(open, CHECK_TIMEOUT).await
    }

    /// Runs a check as [`Launcher::check`] does, but for [`STREAM_CHECK_TIMEOUT`] at most. A check that needs
    /// longer keeps its results so far and is opened again for the next sweep.
    ///
    /// # Errors
    ///
    /// The same as [`Launcher::check`].
    pub async fn check_briefly(&self, open: &OpenCheck) -> Result<(), LaunchError> {
        self.check_within(open, STREAM_CHECK_TIMEOUT).await
    }

    async fn check_within(&self, open: &OpenCheck, limit: Duration) -> Result<(), LaunchError> {
        let Some(mut check) = self.table.runner_check(open.org, &open.runner).await? else {
            return Ok(());
        };
        if !check.begin(self.clock.now()) || self.put(open.org, &mut check).await? == Saved::Lost {
            return Ok(());
        }
        let planned = self.planned(open).await?;
        let resolved = self.current_runner(open.org, &open.runner).await?;
        let dispatcher = match (&resolved.dispatcher, &resolved.start_refusal) {
            (Ok(dispatcher), None) => Ok(dispatcher),
            (Err(reason), _) | (Ok(_), Some(reason)) => Err(reason),
        };
        let (result, message) = match dispatcher {
            Ok(_) => (StepResult::Ok, "it can be read, and its secrets can be opened".to_owned()),
            Err(reason) => (StepResult::Failed, reason.clone()),
        };
        check.record(StepReport { step: CheckStep::Definition, result, message });
        if self.put(open.org, &mut check).await? == Saved::Lost {
            return Ok(());
        }
        let mut reason = NOT_TRIED;
        if let Ok(dispatcher) = dispatcher {
            match self.try_steps(open.org, &mut check, dispatcher, limit).await? {
                StepsOutcome::Completed => {}
                StepsOutcome::TimedOut if limit < CHECK_TIMEOUT => {
                    // Open the check again: the next sweep finds it.
                    check.begun_at = None;
                    self.put(open.org, &mut check).await?;
                    return Ok(());
                }
                StepsOutcome::TimedOut => reason = TIMED_OUT,
                StepsOutcome::Superseded => return Ok(()),
            }
        }
        check.end(&planned, reason, self.clock.now());
        self.put(open.org, &mut check).await?;
        Ok(())
    }

    async fn try_steps(
        &self,
        org: OrgUuid,
        check: &mut RunnerCheck,
        dispatcher: &Arc<dyn Dispatcher>,
        limit: Duration,
    ) -> Result<StepsOutcome, LaunchError> {
        let (sender, mut reports) = unbounded_channel();
        let dispatcher = dispatcher.clone();
        let steps = CheckReports::new(sender);
        // When the check ends or times out, the sender is dropped, which ends the loop below.
        let tries = tokio::time::timeout(limit, async move { dispatcher.check(&steps).await });
        let keep = async {
            while let Some(report) = reports.recv().await {
                check.record(report);
                if self.put(org, check).await? == Saved::Lost {
                    return Ok(Saved::Lost);
                }
            }
            Ok(Saved::Yes)
        };
        Ok(match tokio::join!(tries, keep) {
            (_, Err(error)) => return Err(error),
            (_, Ok(Saved::Lost)) => StepsOutcome::Superseded,
            (Ok(()), Ok(Saved::Yes)) => StepsOutcome::Completed,
            (Err(_), Ok(Saved::Yes)) => StepsOutcome::TimedOut,
        })
    }

    async fn planned(&self, open: &OpenCheck) -> Result<Vec<CheckStep>, LaunchError> {
        let runner = self.table.runner(open.org, &open.runner).await?;
        let definition = runner.as_ref().and_then(stored_definition);
        Ok(definition.map_or_else(Vec::new, |definition| steps_of(&definition)))
    }

    async fn put(&self, org: OrgUuid, check: &mut RunnerCheck) -> Result<Saved, LaunchError> {
        check.version += 1;
        Ok(self.table.save_check(org, check).await?)
    }
}
