//! Hints that a job is gone: events that a platform sends unasked.

use super::App;
use canyon_domain::lifecycle;
use canyon_identity::bearer::AttemptRef;
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;

impl App {
    /// Records a platform's event that an attempt's job is gone, and wakes the launcher, which asks the platform. A
    /// repeated hint changes nothing, and neither does one about an ended attempt, unless Canyon must still read what its
    /// job left. So hints may be duplicated, late or out of order. Returns whether the hint was recorded.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the table cannot be read or written.
    pub async fn job_gone(&self, of: AttemptRef) -> Result<bool, StoreError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(of.org, of.deployment).await?;
            let Some(mut deployment) = found else { return Ok(false) };
            if !lifecycle::suspect(&mut deployment, of.number, self.now()) {
                return Ok(false);
            }
            deployment.version += 1;
            let saved = self.table.save_deployment(of.org, &deployment, Wake::Launcher).await?;
            if saved == Saved::Yes {
                if deployment.status.is_terminal() {
                    // On a laptop it is not due any more, so no sweep finds it.
                    self.changes.ended(of.org, &deployment);
                }
                return Ok(true);
            }
        }
        // The process that changes the deployment so often also observes its job.
        Ok(false)
    }
}
