//! A check that has found drift may request a deployment of what was deployed last.

use super::App;
use super::deploy::Idempotency;
use super::scheduled_request;
use crate::app::error::AppError;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::ids::{OrgId, OrgUuid, PrincipalId};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::scoped_role::ScopedRole;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// How long Canyon remembers what a check has led to.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

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
        let now = self.now();
        if !self.may_reconcile(org, check, now).await? {
            return Ok(());
        }
        let found = self.table.environment(org, &check.project, &check.env).await?;
        let Some(environment) = found.filter(|found| found.uuid == check.env_uuid) else {
            return Ok(());
        };
        let Some(organization) = self.table.organization(org).await? else { return Ok(()) };
        let order = scheduled_request::of_last(&check.project, &check.env, &environment)?;
        let key = format!("reconcile/{}", check.id);
        let idempotency = Idempotency {
            of: PrincipalId(Uuid::nil()).into(),
            body: key.clone(),
            key,
            life: REMEMBERED,
        };
        let by = requester(check, org, organization.id);
        let deployment = self.deploy(&by, &order, Some(&idempotency)).await?;
        tracing::info!(check = %check.id, deployment = %deployment.id, "a deployment undoes drift");
        Ok(())
    }

    /// Counts one more reconciliation in the environment. `false` if there were too many: what changes the resources does so again
    /// and again.
    async fn may_reconcile(
        &self,
        org: OrgUuid,
        check: &Deployment,
        now: Timestamp,
    ) -> Result<bool, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.environment(org, &check.project, &check.env).await?;
            let Some(mut environment) = found.filter(|found| found.uuid == check.env_uuid) else {
                return Ok(false);
            };
            let Some(drift) = environment.drift.as_mut() else { return Ok(false) };
            // A deployment that came meanwhile has made the finding old.
            if drift.check != Some(check.id) || !drift.begin_reconciliation(now) {
                return Ok(false);
            }
            environment.version += 1;
            let record = AuditRecord {
                id: self.entropy.id(now),
                at: now,
                by: PrincipalId(Uuid::nil()),
                action: "drift.reconcile".to_owned(),
                subject: format!("projects/{}/envs/{}", check.project, check.env),
                by_right: "canyon".to_owned(),
                details: vec![format!("found by the check {}", check.id)],
            };
            if self.table.save_environment(org, &environment, &record).await? == Saved::Yes {
                return Ok(true);
            }
        }
        Err(AppError::contended(check.id))
    }
}

/// The principal that has asked for the check, with the right to deploy to its environment and to read what the check may read.
fn requester(check: &Deployment, org: OrgUuid, org_id: OrgId) -> Principal {
    let here = ScopedRole::new(Role::Deployer).in_project(check.project.clone());
    let here = ScopedRole { env: Some(check.env.clone()), ..here };
    let (role, reads_in) = match &check.reads_in {
        None => (Role::Viewer, Vec::new()),
        Some(reads_in) => (Role::None, reads_in.clone()),
    };
    Principal {
        id: check.created_by,
        org,
        org_id,
        role,
        scoped_roles: reads_in.into_iter().chain([here]).collect(),
        runner: None,
        operator: false,
        sign_in: SignIn::default(),
    }
}
