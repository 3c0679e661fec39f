//! Requests external checks of a plan that waits for its approval.
//!
//! Delivery is at least once: a request counts as sent once the service has answered 2xx and the launcher has written that. If this
//! process dies in between, the next reconciliation repeats the request, with the same token for the answer.

use crate::reconcile::MAX_TRIES;
use crate::step_outcome::StepOutcome;
use crate::{LaunchError, Launcher};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::plan_check::{PlanCheck, PlanCheckId};
use canyon_domain::plan_check_answer::record_requests;
use canyon_identity::bearer::AttemptRef;
use canyon_identity::master_key::MasterKey;
use canyon_store::deployment_lists::Due;
use futures::future::join_all;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

/// Why a check fails where Canyon cannot sign.
const NO_ISSUER: &str = "this installation has no issuer that signs requests";

/// The `sub` of the token for the service of a check. Clouds that trust runners trust no such subject.
fn subject(org: OrgUuid, check: &PlanCheckId) -> String {
    format!("org:{org}:plan-check:{check}")
}

impl Launcher {
    /// Sends a request to each service that has not accepted one yet, all at the same time, and records the results.
    pub(crate) async fn request_checks(
        &self,
        due: Due,
        deployment: Deployment,
    ) -> Result<StepOutcome, LaunchError> {
        let now = self.clock.now();
        let (Some(plan), Some(approval)) = (&deployment.plan, &deployment.approval) else {
            return Ok(StepOutcome::Settled);
        };
        let attempt = AttemptRef { org: due.org, deployment: due.id, number: plan.attempt };
        let org = self.organization(due.org).await?.unwrap_or_else(OrgId::none);
        let keys = self.master_keys.get().await?;
        let checks = approval.checks.iter().filter(|check| check.is_to_be_requested(now));
        let requests = checks.map(|check| {
            let body = body(&deployment, check, &org, attempt, &keys, &self.api_url);
            self.send(due, check, body)
        });
        let sent = join_all(requests).await;
        self.record_requests(due, deployment, attempt.number, &sent).await
    }

    async fn send(
        &self,
        due: Due,
        check: &PlanCheck,
        body: Value,
    ) -> (PlanCheckId, Result<(), String>) {
        let id = check.rule.id.clone();
        let sent = match &self.signed_requests {
            Some(requests) => {
                let body = body.to_string().into_bytes();
                requests.post(&check.rule.url, subject(due.org, &id), body).await
            }
            None => Err(NO_ISSUER.to_owned()),
        };
        if let Err(reason) = &sent {
            tracing::warn!(reason, deployment = %due.id, check = %id, "cannot request the check of a plan");
        }
        (id, sent)
    }

    /// Writes which requests were accepted. A service may answer before that, so after a lost race only the record is made again:
    /// a request that was accepted is not repeated.
    async fn record_requests(
        &self,
        due: Due,
        mut deployment: Deployment,
        attempt: u32,
        sent: &[(PlanCheckId, Result<(), String>)],
    ) -> Result<StepOutcome, LaunchError> {
        for _ in 0..MAX_TRIES {
            if !record_requests(&mut deployment, attempt, sent, self.clock.now()) {
                return Ok(StepOutcome::Changed);
            }
            match self.save(due, deployment).await? {
                StepOutcome::Settled => return Ok(StepOutcome::Settled),
                StepOutcome::Changed => {}
            }
            match self.table.deployment(due.org, due.id).await? {
                Some(found) => deployment = found,
                None => return Ok(StepOutcome::Settled),
            }
        }
        Err(LaunchError::Contended(due.id))
    }
}

/// What a service gets. The token is for the answer about exactly this plan.
fn body(
    deployment: &Deployment,
    check: &PlanCheck,
    org: &OrgId,
    attempt: AttemptRef,
    keys: &MasterKey,
    api_url: &str,
) -> Value {
    let plan = deployment.plan.as_ref();
    let (id, check_id) = (deployment.id, &check.rule.id);
    json!({
        "type": "plan.check",
        "organization": org,
        "project": deployment.project,
        "environment": deployment.env,
        "environment_type": deployment.env_type,
        "deployment_id": id,
        "plan_digest": plan.map(|plan| &plan.digest),
        "summary": plan.map(|plan| plan.summary),
        "check": check_id,
        "callback_url": format!("{api_url}/orgs/{org}/deployments/{id}/checks/{check_id}"),
        "token": keys.check_token(attempt, check_id).expose_secret(),
        "expires_at": check.deadline,
    })
}
