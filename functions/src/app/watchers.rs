//! The one word of whoever watches a job that was handed out: that it failed.

use super::App;
use crate::app::error::AppError;
use canyon_api::attempt::{DeploymentResultsUpdateBody, ResultStatus};
use canyon_domain::attempt::SecretHash;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass, shortened};
use canyon_domain::lifecycle::Refused;
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret as _;

/// How often the word is weighed again when the job has changed meanwhile.
const MAX_TRIES: u32 = 20;

impl App {
    /// The deployment whose attempt is watched by the holder of this token.
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

    /// Takes the word that the job of an attempt failed, is stuck, or is not there. The launcher weighs it as what
    /// it sees of a job itself, so a job that had not begun to apply is tried again. Of one that was cancelled it
    /// counts once its pod must have ended.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when that is over.
    pub(crate) async fn take_word_of_failure(
        &self,
        of: AttemptRef,
        token: &SecretHash,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), AppError> {
        let deployment = self.prove_watcher(of, token).await?;
        if body.status == ResultStatus::Success {
            let reason = "this token is for whoever watches the job, to say that it failed; that it succeeded, its \
                runner says";
            return Err(AppError::invalid("status", reason));
        }
        let failure = failure(body);
        let runner = self.table.runner(of.org, &deployment.runner).await?;
        let runner = runner.ok_or(Refused::Superseded)?.uuid;
        for _ in 0..MAX_TRIES {
            let found = self.table.agent_job(of.org, runner, of.deployment, of.number).await?;
            let mut job = found.filter(|job| job.polled.is_some()).ok_or(Refused::Superseded)?;
            let before = job.clone();
            if !job.failed(failure.clone(), self.now()) {
                // Its first word counts, and it has said that; or it speaks too early of what was cancelled, and is
                // asked again.
                return Ok(());
            }
            let saved = if job.is_cleared_away() {
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
        Some(error) => format!("whoever watches the job says: {}", error.message),
        None => "whoever watches the job says that it failed".to_owned(),
    };
    Failure::new(FailureClass::Lost, shortened(message))
}
