//! Decides whether a runner may break a lock on its state.

use super::App;
use super::run_token::{Proved, RunToken};
use crate::app::error::AppError;
use canyon_api::attempt::{JudgeLockAnswer, LockDecision};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{EnvUuid, OrgUuid, PrincipalId};
use canyon_domain::lifecycle::Refused;
use canyon_domain::state_lock::{self, KeepReason, Proof, StateLock};
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::outcome::Saved;
use canyon_store::page::PageRequest;
use uuid::Uuid;

/// How many of the environment's newest launched deployments may have left a lock. Each later one would have found the
/// lock of an earlier one.
const LOOK_BACK: usize = 50;
/// The deployments of one page, and the most pages that are read: many deployments may wait, and have no attempt yet.
const PAGE: u32 = 50;
const MAX_PAGES: u32 = 5;

impl App {
    /// Decides about a lock that blocks an attempt. A decision to break it is recorded before it is returned; the same one
    /// again changes nothing. While the runner has to wait, the launcher observes whether the lock owner's job is gone.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn judge_lock(
        &self,
        token: RunToken,
        lock: &StateLock,
    ) -> Result<JudgeLockAnswer, AppError> {
        let of = token.of;
        for _ in 0..MAX_TRIES {
            let Proved { mut deployment, over, .. } = self.prove_now(&token).await?;
            if over {
                return Err(Refused::Superseded.into());
            }
            let others = self.newest_launched(of.org, deployment.env_uuid).await?;
            let decision = state_lock::decide(lock, &deployment, of.number, &others);
            let changed = state_lock::record_decision(&mut deployment, lock, &decision, self.now());
            let answer = answer(lock, &decision, &deployment);
            if !changed {
                return Ok(answer);
            }
            deployment.version += 1;
            let saved = match &decision {
                state_lock::LockDecision::Break(proof) => {
                    let record = self.record_of_break(lock, proof, &deployment);
                    self.table.save_deployment_with(of.org, &deployment, &record).await?
                }
                state_lock::LockDecision::Wait(_) => {
                    self.table.save_deployment(of.org, &deployment, Wake::Launcher).await?
                }
                state_lock::LockDecision::Keep(_) => {
                    self.table.save_deployment(of.org, &deployment, Wake::None).await?
                }
            };
            if saved == Saved::Yes {
                return Ok(answer);
            }
        }
        Err(AppError::contended(of.deployment))
    }

    /// The newest deployments of an environment that have attempts.
    async fn newest_launched(
        &self,
        org: OrgUuid,
        environment: EnvUuid,
    ) -> Result<Vec<Deployment>, AppError> {
        let filter = DeploymentFilter::Environment(environment);
        let (mut launched, mut after) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let request = PageRequest { limit: PAGE, after };
            let page = self.table.deployments(org, &filter, &request).await?;
            launched.extend(page.items.into_iter().filter(|found| !found.attempts.is_empty()));
            after = page.next;
            if launched.len() >= LOOK_BACK || after.is_none() {
                break;
            }
        }
        launched.truncate(LOOK_BACK);
        Ok(launched)
    }

    /// The audit record of a broken lock: the proof is the right by which it is broken.
    fn record_of_break(
        &self,
        lock: &StateLock,
        proof: &Proof,
        deployment: &Deployment,
    ) -> AuditRecord {
        let at = self.now();
        AuditRecord {
            id: self.entropy.id(at),
            at,
            by: PrincipalId(Uuid::nil()),
            action: "state_lock.break".to_owned(),
            subject: format!("{}/state-locks/{}", deployment.path(), lock.id),
            by_right: proof.to_string(),
            details: Vec::new(),
        }
    }
}

fn answer(
    lock: &StateLock,
    decision: &state_lock::LockDecision,
    asker: &Deployment,
) -> JudgeLockAnswer {
    let must_stay = matches!(decision, state_lock::LockDecision::Keep(KeepReason::Unwritten(_)));
    let (word, reason) = match decision {
        state_lock::LockDecision::Break(proof) => (LockDecision::Break, proof.to_string()),
        state_lock::LockDecision::Keep(reason) => (LockDecision::Keep, reason.to_string()),
        state_lock::LockDecision::Wait(holder) => {
            let met = asker.open_attempt().and_then(|attempt| attempt.lock.as_ref());
            let status = met.and_then(|met| met.platform_report.as_deref());
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            (LockDecision::Wait, format!("{}{status}", state_lock::waiting_message(*holder)))
        }
    };
    JudgeLockAnswer { id: lock.id.clone(), decision: word, reason, must_stay }
}
