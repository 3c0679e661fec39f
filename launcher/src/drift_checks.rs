//! Checks for drift give way to deployments.

use crate::{LaunchError, Launcher};
use canyon_domain::causes::Causes;
use canyon_domain::lifecycle;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::Due;
use canyon_store::outcome::Saved;

/// How often the end of one check is decided again after a lost race.
const MAX_TRIES: u32 = 10;

impl Launcher {
    /// Ends the check that a deployment of its environment has overtaken. A failure must not delay that deployment: the check runs
    /// to its end then, and its environment does not count its result.
    pub(crate) async fn end_overtaken(&self, check: Due) {
        if let Err(error) = Box::pin(self.overtake_check(check)).await {
            tracing::warn!(error = %Causes(&error), check = %check.id, "cannot stop a check for drift");
        }
    }

    /// Ends a check, because a deployment comes first. If this process dies before that is written, the check runs to its end,
    /// and its environment does not count its result.
    async fn overtake_check(&self, check: Due) -> Result<(), LaunchError> {
        for _ in 0..MAX_TRIES {
            let Some(mut deployment) = self.table.deployment(check.org, check.id).await? else {
                return Ok(());
            };
            if deployment.mode.takes_turn()
                || !lifecycle::overtake(&mut deployment, self.clock.now())
            {
                return Ok(());
            }
            if deployment.status.is_terminal() {
                self.save(check, deployment).await?;
                return Ok(());
            }
            deployment.version += 1;
            let saved = self.table.save_deployment(check.org, &deployment, Wake::Launcher).await?;
            if saved == Saved::Yes {
                return Ok(());
            }
        }
        Err(LaunchError::Contended(check.id))
    }
}
