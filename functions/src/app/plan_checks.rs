//! Answers of services that check plans.

use super::App;
use super::runs::foreign_path;
use crate::app::error::AppError;
use canyon_domain::attempt::SecretHash;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::plan_check::{PlanCheck, PlanCheckAnswer, PlanCheckId};
use canyon_domain::plan_check_answer::{self, AnswerRefusal};
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret as _;

impl From<AnswerRefusal> for AppError {
    fn from(refusal: AnswerRefusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            AnswerRefusal::UnknownCheck(_) => Self::missing(message),
            AnswerRefusal::FaultyMessage => Self::invalid("message", message),
            AnswerRefusal::FaultyLink => Self::invalid("url", message),
            AnswerRefusal::OtherPlan
            | AnswerRefusal::Final(_)
            | AnswerRefusal::Late
            | AnswerRefusal::NotAwaited(..) => Self::conflict(message),
        }
    }
}

impl App {
    /// Verifies the token of a check. Canyon derives it again, so this reads nothing.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that of this check.
    pub(crate) async fn prove_check(
        &self,
        of: AttemptRef,
        token: &SecretHash,
        check: &PlanCheckId,
    ) -> Result<(), AppError> {
        let expected = self.master_keys.get().await?.check_token(of, check);
        if bearer::is_same(&bearer::hash(expected.expose_secret()), token) {
            Ok(())
        } else {
            Err(AppError::unauthorized())
        }
    }

    /// 404 unless the path names the token's organization and deployment.
    pub(crate) async fn check_is_of_path(
        &self,
        of: AttemptRef,
        org: &str,
        id: DeploymentId,
    ) -> Result<(), AppError> {
        let found = self.table.organization(of.org).await?;
        let is_same = of.deployment == id && found.is_some_and(|found| found.id.as_str() == org);
        if is_same { Ok(()) } else { Err(foreign_path()) }
    }

    /// Records the answer of a check about the plan that the attempt has made. With the last thing that the plan needs, the
    /// launcher applies it; a mandatory check that has failed ends the deployment.
    ///
    /// # Errors
    ///
    /// 400 when a text of the answer is at fault; 404 when there is no such check; 409 when the plan is another, or waits no more,
    /// or the check has another final answer.
    pub(crate) async fn answer_check(
        &self,
        of: AttemptRef,
        id: &PlanCheckId,
        answer: &PlanCheckAnswer,
    ) -> Result<PlanCheck, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(of.org, of.deployment).await?;
            let mut deployment = found.ok_or_else(foreign_path)?;
            let now = self.now();
            let is_new = plan_check_answer::answer(&mut deployment, of.number, id, answer, now)?;
            if is_new && self.save_answer(of, &mut deployment, id, answer).await? == Saved::Lost {
                continue;
            }
            let checks = deployment.approval.map(|approval| approval.checks).unwrap_or_default();
            let answered = checks.into_iter().find(|check| check.rule.id == *id);
            return answered.ok_or_else(|| AnswerRefusal::UnknownCheck(id.clone()).into());
        }
        Err(AppError::contended(of.deployment))
    }

    /// Writes an answer; a final one with its audit record.
    async fn save_answer(
        &self,
        of: AttemptRef,
        deployment: &mut Deployment,
        id: &PlanCheckId,
        answer: &PlanCheckAnswer,
    ) -> Result<Saved, AppError> {
        deployment.version += 1;
        if answer.status.is_open() {
            return Ok(self.table.save_deployment(of.org, deployment, Wake::None).await?);
        }
        let now = self.now();
        let record = AuditRecord::of_check(self.entropy.id(now), now, deployment, id, answer);
        self.save_reviewed(of.org, deployment, &record).await
    }
}
