//! A check that has found drift may request a deployment of what was deployed last.

use super::App;
use super::deploy::Idempotency;
use super::scheduled_request;
use crate::app::error::AppError;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use jiff::Timestamp;

impl App {
    /// Requests the deployment, if `check` is to lead to one. It waits for the same approval as any other. What goes wrong is
    /// logged: the next check finds the drift again.
    pub(super) async fn reconcile(&self, org: OrgUuid, check: &Deployment) {
        let is_drifted = check.drift.as_ref().is_some_and(|found| found.num_drifted > 0);
        if check.status != Status::Succeeded || !check.reconciles || !is_drifted {
            return;
        }
        // The future is large.
        if let Err(error) = Box::pin(self.request_reconciliation(org, check)).await {
            let reason = error.message();
            tracing::warn!(check = %check.id, reason, "drift is not undone now");
        }
    }

    async fn request_reconciliation(
        &self,
        org: OrgUuid,
        check: &Deployment,
    ) -> Result<(), AppError> {
        let Some(environment) = self.begin_reconciliation(org, check, self.now()).await? else {
            return Ok(());
        };
        let Some(organization) = self.table.organization(org).await? else { return Ok(()) };
        let order = scheduled_request::of_last(&check.project, &check.env, &environment)?;
        let key = Idempotency::of_canyon(format!("reconcile/{}", check.id));
        let reader = match &check.reads_in {
            None => (Role::Viewer, Vec::new()),
            Some(reads_in) => (Role::None, reads_in.clone()),
        };
        let place = (&check.project, &check.env);
        let by = Principal::to_deploy(check.created_by, (org, organization.id), reader, place);
        let deployment = self.deploy(&by, &order, Some(&key)).await?;
        tracing::info!(check = %check.id, deployment = %deployment.id, "a deployment undoes drift");
        Ok(())
    }

    /// Counts one more reconciliation in the environment, and returns that. `None` if there were too many: what changes the
    /// resources does so again and again.
    async fn begin_reconciliation(
        &self,
        org: OrgUuid,
        check: &Deployment,
        now: Timestamp,
    ) -> Result<Option<Environment>, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.environment(org, &check.project, &check.env).await?;
            let Some(mut environment) = found.filter(|found| found.uuid == check.env_uuid) else {
                return Ok(None);
            };
            let Some(drift) = environment.drift.as_mut() else { return Ok(None) };
            // A deployment that came meanwhile has made the finding old.
            if drift.check != Some(check.id) || !drift.begin_reconciliation(now) {
                return Ok(None);
            }
            environment.version += 1;
            let record = AuditRecord::of_reconciliation(self.entropy.id(now), now, check);
            if self.table.save_environment(org, &environment, &record).await? == Saved::Yes {
                return Ok(Some(environment));
            }
        }
        Err(AppError::contended(check.id))
    }
}
