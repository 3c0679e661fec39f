//! Moves a state from its former storage to the storage that the runner's definition names now.
//!
//! The environment records the new location when the run reports it. Until then each run starts the move
//! again, so every step can be repeated: the runner writes the new location first, and marks the old state as
//! moved last. The old state stays complete at its location, with the mark.
//!
//! `state push` takes the lock of the state that it writes, and refuses a serial that is not newer. So one of
//! the two pushes fails if another writer comes in between, and that writer's changes are not lost.

use super::locked::{LOCK_TIMEOUT, with_timeout};
use super::state::{
    MISSING, NOT_WRITTEN, TRANSFER, is_not_written, moved_before, pull, refused_by_storage,
};
use super::{Applying, Run};
use crate::event::Diagnostic;
use crate::lock::{self, Locks};
use crate::session::ApiConnection;
use crate::state_file::{self, StateSeen};
use crate::tofu::Tofu;
use crate::{verdict, workspace};
use canyon_domain::environment_state::{StateFacts, compare};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::FormerStateLocation;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::resource_count::Resources;
use serde_json::Value;
use std::fmt::Display;
use uuid::Uuid;

/// The file with the state during the move; in the job's folder, which only the job can read.
const MOVING: &str = "moving.tfstate";
/// By how much the mark may raise the serial of the old state, at most. The serial must stay below that of the moved
/// state, so that the state can move back.
const MARK_SERIALS: u64 = 8;

impl Run {
    /// Moves the state to the runner's storage, if it is in another one.
    ///
    /// # Errors
    ///
    /// A [`Failure`]: the state is still at its former location, and that one is valid.
    pub(super) async fn move_state(
        &mut self,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<(), Failure> {
        let Some(former) = self.job.state.move_from.clone() else { return Ok(()) };
        let place = self.job.state.location.clone();
        self.transcript
            .log
            .step(&format!("moving the state from `{}` to `{place}`", former.location));
        self.use_backend(tofu, api, &former.backend).await?;
        let (bytes, found) = pull(tofu, &former.location).await?;
        let to_move = self.to_move(&former, found)?;
        if self.job.identity.is_some() {
            // The job may write to storages only in the apply phase. A run that is refused must not announce one: if it
            // were lost before it reports that, Canyon would have to doubt its resources instead of an earlier run's.
            self.applying = Applying::Announced;
            if !self.progress.ask_to_apply(false, &self.stop).await {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            self.identify(tofu, TokenPhase::Apply).await?;
        }
        let backend = self.job.backend.clone();
        match to_move {
            ToMove::Nothing => {
                self.use_backend(tofu, api, &backend).await?;
                let (_, there) = pull(tofu, &place).await?;
                refuse_another(there.as_ref(), &place)?;
                self.warn_of_no_state(&former.location);
                self.use_backend(tofu, api, &former.backend).await?;
                // The mark says that the state is at the new location, even if no run reports that to Canyon.
                let mark = state_file::empty_and_moved(&Uuid::new_v4().to_string(), &place);
                self.push(tofu, api, &former.location, Ok(mark), Pushing::Checked).await?;
                self.use_backend(tofu, api, &backend).await?;
            }
            ToMove::IsThere(mark) if mark.facts.resources == 0 => {
                self.use_backend(tofu, api, &backend).await?;
            }
            ToMove::IsThere(old) => {
                self.use_backend(tofu, api, &backend).await?;
                let (_, there) = pull(tofu, &place).await?;
                compare(Some(&old.facts), true, there.as_ref().map(|seen| &seen.facts)).map_err(
                    |lost| {
                        move_failure(
                            &former,
                            &format_args!("it was marked as moved to `{place}`, but there {lost}"),
                        )
                    },
                )?;
            }
            ToMove::All(old) => {
                self.use_backend(tofu, api, &backend).await?;
                let moved = self.push_here(tofu, api, &bytes, &old).await?;
                self.use_backend(tofu, api, &former.backend).await?;
                self.mark(tofu, api, &former, &old, &moved).await?;
                self.use_backend(tofu, api, &backend).await?;
            }
        }
        let (_, seen) = pull(tofu, &place).await?;
        self.refuse_wrong(seen.as_ref())?;
        if seen.is_some() {
            let text = format!("the state is at `{place}` now; the old copy is kept and marked");
            self.transcript.log.step(&text);
        }
        self.state.seen = seen;
        self.state.moved = true;
        self.identify(tofu, TokenPhase::Plan).await
    }

    /// Decides what to do with the state at the former location.
    fn to_move(
        &self,
        former: &FormerStateLocation,
        found: Option<StateSeen>,
    ) -> Result<ToMove, Failure> {
        let task = &self.job.state;
        if let Some(to) = found.as_ref().and_then(|seen| seen.moved_to.as_ref())
            && *to != task.location
        {
            return Err(moved_before(&former.location, to, false));
        }
        let facts = found.as_ref().map(|seen| &seen.facts);
        let wrong = |what: &dyn Display| {
            move_failure(
                former,
                &format_args!(
                    "{what}. Restore the state in that storage; or, if the state that is there is right, set the \
                     runner's former storage again and have an administrator deploy once with --accept-state"
                ),
            )
        };
        if let Some(what) = self.not_arrived(facts).or_else(|| self.unread_remains(facts)) {
            let what = format_args!(
                "{what}. Set the runner's former storage again before that: a deployment with --accept-state does not \
                 move the state, and would find the new storage empty"
            );
            return Err(move_failure(former, &what));
        }
        compare(task.expected.as_ref(), task.uncertain, facts)
            .map_err(|mismatch| wrong(&mismatch))?;
        if facts.is_some_and(|found| is_not_written(task, found)) {
            return Err(wrong(&NOT_WRITTEN));
        }
        match found {
            None if task.must_exist => Err(wrong(&MISSING)),
            None => Ok(ToMove::Nothing),
            Some(seen) if seen.moved_to.is_some() => Ok(ToMove::IsThere(seen)),
            Some(seen) => Ok(ToMove::All(seen)),
        }
    }

    /// Writes the state to its new location, and returns the facts of the state that is there afterwards.
    ///
    /// It overwrites only these: a state without resources, which some storages create by themselves; a state that was
    /// moved away from there; and its own copy from a move that was killed.
    async fn push_here(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        bytes: &[u8],
        old: &StateSeen,
    ) -> Result<StateFacts, Failure> {
        let place = self.job.state.location.clone();
        let (lying, there) = pull(tofu, &place).await?;
        if !state_file::same_content(bytes, &lying).is_ok_and(|same| same) {
            refuse_another(there.as_ref(), &place)?;
        }
        let least = old.facts.serial.saturating_add(MARK_SERIALS);
        let newest = there.as_ref().map_or(least, |there| there.facts.serial.max(least));
        let is_same = |there: &Option<StateSeen>| {
            there.as_ref().is_none_or(|there| there.facts.lineage == old.facts.lineage)
        };
        let moved = || state_file::rewritten(bytes, newest.saturating_add(1), None);
        let pushing = if is_same(&there) { Pushing::Checked } else { Pushing::Forced };
        self.push(tofu, api, &place, moved(), pushing).await?;
        let (mut lying, mut there) = pull(tofu, &place).await?;
        if !is_same(&there) && state_file::same_content(bytes, &lying).is_ok_and(|same| same) {
            // If there was no state, every remote storage of OpenTofu 1.12 generates a new lineage for the pushed state
            // (`internal/states/remote/state.go`, `PersistState`). A second push restores the state's own lineage.
            self.push(tofu, api, &place, moved(), Pushing::Forced).await?;
            (lying, there) = pull(tofu, &place).await?;
        }
        // Some storages raise the serial by one more when they write.
        let arrived = there.filter(|there| {
            there.facts.serial > newest && there.facts.lineage == old.facts.lineage
        });
        match arrived {
            Some(there) if state_file::same_content(bytes, &lying).is_ok_and(|same| same) => {
                Ok(there.facts)
            }
            Some(_) | None => Err(failure(&format_args!("it did not arrive at `{place}`"))),
        }
    }

    /// Marks the state at its former location as moved. It must still be the state that was moved.
    async fn mark(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        former: &FormerStateLocation,
        old: &StateSeen,
        moved: &StateFacts,
    ) -> Result<(), Failure> {
        let (bytes, now) = pull(tofu, &former.location).await?;
        if now.as_ref().is_some_and(|now| now.facts == *moved) {
            // The push to the new location has changed the state at the former one: both names mean the same location.
            return Ok(());
        }
        let to = self.job.state.location.clone();
        if now.as_ref().is_none_or(|now| now.facts != old.facts) {
            let meanwhile = format!(
                "something else has written it in the meantime: remove the copy at `{to}`, and deploy again"
            );
            return Err(move_failure(former, &meanwhile));
        }
        let marked = state_file::rewritten(&bytes, old.facts.serial.saturating_add(1), Some(&to));
        self.push(tofu, api, &former.location, marked, Pushing::Checked).await
    }

    async fn push(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        place: &str,
        state: Result<Vec<u8>, serde_json::Error>,
        pushing: Pushing,
    ) -> Result<(), Failure> {
        let state = state.map_err(|error| failure(&error))?;
        let path = self.workspace.path(MOVING);
        workspace::write_new(&path, &state).map_err(|error| failure(&error))?;
        let file = path.display().to_string();
        let mut push = vec!["state", "push", "-no-color", LOCK_TIMEOUT];
        push.extend((pushing == Pushing::Forced).then_some("-force"));
        push.push(&file);
        let pushed = self.push_past_locks(tofu, api, place, &push).await;
        let removed = std::fs::remove_file(&path).map_err(|error| failure(&error));
        pushed.and(removed)
    }

    async fn push_past_locks(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        place: &str,
        push: &[&str],
    ) -> Result<(), Failure> {
        let mut locks = Locks::default();
        loop {
            if self.stop.is_requested() {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            let push = with_timeout(push, locks.timeout());
            let Err(output) = tofu.answer(&push, TRANSFER).await else { return Ok(()) };
            let error = Diagnostic { detail: output.clone(), ..Diagnostic::default() };
            let Some(lock) = lock::in_error(&error) else {
                let message =
                    format!("the state cannot be moved: `{place}` cannot be written: {output}");
                return Err(refused_by_storage(message));
            };
            self.resolve_lock(&mut locks, &lock, tofu, api).await?;
        }
    }

    /// Makes OpenTofu use the state of `backend` from here on.
    async fn use_backend(
        &mut self,
        tofu: &mut Tofu,
        api: &ApiConnection,
        backend: &Value,
    ) -> Result<(), Failure> {
        workspace::write_backend(tofu.module(), backend)?;
        self.init(tofu, api).await
    }
}

/// Whether `state push` checks the state that it overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushing {
    /// It refuses another lineage, and a serial that is not newer.
    Checked,
    /// It overwrites any state.
    Forced,
}

/// What to do with a state that is to move.
enum ToMove {
    /// There is no state, and none is expected.
    Nothing,
    /// An earlier run has moved the state, and ended before it could report that.
    IsThere(StateSeen),
    /// Move this state.
    All(StateSeen),
}

/// Refuses to overwrite a state with resources, unless it is marked as moved away from there.
fn refuse_another(there: Option<&StateSeen>, place: &str) -> Result<(), Failure> {
    match there.filter(|there| there.moved_to.is_none()).map(|there| &there.facts) {
        Some(StateFacts { lineage, serial, resources: resources @ 1.., .. }) => {
            Err(failure(&format_args!(
                "another state (lineage {lineage}, serial {serial}, {}) is at `{place}`: remove it, \
             or choose another location",
                Resources(*resources)
            )))
        }
        Some(_) | None => Ok(()),
    }
}

fn failure(what: &dyn Display) -> Failure {
    Failure::new(FailureClass::Config, format!("the state cannot be moved: {what}"))
}

fn move_failure(former: &FormerStateLocation, what: &dyn Display) -> Failure {
    failure(&format_args!("at `{}`, {what}", former.location))
}
