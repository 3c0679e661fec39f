//! The result of a run, as its runner reports it.

use super::run_token::{Proved, RunToken};
use super::{App, kept_plans};
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::attempt::{
    DeploymentResultsUpdateBody, MAX_ADDRESSES, ResultStatus, StateReportBody, UnwrittenStateBody,
};
use canyon_domain::attempt::{ApplyNote, Outcome};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Mode, ResourceCounts, StoredResults};
use canyon_domain::environment_state::{StateFacts, StateReport};
use canyon_domain::failure::{Failure, FailureClass, shortened_to};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle::{self, Refused};
use canyon_domain::principal::Principal;
use canyon_domain::variables::secret_json::SecretJson;
use canyon_identity::bearer::AttemptRef;
use canyon_store::blob_keys::BlobKey;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_ends::ReadBefore;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest stored message; the log has the rest.
const MAX_MESSAGE: usize = 1_000;
/// The longest lineage in bytes; OpenTofu uses a UUID.
const MAX_LINEAGE: usize = 128;

impl App {
    /// Records the result of an attempt. A repeated result gets the same answer and changes nothing.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when Canyon has ended the attempt without a result.
    pub(crate) async fn take_result(
        &self,
        mut token: RunToken,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), AppError> {
        let of = token.of;
        let reported = outcome(body);
        // An invalid state report must not discard the rest of the result: the run has changed resources.
        let state = body.state.as_ref().and_then(|report| {
            let unusable = |faults: &FieldErrors| {
                tracing::warn!(deployment = %of.deployment, %faults, "a result's state is left out");
            };
            state_report(report).inspect_err(unusable).ok()
        });
        let plan =
            body.plan.as_ref().map(|plan| kept_plans::recorded(plan, of.number)).transpose()?;
        let unwritten = body.unwritten.as_ref().map(unwritten_facts);
        for _ in 0..MAX_TRIES {
            let Proved { mut deployment, over, environment } = self.prove(&mut token).await?;
            let mut outcome = reported.clone();
            if body.stale_plan {
                outcome = lifecycle::of_stale_plan(&deployment, of.number, outcome);
            }
            if over {
                return repeated(&deployment, of, &outcome);
            }
            self.store_chunks(of, &body.chunks).await?;
            deployment.kept = self.keep(of, body).await?;
            if deployment.resource().is_some() {
                self.keep_secret_outputs(of, &body.secret_outputs).await?;
            }
            deployment.counts = body.tf_resource_counts.map(|counts| ResourceCounts {
                total: counts.num_resources,
                added: counts.num_resources_added,
                changed: counts.num_resources_changed,
                removed: counts.num_resources_removed,
            });
            deployment.state = state.clone();
            deployment.refused_deletions = body.refused_deletions;
            if let Some(report) = body.drift.as_ref().filter(|_| deployment.mode == Mode::Drift) {
                self.record_drift(of, &mut deployment, report).await?;
            }
            if let Some(report) = &body.policy {
                self.record_policy(of, &mut deployment, report).await?;
            }
            // The result of an apply says nothing of the plan that it has applied.
            if let Some(plan) = plan.clone() {
                deployment.plan = Some(Box::new(plan));
            }
            if let Some(fetched) = body.fetched.clone() {
                deployment.record_fetched(of.number, fetched.into());
            }
            if let Some(phase) = body.phase {
                lifecycle::record_phase(&mut deployment, of.number, phase)?;
            }
            match &unwritten {
                Some(facts) => _ = deployment.could_not_write_state(of.number, facts.clone()),
                None => deployment.wrote_state(of.number),
            }
            if body.untouched {
                lifecycle::note_apply(&mut deployment, of.number, ApplyNote::NotBegun)?;
            }
            if body.stale_plan
                && let Outcome::Failed(failure) = &outcome
                && lifecycle::plan_again(&mut deployment, of.number, failure, self.now())?
            {
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::Launcher).await?;
                if saved == Saved::Yes {
                    return Ok(());
                }
                continue;
            }
            if self.end_attempt(of, deployment, environment, outcome).await? == Saved::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(of.deployment))
    }

    /// Ends an attempt, and with it its deployment unless another attempt follows. The environment is read unless it was
    /// read with the deployment.
    pub(super) async fn end_attempt(
        &self,
        of: AttemptRef,
        mut deployment: Deployment,
        environment: Option<Box<Environment>>,
        outcome: Outcome,
    ) -> Result<Saved, AppError> {
        let now = self.now();
        let before = ReadBefore { environment, due_at: deployment.due_at };
        lifecycle::end(&mut deployment, of.number, outcome, now)?;
        deployment.version += 1;
        if deployment.waits_without_turn() {
            return Ok(self.table.release_turn(of.org, &deployment, now).await?);
        }
        if !deployment.status.is_terminal() {
            // The launcher publishes that a plan waits.
            let wake = if deployment.awaits_approval() { Wake::Launcher } else { Wake::None };
            return Ok(self.table.save_deployment(of.org, &deployment, wake).await?);
        }
        let record = AuditRecord::of_end(self.entropy.id(now), now, "attempt", &deployment);
        let ended = self.table.end_deployment_in(of.org, &deployment, before, now, Some(&record));
        let saved = Box::pin(ended).await?;
        if saved == Saved::Yes {
            self.changes.ended(of.org, &deployment);
            Box::pin(self.reconcile(of.org, &deployment)).await;
        }
        Ok(saved)
    }

    /// Stores outputs and orphans. Their keys contain the attempt, so storing them again changes nothing.
    async fn keep(
        &self,
        of: AttemptRef,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<StoredResults, AppError> {
        // Validate before storing, so that a refused result leaves nothing behind.
        let encrypted = body.outputs.as_ref().map(|encoded| STANDARD.decode(encoded)).transpose();
        let encrypted =
            encrypted.map_err(|_| AppError::invalid("outputs", "it is not standard base64"))?;
        let plain: BTreeMap<_, _> = body
            .plain_outputs
            .iter()
            .map(|(name, output)| {
                let mut output = output.clone();
                if output.sensitive {
                    // The runner withholds sensitive values. Canyon removes them in case a runner does not.
                    output.value = None;
                }
                (name, output)
            })
            .collect();
        if !plain.is_empty() {
            let key = BlobKey::outputs(of.org, of.deployment, of.number);
            self.put_json(&key, &plain).await?;
        }
        if let Some(bytes) = encrypted {
            let key = BlobKey::encrypted_outputs(of.org, of.deployment, of.number);
            self.blobs.put_if_absent(&key, bytes.into()).await?;
        }
        if !body.orphans.is_empty() {
            let key = BlobKey::orphans(of.org, of.deployment, of.number);
            self.put_json(&key, &body.orphans).await?;
        }
        if let Some(state) = &body.state {
            let key = BlobKey::resources(of.org, of.deployment, of.number);
            self.put_json(&key, &state.addresses).await?;
        }
        Ok(StoredResults {
            outputs: !plain.is_empty(),
            encrypted_outputs: body.outputs.is_some(),
            orphans: u32::try_from(body.orphans.len()).unwrap_or(u32::MAX),
            late_orphans: false,
        })
    }

    /// Seals the values of sensitive outputs, and stores them.
    async fn keep_secret_outputs(
        &self,
        of: AttemptRef,
        outputs: &BTreeMap<String, SecretJson>,
    ) -> Result<(), AppError> {
        if outputs.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_vec(outputs).map_err(|_| AppError::internal())?;
        let context = sealing_context(of.org, of.deployment);
        let sealed = self.master_keys.get().await?.seal(&context, &text, self.entropy.as_ref());
        let sealed = sealed.map_err(|error| {
            tracing::error!(%error, deployment = %of.deployment, "secret outputs cannot be sealed");
            AppError::internal()
        })?;
        let key = BlobKey::sealed_outputs(of.org, of.deployment, of.number);
        self.blobs.put_if_absent(&key, sealed.into_bytes().into()).await?;
        Ok(())
    }

    /// The values of the sensitive outputs of a deployment for a resource.
    pub(super) async fn secret_outputs(
        &self,
        by: &Principal,
        id: DeploymentId,
    ) -> Result<BTreeMap<String, SecretJson>, AppError> {
        let Some(sealed) = self.last_blob(by, id, BlobKey::sealed_outputs).await? else {
            return Ok(BTreeMap::new());
        };
        let keys = self.master_keys.get().await?;
        let opened = String::from_utf8(sealed.to_vec()).ok();
        let opened = opened.and_then(|text| keys.open(&sealing_context(by.org, id), &text).ok());
        opened.and_then(|text| serde_json::from_slice(&text).ok()).ok_or_else(|| {
            tracing::error!(deployment = %id, org = %by.org, "its secret outputs cannot be opened");
            AppError::internal()
        })
    }

    pub(super) async fn put_json(
        &self,
        key: &BlobKey,
        value: &impl Serialize,
    ) -> Result<(), AppError> {
        let bytes = serde_json::to_vec(value).map_err(|_| AppError::internal())?;
        self.blobs.put_if_absent(key, bytes.into()).await?;
        Ok(())
    }
}

/// Outputs that were copied to another organization or deployment do not open there.
fn sealing_context(org: OrgUuid, deployment: DeploymentId) -> String {
    format!("outputs#{org}#{deployment}")
}

/// The reported state, validated, for the table.
fn state_report(body: &StateReportBody) -> Result<StateReport, FieldErrors> {
    let mut faults = FieldErrors::default();
    if !(1..=MAX_LINEAGE).contains(&body.lineage.len()) {
        faults.add("state.lineage", format!("has 1 to {MAX_LINEAGE} bytes"));
    }
    if body.addresses.len() > MAX_ADDRESSES {
        faults.add("state.addresses", format!("names at most {MAX_ADDRESSES} resources"));
    }
    let (lineage, serial, resources) = (body.lineage.clone(), body.serial, body.resources);
    if body.digest.as_ref().is_some_and(|digest| digest.len() > MAX_LINEAGE) {
        faults.add("state.digest", format!("has at most {MAX_LINEAGE} bytes"));
    }
    let facts = StateFacts { lineage, serial, resources, digest: body.digest.clone() };
    faults.into_result(StateReport { facts, moved: body.moved, incomplete: body.incomplete })
}

/// The facts of a state that was not written. A first state has no lineage yet.
pub(super) fn unwritten_facts(body: &UnwrittenStateBody) -> Option<StateFacts> {
    let body = body.state.as_ref()?;
    let lineage = if body.lineage.is_empty() { "none" } else { &body.lineage };
    let report = state_report(&StateReportBody { lineage: lineage.to_owned(), ..body.clone() });
    report.ok().map(|report| StateFacts { lineage: body.lineage.clone(), ..report.facts })
}

fn outcome(body: &DeploymentResultsUpdateBody) -> Outcome {
    if body.status == ResultStatus::Success {
        return Outcome::Succeeded;
    }
    let failure = body.failure.clone().unwrap_or_else(|| {
        let message = body.error.as_ref().map(|error| error.message.clone());
        Failure::new(FailureClass::User, message.unwrap_or_else(|| "the run failed".to_owned()))
    });
    if failure.class == FailureClass::Cancelled {
        return Outcome::Cancelled;
    }
    Outcome::Failed(Failure::new(failure.class, shortened_to(&failure.message, MAX_MESSAGE)))
}

/// Whether this very result ended the attempt. If so, its answer was lost, and the result is acknowledged again.
fn repeated(deployment: &Deployment, of: AttemptRef, outcome: &Outcome) -> Result<(), AppError> {
    let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
    let ended = attempt.and_then(|attempt| attempt.ended.as_ref());
    if attempt.zip(ended).is_some_and(|(attempt, ended)| {
        ended.outcome == lifecycle::effective_outcome(attempt, outcome.clone())
    }) {
        Ok(())
    } else {
        Err(Refused::Superseded.into())
    }
}
