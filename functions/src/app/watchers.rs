//! Failure reports from the watcher of a job that was handed out to a remote runner.

use super::App;
use crate::app::error::AppError;
use canyon_api::attempt::{DeploymentResultsUpdateBody, ResultStatus};
use canyon_domain::attempt::SecretHash;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass, shortened};
use canyon_domain::lifecycle::Refused;
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret as _;

impl App {
    /// The deployment whose attempt the holder of this token watches.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's.
    pub(crate) async fn prove_watcher(
        &self,
        of: AttemptRef,
        token: &SecretHash,
    ) -> Result<Deployment, AppError> {
        let deployment = self.table.deployment(of.org, of.deployment).await?;
        let deployment = deployment.ok_or_else(AppError::unauthorized)?;
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
        let attempt = attempt.ok_or_else(AppError::unauthorized)?;
        let expected = self.master_keys.get().await?.watch_token(of, attempt.fence);
        if !bearer::is_same(&bearer::hash(expected.expose_secret()), token) {
            return Err(AppError::unauthorized());
        }
        Ok(deployment)
    }

    /// Records a watcher's report that the job of an attempt failed, is stuck, or does not exist. The launcher treats
    /// it as its own observation, so a job that had not begun to apply is retried. For a cancelled job, the report
    /// counts once its pod must have ended.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn record_failure_report(
        &self,
        of: AttemptRef,
        token: &SecretHash,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), AppError> {
        let deployment = self.prove_watcher(of, token).await?;
        if body.status == ResultStatus::Success {
            let reason = "this token is for the watcher of the job, which reports only that the job failed; the job's \
                runner reports success";
            return Err(AppError::invalid("status", reason));
        }
        let failure = failure(body);
        let runner = self.table.runner(of.org, &deployment.runner).await?;
        let runner = runner.ok_or(Refused::Superseded)?.uuid;
        for _ in 0..MAX_TRIES {
            let found = self.table.agent_job(of.org, runner, of.deployment, of.number).await?;
            let mut job = found.filter(|job| job.polled.is_some()).ok_or(Refused::Superseded)?;
            let before = job.clone();
            if !job.report_failed(failure.clone(), self.now()) {
                // Only the watcher's first report counts, and this is a later one. Or the job was cancelled and the
                // report is too early: the watcher is asked again.
                return Ok(());
            }
            let saved = if job.is_removed() {
                self.table.delete_agent_job(of.org, &before).await?
            } else {
                job.version += 1;
                self.table.save_agent_job(of.org, &job, self.now()).await?
            };
            if saved == Saved::Yes {
                self.job_gone(of).await?;
                return Ok(());
            }
        }
        Err(AppError::contended(of.deployment))
    }
}

fn failure(body: &DeploymentResultsUpdateBody) -> Failure {
    if let Some(failure) = &body.failure {
        return Failure::new(failure.class, shortened(failure.message.clone()));
    }
    let message = match &body.error {
        Some(error) => format!("the watcher of the job reports: {}", error.message),
        None => "the watcher of the job reports that it failed".to_owned(),
    };
    Failure::new(FailureClass::Lost, shortened(message))
}
