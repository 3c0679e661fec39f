//! A plan that Canyon keeps: this run stores it, or applies one that an earlier run has stored.

use super::Run;
use crate::applying::Applying;
use crate::backoff::Backoff;
use crate::event::{Changes, Operation};
use crate::mask::Mask;
use crate::plan_archive::{self, FolderRecord};
use crate::plan_changes::{self, PlanChanges};
use crate::session::ApiConnection;
use crate::stop::StopRequest;
use crate::tofu::Tofu;
use crate::{verdict, workspace};
use bytes::Bytes;
use canyon_api::attempt::KeptPlanBody;
use canyon_api::client::ClientError;
use canyon_api::sealed_plan;
use canyon_domain::causes::Causes;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::kept_plan::{MAX_PARTS, PART_BYTES, PlanSummary};
use canyon_domain::module_source::Digest;
use canyon_domain::plan_task::{PlanKey, PlanPiece, PlanTask};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long `show -json` may take.
pub(super) const SHOW_TIME: Duration = Duration::from_mins(2);
/// How long a piece is tried again.
const TRANSFER_TIME: Duration = Duration::from_mins(3);
/// OpenTofu's error summaries for a plan whose state has changed since.
const STALE: [&str; 2] = ["Saved plan is stale", "Saved plan does not match the given state"];

impl Run {
    /// Records what the source's folder has before a plan that is to be kept.
    pub(super) fn record_folder(&mut self) {
        if !matches!(self.job.plan, Some(PlanTask::Keep { .. } | PlanTask::Review { .. })) {
            return;
        }
        match FolderRecord::of(&self.workspace.source()) {
            Ok(record) => self.before_plan = Some(record),
            Err(error) => self.warn(&format!("the plan will not be kept: {error}")),
        }
    }

    /// Shows a plan that this run does not apply, and keeps it.
    pub(super) async fn keep_for_readers(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        has_changes: bool,
    ) {
        if has_changes {
            self.show_plan(tofu).await;
        }
        self.kept_plan = self.keep_plan(tofu, api, has_changes).await;
    }

    /// Stores the plan, if it is to be kept. A plan that cannot be kept is a plan nevertheless.
    async fn keep_plan(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        has_changes: bool,
    ) -> Option<KeptPlanBody> {
        let Some(PlanTask::Keep { key }) = self.job.plan.clone() else { return None };
        let before = self.before_plan.take().filter(|_| api.keeps_plans())?;
        match self.store_plan(tofu, api, &key, has_changes.then_some(&before)).await {
            Ok(kept) => Some(kept),
            Err(reason) => {
                self.warn(&format!(
                    "the plan is not kept, so it cannot be applied later: {reason}"
                ));
                None
            }
        }
    }

    /// Stores the plan for people, if they must review such a plan before it is applied. Returns whether they must.
    pub(super) async fn hold_for_review(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
    ) -> Result<bool, Failure> {
        let Some(PlanTask::Review { key, required }) = self.job.plan.clone() else {
            return Ok(false);
        };
        let not_kept = |reason: String| {
            let message =
                format!("the plan cannot be kept for its review: {reason}. Nothing was changed");
            Failure::new(FailureClass::Config, message)
        };
        let before = self.before_plan.take();
        let before =
            before.ok_or_else(|| not_kept("the module's folder cannot be read".to_owned()))?;
        let changes = self.plan_changes(tofu).await.map_err(not_kept)?;
        if !required.is_met_by(&changes.summary.into()) {
            return Ok(false);
        }
        self.show_plan(tofu).await;
        let kept = self.store_changes(api, &key, changes, Some(&before)).await;
        self.kept_plan = Some(kept.map_err(not_kept)?);
        self.transcript.log.step("waits for the approval of this plan");
        Ok(true)
    }

    async fn store_plan(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        key: &PlanKey,
        before: Option<&FolderRecord>,
    ) -> Result<KeptPlanBody, String> {
        let changes = self.plan_changes(tofu).await?;
        self.store_changes(api, key, changes, before).await
    }

    /// The plan as JSON.
    pub(super) async fn plan_as_json(&self, tofu: &Tofu) -> Result<Vec<u8>, String> {
        let path = self.workspace.path(workspace::PLAN);
        tofu.answer(&["show", "-json", "-no-color", &path.to_string_lossy()], SHOW_TIME).await
    }

    /// The plan as JSON, out of where it is kept: OpenTofu makes it once. The caller puts it back.
    async fn take_shown_plan(&mut self, tofu: &Tofu) -> Result<Vec<u8>, String> {
        match self.shown_plan.take() {
            Some(document) => Ok(document),
            None => self.plan_as_json(tofu).await,
        }
    }

    /// What hides the sensitive values of the plan in a text.
    pub(super) async fn plan_mask(&mut self, tofu: &Tofu) -> Result<Mask, String> {
        let document = self.take_shown_plan(tofu).await?;
        let mask = plan_changes::mask_of(&document).map_err(|error| error.to_string());
        self.shown_plan = Some(document);
        mask
    }

    /// The changes of the plan, for people.
    async fn plan_changes(&mut self, tofu: &Tofu) -> Result<PlanChanges, String> {
        let document = self.take_shown_plan(tofu).await?;
        let masked = |text: &str| self.transcript.log.masked(text);
        let changes = PlanChanges::read(&document, &masked).map_err(|error| error.to_string());
        self.shown_plan = Some(document);
        changes
    }

    async fn store_changes(
        &mut self,
        api: &ApiConnection,
        key: &PlanKey,
        changes: PlanChanges,
        before: Option<&FolderRecord>,
    ) -> Result<KeptPlanBody, String> {
        let path = self.workspace.path(workspace::PLAN);
        // A plan without changes has nothing to apply.
        let file = match before {
            Some(before) => plan_archive::pack(&path, &self.workspace.source(), before),
            None => Ok(Vec::new()),
        };
        let file = file.map_err(|error| error.to_string())?;
        let digest: Digest = hex::encode(Sha256::digest(&file))
            .parse()
            .map_err(|_| "its digest cannot be computed".to_owned())?;
        let most = PART_BYTES * MAX_PARTS as usize;
        if file.len() > most {
            return Err(format!("it has {} bytes, and the limit is {most}", file.len()));
        }
        let sealed = self.transcript.is_sealed();
        let pages = u32::try_from(changes.pages.len()).unwrap_or(u32::MAX);
        for (number, mut page) in (0..).zip(changes.pages) {
            if let Some(seal) = self.transcript.log.seal() {
                page = seal.file(&page).map_err(|error| error.to_string())?;
            }
            self.put(api, key, PlanPiece::Changes(number), page).await?;
        }
        let mut parts = 0;
        for part in file.chunks(PART_BYTES) {
            self.put(api, key, PlanPiece::File(parts), part.to_vec()).await?;
            parts += 1;
        }
        Ok(KeptPlanBody { digest, parts, pages, sealed, summary: changes.summary })
    }

    /// Stores one piece.
    async fn put(
        &self,
        api: &ApiConnection,
        key: &PlanKey,
        piece: PlanPiece,
        bytes: Vec<u8>,
    ) -> Result<(), String> {
        let sealed = sealed_plan::seal(key, self.job.attempt, piece, bytes);
        let sealed =
            Bytes::from(sealed.map_err(|_| "the machine has no random numbers".to_owned())?);
        let stored = self.until_answered(api, || api.put_plan_piece(piece, sealed.clone())).await;
        stored.map_err(|error| Causes(&error).to_string())
    }

    /// Repeats a request to Canyon for a while, unless Canyon itself refuses it or the run is to stop.
    async fn until_answered<T, F>(
        &self,
        api: &ApiConnection,
        request: impl Fn() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let (deadline, mut backoff) = (Instant::now() + TRANSFER_TIME, Backoff::default());
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_refused = api.is_answer_of_canyon(&error) && !error.is_retryable();
            if is_refused || self.stop.is_requested() || Instant::now() >= deadline {
                return Err(error);
            }
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = self.stop.reached(StopRequest::Stop) => {}
            }
        }
    }

    /// Fetches the plan that this run applies, in place of making one. `false` if the run makes its own.
    pub(super) async fn fetch_plan(&mut self, api: &ApiConnection) -> Result<bool, Failure> {
        let Some(PlanTask::Apply { key, attempt, digest, parts, summary }) = self.job.plan.clone()
        else {
            return Ok(false);
        };
        self.progress.enter(Phase::Plan);
        if self.job.state.move_from.is_some() {
            self.has_stale_plan = true;
            let message = "the runner keeps the state elsewhere than when the plan was made: nothing was changed. Plan again";
            return Err(Failure::new(FailureClass::User, format!("STALE_PLAN: {message}")));
        }
        let mut file = Vec::new();
        for piece in (0..parts).map(PlanPiece::File) {
            let fetched = self.until_answered(api, || api.plan_piece(piece)).await;
            if self.stop.is_requested() {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            let sealed = fetched.map_err(|error| not_fetched(&error, api))?;
            let opened = sealed_plan::open(&key, attempt, piece, sealed.to_vec());
            file.extend(opened.map_err(|_| altered())?);
        }
        if hex::encode(Sha256::digest(&file)) != digest.as_str() {
            return Err(altered());
        }
        let [scratch, plan] = ["kept-plan", workspace::PLAN].map(|name| self.workspace.path(name));
        let restored = plan_archive::restore(&file, &scratch, &plan, &self.workspace.source());
        restored.map_err(|error| self.without_details(error.into()))?;
        self.transcript.log.step(&format!("applies the kept plan {digest}: {summary}"));
        self.transcript.facts.planned = Some(as_planned(summary));
        Ok(true)
    }

    /// The failure of an apply, if the state has changed since its plan was made: then nothing was changed.
    pub(super) fn name_stale_plan(&mut self, failure: &mut Failure) {
        let is_kept = matches!(self.job.plan, Some(PlanTask::Apply { .. }));
        if is_kept && STALE.iter().any(|stale| failure.message.contains(stale)) {
            self.applying = Applying::Announced;
            self.has_stale_plan = true;
            let message = "STALE_PLAN: the state has changed since the plan was made: nothing was changed. Plan again";
            message.clone_into(&mut failure.message);
        }
    }
}

fn not_fetched(error: &ClientError, api: &ApiConnection) -> Failure {
    if error.status() == Some(404) && api.is_answer_of_canyon(error) {
        let message = "PLAN_MISSING: a part of the stored plan is gone from Canyon's object store: nothing was changed. Plan again";
        return Failure::new(FailureClass::Config, message);
    }
    Failure::new(FailureClass::Unreachable, format!("cannot fetch the plan: {}", Causes(error)))
}

fn altered() -> Failure {
    let message = "PLAN_ALTERED: the stored plan was changed after it was made: nothing was changed. Plan again, and find out who can write \
         to Canyon's object store";
    Failure::new(FailureClass::Config, message)
}

/// The counts as OpenTofu's own line of a plan has them: a replacement is an addition and a removal.
fn as_planned(summary: PlanSummary) -> Changes {
    let PlanSummary { add, change, replace, remove, import, forget, .. } = summary;
    Changes {
        add: add.saturating_add(replace),
        change,
        remove: remove.saturating_add(replace),
        import,
        forget,
        operation: Operation::Plan,
    }
}
