//! Cancels a deployment.

use super::App;
use super::permissions::of_caller;
use crate::app::error::AppError;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::lifecycle::{self, CancelAnswer};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::run_kind::RunKind;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;

impl App {
    /// Requests the cancellation of a deployment. If nothing runs, it ends at once; otherwise its job is stopped first.
    /// A repeated request changes nothing.
    ///
    /// # Errors
    ///
    /// 404 when the deployment does not exist; 409 when it has ended otherwise.
    pub async fn cancel(&self, by: &Principal, id: DeploymentId) -> Result<Deployment, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(by.org, id).await?;
            let mut deployment = of_caller(by, Role::Deployer, id, found)?;
            let before = deployment.clone();
            let now = self.now();
            let answer = lifecycle::cancel(&mut deployment, by.id, now);
            if deployment == before {
                return match answer {
                    CancelAnswer::AlreadyOver if before.cancel.is_none() => {
                        Err(AppError::conflict(format!(
                            "deployment {id} is over: it has {}",
                            before.status
                        )))
                    }
                    _ => Ok(before),
                };
            }
            deployment.version += 1;
            let mut record = self.record(by, "deployment.cancel", deployment.path());
            record.details = RunKind::details_of(&deployment);
            let saved = if answer == CancelAnswer::Cancelled {
                self.table.end_deployment(by.org, &deployment, now, Some(&record)).await?
            } else {
                self.table.save_deployment_with(by.org, &deployment, &record).await?
            };
            if saved == Saved::Yes {
                if deployment.status.is_terminal() {
                    self.changes.ended(by.org, &deployment);
                }
                return Ok(deployment);
            }
        }
        Err(AppError::contended(id))
    }
}
