//! A state that OpenTofu could not write at the end of an apply: only this run has it, in `errored.tfstate`.
//!
//! The run pushes it again until its storage has it, or the job must end. If it stays unwritten, the result says so, and
//! each later run ends before its plan unless it finds this very state.

use super::Run;
use super::locked::{LOCK_TIMEOUT, with_timeout};
use super::state::{TRANSFER, pull};
use crate::event::Diagnostic;
use crate::lock::{self, Locks};
use crate::session::ApiConnection;
use crate::shipper::DELIVERY_TIMEOUT;
use crate::state_file;
use crate::stop::{self, StopRequest};
use crate::tofu::Tofu;
use crate::{backoff::Backoff, host_processes, lock_owner_name, unreachable};
use canyon_api::attempt::{JudgeLockBody, StateReportBody, UnwrittenStateBody};
use canyon_domain::environment_state::StateFacts;
use canyon_domain::resource_count::Resources;
use canyon_domain::unwritten_state::{StateEvent, UnwrittenState};
use jiff::{SignedDuration, Timestamp};
use std::collections::HashSet;
use std::fs;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Where OpenTofu leaves a state that it could not write to its storage.
const ERRORED_STATE: &str = "errored.tfstate";
const PUSH: [&str; 5] = ["state", "push", "-no-color", LOCK_TIMEOUT, ERRORED_STATE];
/// The least time that the first push gets in a job that must end.
const LAST_TRY: Duration = Duration::from_secs(5);
/// How long `force-unlock` may take.
const UNLOCK: Duration = Duration::from_secs(20);
/// OpenTofu writes the time into its lock a moment after the runner has noted its start.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

impl Run {
    /// Pushes the state that the apply, which began at `since`, could not write. Returns what became of it, if there
    /// was one.
    pub(super) async fn save_errored_state(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        since: Timestamp,
    ) -> Option<String> {
        let said = if tofu.has_file(ERRORED_STATE) {
            let bytes = fs::read(tofu.module().join(ERRORED_STATE)).ok();
            let facts = bytes.and_then(|bytes| state_file::read_unwritten(&bytes).ok());
            let by = self.job.deployment_id;
            let state = UnwrittenState { by, facts };
            // If this job is killed while it pushes, Canyon must know that what it created is in no state.
            let body = UnwrittenStateBody { state: state.facts.clone().map(report) };
            self.progress.could_not_write_state(body.clone());
            self.record(&StateEvent::Unwritten { state: state.facts.clone() });
            self.transcript.log.step("pushing errored.tfstate to the state storage");
            self.transcript.log.flush();
            let begun = Instant::now();
            let pushed = self.push_until_written(tofu, api, since, &state).await;
            let seconds = begun.elapsed().as_secs();
            match pushed {
                Ok(()) => {
                    self.record(&StateEvent::Written);
                    format!(
                        "the state could not be written at first; it was pushed afterwards, within {seconds} s"
                    )
                }
                Err(words) => {
                    self.transcript.log.warn(&format!("the last push failed: {words}"));
                    self.state.unwritten = Some(body);
                    format!(
                        "the state could not be written, nor pushed afterwards in {seconds} s: what was created is not \
                         in it"
                    )
                }
            }
        } else if self.transcript.facts.state_unwritten {
            let body = UnwrittenStateBody::default();
            self.progress.could_not_write_state(body.clone());
            self.record(&StateEvent::Unwritten { state: None });
            self.state.unwritten = Some(body);
            "the state could not be written, nor kept beside the module: what was created is not in it".to_owned()
        } else {
            return None;
        };
        self.transcript.log.warn(&said);
        Some(said)
    }

    /// Pushes until the storage has the state, or the job must end. A storage that answers and refuses is asked for
    /// [`DELIVERY_TIMEOUT`], and one that is away for as long as the run may last.
    async fn push_until_written(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        since: Timestamp,
        state: &UnwrittenState,
    ) -> Result<(), String> {
        let (mut locks, mut freed) = (Locks::default(), HashSet::new());
        let (mut backoff, begun) = (Backoff::default(), Instant::now());
        let mut said = None;
        let mut least = LAST_TRY;
        loop {
            // Another run may have written meanwhile. OpenTofu compares a pushed state with the stored one only if both
            // have a lineage.
            if self.stop.requested() == StopRequest::StopWithoutResult
                && !self.may_still_push(tofu, state).await
            {
                return Err("the attempt is over, and the storage has another state".to_owned());
            }
            let push = with_timeout(&PUSH, locks.timeout());
            let answer = tokio::select! {
                answer = tofu.answer(&push, TRANSFER) => answer,
                () = self.must_end(least) => Err("i/o timeout: the job must end".to_owned()),
            };
            let Err(words) = answer else { return Ok(()) };
            least = Duration::ZERO;
            let is_away = unreachable::is_reported_in(&words);
            let met = Diagnostic { detail: words.clone(), ..Diagnostic::default() };
            let lock = lock::in_error(&met);
            let is_locked = lock.is_some();
            let (own, others) = match lock {
                Some(lock) if self.is_own(&lock, since).await => (Some(lock), None),
                others => (None, others),
            };
            if let Some(lock) = own {
                self.free_own(tofu, &lock).await;
                // One that comes back is freed again, after a pause.
                if freed.insert(lock.id) {
                    continue;
                }
            }
            if !is_locked && !is_away && self.has_arrived(tofu, state).await {
                return Ok(());
            }
            let is_vain = !is_away && begun.elapsed() >= DELIVERY_TIMEOUT;
            if is_vain || self.time_to_end().is_some_and(|left| left.is_zero()) {
                return Err(words);
            }
            let text = format!("the state storage does not take the state yet: {words}");
            if said.as_ref() != Some(&text) {
                self.transcript.log.warn(&text);
                self.transcript.log.flush();
                said = Some(text);
            }
            if let Some(lock) = others
                && let Err(failure) = self.resolve_lock(&mut locks, &lock, tofu, api).await
            {
                self.transcript.log.warn(&failure.message);
                locks = Locks::default();
            }
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = self.must_end(least) => {}
            }
        }
    }

    /// How long a job that must stop may still work on its state. This also applies to an attempt that has ended: it
    /// replaces only the state from before it.
    fn time_to_end(&self) -> Option<Duration> {
        let grace = stop::grace(self.job.stop_seconds);
        self.stop.since().map(|since| grace.saturating_sub(since.elapsed()))
    }

    /// Returns when a job that is to stop has no time left, at the earliest after `least`.
    async fn must_end(&self, least: Duration) {
        self.stop.reached(StopRequest::Stop).await;
        sleep(self.time_to_end().unwrap_or_default().max(least)).await;
    }

    /// Whether this run has left the lock: the apply that could not free it, or a push that was killed. All of these
    /// have ended.
    async fn is_own(&self, lock: &JudgeLockBody, since: Timestamp) -> bool {
        let earliest = since.saturating_sub(ROUNDING).unwrap_or(Timestamp::MIN);
        lock.created >= earliest
            && lock_owner_name::may_be_of(lock)
            && host_processes::possible_holder(lock, self.job.env_uuid).await.is_none()
    }

    async fn free_own(&mut self, tofu: &Tofu, lock: &JudgeLockBody) {
        let log = &mut self.transcript.log;
        log.warn(&format!("freeing the lock {}, which this run has left", lock.id));
        log.flush();
        let unlock = ["force-unlock", "-force", &lock.id];
        let freed = tokio::select! {
            freed = tofu.answer(&unlock, UNLOCK) => freed,
            () = self.must_end(LAST_TRY) => Err("the job must end".to_owned()),
        };
        if let Err(words) = freed {
            self.transcript.log.warn(&format!("`force-unlock` failed: {words}"));
        }
    }

    /// Whether the storage has the state from before this run, or a state of the same lineage, whose serial OpenTofu
    /// compares.
    async fn may_still_push(&self, tofu: &Tofu, state: &UnwrittenState) -> bool {
        let before = self.state.seen.as_ref().map(|seen| &seen.facts);
        let before = before.or(self.job.state.expected.as_ref());
        let pulled = tokio::select! {
            pulled = pull(tofu, &self.job.state.location) => pulled,
            () = self.must_end(LAST_TRY) => return false,
        };
        // A storage that does not answer the read does not accept the push either.
        let Ok((_, seen)) = pulled else { return true };
        let found = seen.as_ref().map(|seen| &seen.facts);
        let is_of_lineage = |found: &StateFacts| {
            state.facts.as_ref().is_some_and(|state| state.lineage == found.lineage)
        };
        found == before || found.is_some_and(is_of_lineage)
    }

    /// Whether the storage has the state although no push was acknowledged.
    async fn has_arrived(&self, tofu: &Tofu, state: &UnwrittenState) -> bool {
        let before = self.state.seen.as_ref().map(|seen| &seen.facts);
        let before = before.or(self.job.state.expected.as_ref());
        let pulled = tokio::select! {
            pulled = pull(tofu, &self.job.state.location) => pulled,
            () = self.must_end(LAST_TRY) => return false,
        };
        let seen = pulled.ok().and_then(|(_, seen)| seen);
        state.has_arrived(before, seen.as_ref().map(|seen| &seen.facts))
    }

    /// Why `found` must not be worked on: an earlier run could not write its state, and it is not that one.
    pub(super) fn not_arrived(&self, found: Option<&StateFacts>) -> Option<String> {
        let task = &self.job.state;
        let state = task.unwritten.as_ref()?;
        if state.has_arrived(task.expected.as_ref(), found) {
            return None;
        }
        let found = found.map_or_else(
            || "there is no state".to_owned(),
            |found| {
                format!("there is one of serial {}, {}", found.serial, Resources(found.resources))
            },
        );
        Some(format!(
            "the deployment {} could not write the state that its apply left, and {found}: what it created is in no \
             state, and would be created a second time. Import its orphans into the state, or remove them; then an \
             administrator deploys once with --accept-state",
            state.by
        ))
    }
}

fn report(facts: StateFacts) -> StateReportBody {
    let StateFacts { lineage, serial, resources, digest } = facts;
    StateReportBody { lineage, serial, resources, digest, ..StateReportBody::default() }
}
