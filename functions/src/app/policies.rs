//! Policies over plans: given to jobs, and what they say recorded and read.

use super::App;
use crate::app::error::AppError;
use canyon_api::policy::{DeploymentPolicy, PolicyReportBody};
use canyon_domain::deployment::{Deployment, Mode};
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::policy::{Findings, JobPolicy, Judgement};
use canyon_identity::bearer::AttemptRef;
use canyon_store::blob_keys::BlobKey;

impl App {
    /// What the job of a deployment judges its plan by. The policy of now counts, also if it was changed after the acceptance.
    /// Costs a read only where the type has a policy.
    pub(super) async fn job_policy(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        environment: &Environment,
    ) -> Result<Option<JobPolicy>, AppError> {
        let has_plan =
            deployment.container.is_none() && !matches!(deployment.mode, Mode::State | Mode::Drift);
        if !has_plan || environment.type_policy.is_none() {
            return Ok(None);
        }
        let env_type = self.table.env_type(org, &environment.env_type_id).await?;
        Ok(env_type.and_then(|env_type| env_type.policy).map(|policy| (*policy).into()))
    }

    /// Records what a policy says of the plan of an attempt.
    pub(super) async fn record_policy(
        &self,
        of: AttemptRef,
        deployment: &mut Deployment,
        report: &PolicyReportBody,
    ) -> Result<(), AppError> {
        let findings = report.findings();
        let judgement = Judgement::new(report.digest.clone(), &findings, of.number);
        if judgement.stored_by.is_some() {
            let key = BlobKey::policy(of.org, of.deployment, of.number);
            self.put_json(&key, &findings).await?;
        }
        deployment.policy = Some(Box::new(judgement));
        Ok(())
    }

    /// What the policy says of the plan of a deployment, with every message. A reader of the deployment may see it.
    pub(crate) async fn policy_of(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Result<Option<DeploymentPolicy>, AppError> {
        let Some(judgement) = deployment.policy.as_deref() else { return Ok(None) };
        let mut findings = judgement.findings.clone();
        if let Some(number) = judgement.stored_by {
            let key = BlobKey::policy(org, deployment.id, number);
            let stored = self.blobs.get(&key).await?;
            let read = stored.and_then(|bytes| serde_json::from_slice::<Findings>(&bytes).ok());
            if let Some(all) = read {
                findings = all;
            } else {
                tracing::error!(%key, "the messages of a policy cannot be read");
            }
        }
        Ok(Some(DeploymentPolicy::new(&judgement.digest, findings)))
    }
}
