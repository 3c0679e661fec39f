//! A newer deployment of the same source replaces those that still wait.

use super::App;
use crate::app::error::AppError;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::ids::OrgUuid;
use canyon_store::outcome::Saved;

impl App {
    /// Ends what waits, also for its approval, in `queue` and `newer` replaces. One that begins meanwhile runs to its end. If this process dies before all
    /// of them are ended, they run, in their order: nothing is lost.
    pub(super) async fn end_superseded(
        &self,
        org: OrgUuid,
        newer: &Deployment,
        queue: &DeploymentQueue,
    ) -> Result<(), AppError> {
        if newer.supersede.is_none() {
            return Ok(());
        }
        let earlier = queue.away.iter().chain(&queue.current).chain(&queue.waiting);
        for id in earlier.filter(|id| **id != newer.id) {
            let Some(mut older) = self.table.deployment(org, *id).await? else { continue };
            if !older.is_superseded_by(newer) {
                continue;
            }
            let now = self.now();
            older.end_as_superseded(newer.id, now);
            older.version += 1;
            let record = AuditRecord::of_end(self.entropy.id(now), now, "canyon", &older);
            let saved = self.table.end_deployment(org, &older, now, Some(&record)).await?;
            if saved == Saved::Yes {
                self.changes.ended(org, &older);
            }
        }
        Ok(())
    }
}
