//! "That job is gone": what a platform says unasked.

use super::App;
use canyon_domain::lifecycle;
use canyon_identity::bearer::AttemptRef;
use canyon_store::StoreError;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;

/// How often a hint is written again when the deployment has changed meanwhile. After that it is
/// dropped: whoever changes a deployment that often, looks at it.
const MAX_TRIES: u32 = 5;

impl App {
    /// Notes that a platform says that an attempt's job is gone, and wakes the launcher, which asks
    /// the platform. A hint about what is over, or that is known, changes nothing: so hints may come
    /// twice, late or out of order. Returns whether it was news.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
                return Ok(true);
            }
        }
        Ok(false)
    }
}
