//! Moves a state from the storage that it lies in to the one that the runner keeps state in now.
//!
//! The environment takes the new place for its own when the run reports it. Until then each run begins
//! here again, so every step can be repeated: the new place is written first, and the old state is
//! marked as moved last. What lies at the old place stays there, whole, with the mark.
//!
//! `state push` takes the lock of the state that it writes, and refuses a serial that is not newer. So a
//! writer that comes in between is noticed by one of both pushes, and nothing of it is lost.

use super::locked::{LOCK_TIMEOUT, with_timeout};
use super::state::{
    MISSING, NOT_WRITTEN, TRANSFER, is_not_written, moved_before, pull, refused_by_storage,
};
use super::{Applying, Run};
use crate::event::Diagnostic;
use crate::lock::{self, Locks};
use crate::session::Line;
use crate::state_file::{self, StateSeen};
use crate::stop::Wish;
use crate::tofu::Tofu;
use crate::{verdict, workspace};
use canyon_domain::environment_state::{StateFacts, compare};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::FormerPlace;
use canyon_domain::job_identity::TokenPhase;
use serde_json::Value;
use std::fmt::Display;
use uuid::Uuid;

/// The state on its way; in the job's folder, which only the job can read.
const MOVING: &str = "moving.tfstate";
/// By how much the mark may raise the serial of the old state, at most: it must stay below that of the
/// moved one, so that the state can move back.
const MARK_SERIALS: u64 = 8;

impl Run {
    /// Moves the state here if it lies elsewhere.
    ///
    /// # Errors
    ///
    /// A [`Failure`]: the state is where it was, and counts there.
    pub(super) async fn move_state(&mut self, tofu: &mut Tofu, line: &Line) -> Result<(), Failure> {
        let Some(former) = self.job.state.move_from.clone() else { return Ok(()) };
        let place = self.job.state.place.clone();
        self.transcript.log.step(&format!("moving the state from `{}` to `{place}`", former.place));
        if self.job.identity.is_some() {
            // Only in this phase may the job write to storages.
            self.applying = Applying::Announced;
            if !self.progress.ask_to_apply(false, &self.stop).await {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            self.identify(tofu, TokenPhase::Apply).await?;
        }
        self.use_backend(tofu, line, &former.backend).await?;
        let (bytes, found) = pull(tofu, &former.place).await?;
        let backend = self.job.backend.clone();
        match self.to_move(&former, found)? {
            ToMove::Nothing => {
                self.use_backend(tofu, line, &backend).await?;
                let (_, there) = pull(tofu, &place).await?;
                refuse_another(there.as_ref(), &place)?;
                self.warn_of_no_state(&former.place);
                self.use_backend(tofu, line, &former.backend).await?;
                // What is created from here on is at the new place, even if nothing tells Canyon so.
                let mark = state_file::empty_and_moved(&Uuid::new_v4().to_string(), &place);
                self.push(tofu, line, &former.place, Ok(mark), Pushing::Checked).await?;
                self.use_backend(tofu, line, &backend).await?;
            }
            ToMove::IsThere(mark) if mark.facts.resources == 0 => {
                self.use_backend(tofu, line, &backend).await?;
            }
            ToMove::IsThere(old) => {
                self.use_backend(tofu, line, &backend).await?;
                let (_, there) = pull(tofu, &place).await?;
                compare(Some(&old.facts), true, there.as_ref().map(|seen| &seen.facts)).map_err(
                    |lost| {
                        stays(
                            &former,
                            &format_args!("it was marked as moved to `{place}`, but there {lost}"),
                        )
                    },
                )?;
            }
            ToMove::All(old) => {
                self.use_backend(tofu, line, &backend).await?;
                let moved = self.push_here(tofu, line, &bytes, &old).await?;
                self.use_backend(tofu, line, &former.backend).await?;
                self.mark(tofu, line, &former, &old, &moved).await?;
                self.use_backend(tofu, line, &backend).await?;
            }
        }
        let (_, seen) = pull(tofu, &place).await?;
        self.refuse_wrong(seen.as_ref())?;
        if seen.is_some() {
            let text = format!("the state lies at `{place}` now; the old one is kept, marked");
            self.transcript.log.step(&text);
        }
        self.state.seen = seen;
        self.state.moved = true;
        self.identify(tofu, TokenPhase::Plan).await
    }

    /// What is to be done about the state at the former place.
    fn to_move(&self, former: &FormerPlace, found: Option<StateSeen>) -> Result<ToMove, Failure> {
        let task = &self.job.state;
        if let Some(to) = found.as_ref().and_then(|seen| seen.moved_to.as_ref())
            && *to != task.place
        {
            return Err(moved_before(&former.place, to, false));
        }
        let facts = found.as_ref().map(|seen| &seen.facts);
        let wrong = |what: &dyn Display| {
            stays(
                former,
                &format_args!(
                    "{what}. Give that storage its state back; or, if what lies there is right, set the \
                     runner's former storage again and have an administrator deploy once with --accept-state"
                ),
            )
        };
        if let Some(what) = self.not_arrived(facts) {
            return Err(stays(former, &what));
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

    /// Writes the state to its new place, and returns what lies there then.
    ///
    /// It takes the place of nothing but a state without resources, which some storages begin by themselves, of
    /// one that was moved away from there, and of its own copy from a move that was killed.
    async fn push_here(
        &mut self,
        tofu: &Tofu,
        line: &Line,
        bytes: &[u8],
        old: &StateSeen,
    ) -> Result<StateFacts, Failure> {
        let place = self.job.state.place.clone();
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
        self.push(tofu, line, &place, moved(), pushing).await?;
        let (mut lying, mut there) = pull(tofu, &place).await?;
        if !is_same(&there) && state_file::same_content(bytes, &lying).is_ok_and(|same| same) {
            // Where there was no state, every remote storage of OpenTofu 1.12 draws a lineage of its own for what is
            // pushed (`internal/states/remote/state.go`, `PersistState`). The copy there gets its own back.
            self.push(tofu, line, &place, moved(), Pushing::Forced).await?;
            (lying, there) = pull(tofu, &place).await?;
        }
        // Some storages count one more when they write.
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

    /// Marks the state at its former place as moved. It must be the one that was moved.
    async fn mark(
        &mut self,
        tofu: &Tofu,
        line: &Line,
        former: &FormerPlace,
        old: &StateSeen,
        moved: &StateFacts,
    ) -> Result<(), Failure> {
        let (bytes, now) = pull(tofu, &former.place).await?;
        if now.as_ref().is_some_and(|now| now.facts == *moved) {
            // What was written to the new place has come to the former one: both names lead to one place.
            return Ok(());
        }
        let to = self.job.state.place.clone();
        if now.as_ref().is_none_or(|now| now.facts != old.facts) {
            let meanwhile = format!(
                "something else wrote it meanwhile: remove the copy at `{to}`, and deploy again"
            );
            return Err(stays(former, &meanwhile));
        }
        let marked = state_file::rewritten(&bytes, old.facts.serial.saturating_add(1), Some(&to));
        self.push(tofu, line, &former.place, marked, Pushing::Checked).await
    }

    async fn push(
        &mut self,
        tofu: &Tofu,
        line: &Line,
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
        let pushed = self.push_past_locks(tofu, line, place, &push).await;
        let removed = std::fs::remove_file(&path).map_err(|error| failure(&error));
        pushed.and(removed)
    }

    async fn push_past_locks(
        &mut self,
        tofu: &Tofu,
        line: &Line,
        place: &str,
        push: &[&str],
    ) -> Result<(), Failure> {
        let mut locks = Locks::default();
        loop {
            if self.stop.wish() != Wish::Run {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            let push = with_timeout(push, locks.timeout());
            let Err(words) = tofu.answer(&push, TRANSFER).await else { return Ok(()) };
            let said = Diagnostic { detail: words.clone(), ..Diagnostic::default() };
            let Some(lock) = lock::in_error(&said) else {
                let message =
                    format!("the state cannot be moved: `{place}` cannot be written: {words}");
                return Err(refused_by_storage(message));
            };
            self.pass(&mut locks, &lock, tofu, line).await?;
        }
    }

    /// From here on OpenTofu works with the state that `backend` leads to.
    async fn use_backend(
        &mut self,
        tofu: &mut Tofu,
        line: &Line,
        backend: &Value,
    ) -> Result<(), Failure> {
        workspace::write_backend(tofu.module(), backend)?;
        self.init(tofu, line).await
    }
}

/// Whether `state push` looks at what lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushing {
    /// It refuses another lineage, and a serial that is not newer.
    Checked,
    /// It does not.
    Forced,
}

/// What is to be done about a state that is to move.
enum ToMove {
    /// There is none, and none is expected.
    Nothing,
    /// An earlier run has moved it, and was lost before it could report that.
    IsThere(StateSeen),
    /// It.
    All(StateSeen),
}

/// Nothing takes the place of a state with resources, unless these have moved away from there.
fn refuse_another(there: Option<&StateSeen>, place: &str) -> Result<(), Failure> {
    match there.filter(|there| there.moved_to.is_none()).map(|there| &there.facts) {
        Some(StateFacts { lineage, serial, resources: resources @ 1.., .. }) => {
            Err(failure(&format_args!(
                "another state (lineage {lineage}, serial {serial}, {resources} resources) lies at `{place}`: remove it, \
             or choose another place"
            )))
        }
        Some(_) | None => Ok(()),
    }
}

fn failure(what: &dyn Display) -> Failure {
    Failure::new(FailureClass::Config, format!("the state cannot be moved: {what}"))
}

fn stays(former: &FormerPlace, what: &dyn Display) -> Failure {
    failure(&format_args!("at `{}`, {what}", former.place))
}
