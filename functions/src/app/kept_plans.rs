//! Plans that Canyon keeps: stored by their runner, read by people, applied by a later run.

use super::App;
use super::deploy::DeploymentRequest;
use super::run_token::RunToken;
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use canyon_api::attempt::KeptPlanBody;
use canyon_api::plan::{PLAN_FORMAT, Plan, PlanPage};
use canyon_api::sealed_plan;
use canyon_domain::deployment::{Deployment, Mode};
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::kept_plan::{KeptPlan, MAX_PAGES, MAX_PARTS};
use canyon_domain::lifecycle::Refused;
use canyon_domain::plan_task::{PlanPiece, PlanTask};
use canyon_domain::principal::Principal;
use canyon_store::blob_keys::BlobKey;
use std::borrow::Cow;

/// The field of a request that names the plan.
const FIELD: &str = "plan_deployment_id";

/// Whether Canyon keeps the plan of this deployment.
fn is_kept(deployment: &Deployment) -> bool {
    let is_plan = deployment.plan_only || deployment.plans_for_review();
    let makes_plan = !matches!(deployment.mode, Mode::State | Mode::Drift);
    is_plan && deployment.container.is_none() && makes_plan
}

/// Whether its attempt applies the plan of an earlier attempt, which was approved.
fn applies_own_plan(deployment: &Deployment) -> bool {
    let granted = deployment.approval.as_ref().and_then(|approval| approval.granted_at);
    granted.is_some() && deployment.plan_of.is_none()
}

/// What is recorded of a plan that the attempt `number` has stored.
pub(super) fn recorded(body: &KeptPlanBody, number: u32) -> Result<KeptPlan, AppError> {
    let KeptPlanBody { digest, parts, pages, sealed, summary } = body.clone();
    if parts > MAX_PARTS {
        return Err(AppError::invalid("plan.parts", format!("is at most {MAX_PARTS}")));
    }
    if pages > MAX_PAGES {
        return Err(AppError::invalid("plan.pages", format!("is at most {MAX_PAGES}")));
    }
    Ok(KeptPlan { attempt: number, digest, parts, pages, sealed, summary: summary.into() })
}

impl App {
    /// Stores a piece of the plan of an attempt, encrypted by its runner. A stored piece stays as it is.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over, or its plan is not kept.
    pub(crate) async fn keep_plan_piece(
        &self,
        mut token: RunToken,
        piece: PlanPiece,
        sealed: Bytes,
    ) -> Result<(), AppError> {
        let of = token.of;
        let proved = self.prove(&mut token).await?;
        if proved.over {
            return Err(Refused::Superseded.into());
        }
        if !is_kept(&proved.deployment) {
            return Err(AppError::conflict("the plan of this deployment is not kept"));
        }
        let key = BlobKey::plan(of.org, of.deployment, of.number, piece);
        self.blobs.put_if_absent(&key, sealed).await?;
        Ok(())
    }

    /// A piece of the plan that an attempt applies, as its runner encrypted it.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over, or applies no kept plan; 404 when the piece is
    /// not stored.
    pub(crate) async fn plan_piece(
        &self,
        mut token: RunToken,
        piece: PlanPiece,
    ) -> Result<Bytes, AppError> {
        let of = token.of;
        let proved = self.prove(&mut token).await?;
        if proved.over {
            return Err(Refused::Superseded.into());
        }
        let own = Some(of.deployment).filter(|_| applies_own_plan(&proved.deployment));
        let id = proved.deployment.plan_of.or(own);
        let id = id.ok_or_else(|| AppError::conflict("this deployment applies no kept plan"))?;
        let planned = self.table.deployment(of.org, id).await?;
        let attempt = planned.and_then(|planned| planned.plan).map(|plan| plan.attempt);
        let attempt = attempt.ok_or_else(|| not_kept(id))?;
        let found = self.blobs.get(&BlobKey::plan(of.org, id, attempt, piece)).await?;
        found.ok_or_else(|| not_kept(id))
    }

    /// What the job of a deployment does about a kept plan.
    pub(super) async fn plan_task(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Result<Option<PlanTask>, AppError> {
        let keys = self.master_keys.get().await?;
        if let Some(id) = deployment.plan_of {
            let planned = self.table.deployment(org, id).await?;
            let plan = planned.and_then(|planned| planned.plan).ok_or_else(|| not_kept(id))?;
            let KeptPlan { attempt, digest, parts, summary, .. } = *plan;
            let key = keys.plan_key(org, id);
            return Ok(Some(PlanTask::Apply { key, attempt, digest, parts, summary }));
        }
        let key = keys.plan_key(org, deployment.id);
        if applies_own_plan(deployment)
            && let Some(plan) = deployment.plan.as_deref().cloned()
        {
            let KeptPlan { attempt, digest, parts, summary, .. } = plan;
            return Ok(Some(PlanTask::Apply { key, attempt, digest, parts, summary }));
        }
        let reviewed = deployment.approval.as_ref().filter(|_| deployment.plans_for_review());
        Ok(match reviewed {
            Some(approval) => Some(PlanTask::Review { key, required: approval.required }),
            None => is_kept(deployment).then_some(PlanTask::Keep { key }),
        })
    }

    /// The request, with what the kept plan determines that it is to apply.
    ///
    /// # Errors
    ///
    /// 400 when the environment has no such deployment; 409 when its plan cannot be applied.
    pub(super) async fn with_plan<'a>(
        &self,
        by: &Principal,
        order: &'a DeploymentRequest,
        environment: &Environment,
    ) -> Result<Cow<'a, DeploymentRequest>, AppError> {
        let Some(id) = order.plan_of else { return Ok(Cow::Borrowed(order)) };
        let planned = self.planned(by, id, environment).await?;
        planned
            .plan_to_apply(environment.uuid, self.now())
            .map_err(|refusal| AppError::conflict(refusal.to_string()))?;
        if planned.runner != environment.runner_id {
            return Err(AppError::conflict(format!(
                "the plan of deployment {id} was made on runner `{}`, and environment `{}` has runner `{}` now, which may keep \
                 its state elsewhere; plan again",
                planned.runner, environment.id, environment.runner_id
            )));
        }
        let (mode, rollback_to) = (planned.mode, planned.rollback_to);
        Ok(Cow::Owned(DeploymentRequest { mode, rollback_to, ..order.clone() }))
    }

    /// A deployment that applies a kept plan waits for the approval of that plan at once, if it needs one.
    pub(super) async fn ask_for_kept_plan(
        &self,
        by: &Principal,
        deployment: &mut Deployment,
    ) -> Result<(), AppError> {
        let Some(id) = deployment.plan_of else { return Ok(()) };
        let Some(mut approval) = deployment.approval.take() else { return Ok(()) };
        let planned = self.table.deployment(by.org, id).await?;
        let plan = planned.and_then(|planned| planned.plan).ok_or_else(|| not_kept(id))?;
        if approval.required.is_met_by(&plan.summary) {
            approval.ask(deployment.created_at);
            deployment.approval = Some(approval);
            deployment.plan = Some(plan);
        }
        Ok(())
    }

    /// The deployment of the environment that has made the plan `id`.
    pub(super) async fn planned(
        &self,
        by: &Principal,
        id: DeploymentId,
        environment: &Environment,
    ) -> Result<Deployment, AppError> {
        let planned = self.table.deployment(by.org, id).await?;
        let planned = planned.filter(|planned| planned.env_uuid == environment.uuid);
        planned.ok_or_else(|| {
            let reason =
                format!("is {id}, and environment `{}` has no such deployment", environment.id);
            AppError::invalid(FIELD, reason)
        })
    }

    /// A page of the plan of a deployment, or of the plan that it applies.
    ///
    /// # Errors
    ///
    /// 404 when no plan of it is kept, or it has no such page.
    pub(crate) async fn plan_page(
        &self,
        by: &Principal,
        id: DeploymentId,
        number: u32,
    ) -> Result<Plan, AppError> {
        let asked = self.readable_deployment(by, id).await?;
        let policy = self.policy_of(by.org, &asked).await?;
        let planned = match asked.plan_of {
            Some(id) => self.readable_deployment(by, id).await?,
            None => asked,
        };
        let plan = planned.plan.as_deref().ok_or_else(|| not_kept(id))?;
        let mut answer = Plan {
            plan_digest: plan.digest.to_string(),
            format: PLAN_FORMAT,
            summary: plan.summary.into(),
            policy: policy.map(Box::new),
            resources: Vec::new(),
            outputs: Vec::new(),
            encrypted: None,
            next: Some(number + 1).filter(|next| *next < plan.pages),
        };
        if plan.pages == 0 && number == 0 {
            return Ok(answer);
        }
        if number >= plan.pages {
            let (has, what) = (plan.pages, format!("{number} of the plan of deployment {id}"));
            return Err(AppError::missing(format!(
                "there is no page {what}: it has {has}, from 0 on"
            )));
        }
        let piece = PlanPiece::Changes(number);
        let stored =
            self.blobs.get(&BlobKey::plan(by.org, planned.id, plan.attempt, piece)).await?;
        let stored = stored.ok_or_else(|| not_kept(planned.id))?;
        let key = self.master_keys.get().await?.plan_key(by.org, planned.id);
        let altered = |_| {
            tracing::error!(deployment = %planned.id, org = %by.org, %piece, "a stored plan does not open");
            AppError::conflict(format!(
                "the stored plan of deployment {} was changed after it was made; plan again",
                planned.id
            ))
        };
        let opened =
            sealed_plan::open(&key, plan.attempt, piece, stored.to_vec()).map_err(altered)?;
        if plan.sealed {
            answer.encrypted = Some(STANDARD.encode(opened));
            return Ok(answer);
        }
        let page: PlanPage = serde_json::from_slice(&opened).map_err(|error| {
            tracing::error!(%error, deployment = %planned.id, "a stored plan does not parse");
            AppError::internal()
        })?;
        (answer.resources, answer.outputs) = (page.resources, page.outputs);
        Ok(answer)
    }
}

fn not_kept(id: DeploymentId) -> AppError {
    AppError::missing(format!(
        "no plan of deployment {id} is kept: Canyon keeps those of `canyon plan`, and for as long as the deployment itself"
    ))
}
