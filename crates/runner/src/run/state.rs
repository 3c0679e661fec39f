//! What a run does about its state: finds the one that the environment has, or ends before its plan.

use super::Run;
use crate::result::Outcome;
use crate::state_file::{self, MOVED_TO, StateSeen};
use crate::tofu::Tofu;
use crate::unreachable;
use canyon_api::attempt::{StateReportBody, UnwrittenStateBody};
use canyon_domain::deployment::Mode;
use canyon_domain::environment_state::{StateFacts, compare};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::StateTask;
use std::fmt::Display;
use std::time::Duration;

/// What a run knows of its state.
#[derive(Debug, Default)]
pub(super) struct StateKnown {
    /// The last look at it; an apply makes it stale.
    pub(super) seen: Option<StateSeen>,
    /// The run has moved it here.
    pub(super) moved: bool,
    /// What the apply created may not be in it.
    pub(super) incomplete: bool,
    /// What the apply left could not be written.
    pub(super) unwritten: Option<UnwrittenStateBody>,
}

/// Nothing more is known of it.
pub(super) const MISSING: &str = "there is no state, although an earlier run has applied: it was removed, or lies on another machine or in another \
    cluster";

/// The last run could not look at what it had written, or has not said it.
pub(super) const NOT_WRITTEN: &str =
    "it is what lay there before the last run, which has written a newer one, here or elsewhere";

/// How long a state may be on its way from or to its storage; with [`LOCK_TIMEOUT`](super::locked::LOCK_TIMEOUT) it waits for a
/// lock before.
pub(super) const TRANSFER: Duration = Duration::from_mins(5);

/// What the storage, or the way to it, said.
pub(super) fn refused_by_storage(message: String) -> Failure {
    let unreachable = unreachable::is_told_in(&message);
    let class = if unreachable { FailureClass::Unreachable } else { FailureClass::Config };
    Failure::new(class, message)
}

/// The state in the storage that the module's folder names now.
pub(super) async fn pull(
    tofu: &Tofu,
    place: &str,
) -> Result<(Vec<u8>, Option<StateSeen>), Failure> {
    let unreadable = |words: &dyn Display| format!("cannot read the state at `{place}`: {words}");
    let pulled = tofu.answer(&["state", "pull", "-no-color"], TRANSFER).await;
    let bytes = pulled.map_err(|words| refused_by_storage(unreadable(&words)))?;
    let seen = state_file::read(&bytes);
    let seen = seen.map_err(|error| Failure::new(FailureClass::Config, unreadable(&error)))?;
    Ok((bytes, seen))
}

/// An earlier run has moved the state, and was ended before Canyon took the new place for the environment's.
pub(super) fn moved_before(place: &str, to: &str, is_vacant: bool) -> Failure {
    if is_vacant {
        let message = format!(
            "an old copy of a state lies at `{place}`, marked as moved to `{to}`, and this environment has no \
             resources any more: nothing was planned or changed. Remove that copy, and deploy again"
        );
        return Failure::new(FailureClass::Config, message);
    }
    let message = format!(
        "the state at `{place}` was moved to `{to}`, and counts there: nothing was planned or changed. Have the \
         runner keep state in `{to}` (update runner --migrate) and deploy there once, not only plan; then it can \
         move on. If what lay there is lost, copy the state from here to there, and have an administrator deploy \
         there once with --accept-state. If that place itself is lost, take the mark off this state: see \
         docs/state.md"
    );
    Failure::new(FailureClass::Config, message)
}

/// Whether `found` is what was known before a run that must have written a newer one.
pub(super) fn is_not_written(task: &StateTask, found: &StateFacts) -> bool {
    let known = task.expected.as_ref();
    task.must_exist
        && known.is_some_and(|known| is_version_of(known, found) && found.serial == known.serial)
}

fn is_version_of(one: &StateFacts, other: &StateFacts) -> bool {
    one.lineage == other.lineage
}

impl Run {
    /// Compares the state in the storage with the one that the environment has, before anything is
    /// planned on it. An environment in which nothing was ever applied costs no look.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `config` when it is another one, with the ways out.
    pub(super) async fn check_state(&mut self, tofu: &Tofu) -> Result<(), Failure> {
        let task = &self.job.state;
        if task.expected.is_none() && !task.uncertain && !task.vacant && !task.accepted {
            return Ok(());
        }
        let (_, seen) = pull(tofu, &task.place).await?;
        self.refuse_wrong(seen.as_ref())?;
        let log = &mut self.transcript.log;
        match &seen {
            Some(StateSeen { facts: StateFacts { serial, resources, .. }, .. }) => {
                log.step(&format!("the state has serial {serial}, {resources} resources"));
            }
            None if task.vacant || task.accepted => {}
            None => {
                let place = task.place.clone();
                self.warn_of_no_state(&place);
            }
        }
        self.state.seen = seen;
        Ok(())
    }

    /// Nothing is expected, because no run has reported; but one has begun to apply.
    pub(super) fn warn_of_no_state(&mut self, place: &str) {
        self.transcript.log.warn(&format!(
            "an earlier run began to apply and left no state at `{place}`: if it created anything, no state lists it"
        ));
    }

    /// Ends the run if what was found is not the environment's state.
    pub(super) fn refuse_wrong(&self, seen: Option<&StateSeen>) -> Result<(), Failure> {
        let task = &self.job.state;
        let refuse = |what: &dyn Display| {
            let place = &task.place;
            let message = format!(
                "the state at `{place}` is not the one that this environment has: {what}. Nothing was \
                 planned or changed. Give the storage its state back; or, if what lies there is right, \
                 an administrator deploys once with --accept-state"
            );
            Failure::new(FailureClass::Config, message)
        };
        // A copy that was brought back from where it was kept names the place where it lies now.
        let moved_to = seen.and_then(|seen| seen.moved_to.as_ref());
        if let Some(to) = moved_to.filter(|to| **to != task.place) {
            return Err(moved_before(&task.place, to, task.vacant));
        }
        let found = seen.map(|seen| &seen.facts);
        if let Some(what) = self.not_arrived(found) {
            let place = &task.place;
            let message = format!("at `{place}`, {what}. Nothing was planned or changed");
            return Err(Failure::new(FailureClass::Config, message));
        }
        if task.must_exist {
            let Some(found) = found else { return Err(refuse(&MISSING)) };
            if is_not_written(task, found) {
                return Err(refuse(&NOT_WRITTEN));
            }
        }
        if let Some(StateFacts { resources: others @ 1.., .. }) =
            found.filter(|_| task.vacant && !task.accepted)
        {
            let place = &task.place;
            let message = format!(
                "{others} resources lie in the state at `{place}`, and this environment has none. Nothing was planned \
                 or changed. Remove that state, or have the runner keep state elsewhere; or, if it is the \
                 environment's, an administrator deploys once with --accept-state"
            );
            return Err(Failure::new(FailureClass::Config, message));
        }
        compare(task.expected.as_ref(), task.uncertain, found).map_err(|mismatch| refuse(&mismatch))
    }

    /// Ends a run whose plan did not say what it changes, or takes the name by which states are marked.
    pub(super) fn check_plan(&self, tofu: &Tofu, has_changes: bool) -> Result<(), Failure> {
        if self.transcript.facts.declares(MOVED_TO) {
            let message = format!(
                "the module has an output `{MOVED_TO}`, by which Canyon marks states that were moved: give it another \
                 name. Nothing was changed"
            );
            return Err(Failure::new(FailureClass::User, message));
        }
        if !has_changes || self.transcript.facts.planned.is_some() {
            return Ok(());
        }
        // OpenTofu writes the plan first and its lines then, and where the disk is full by that time, it ends as if it
        // had said them.
        let broken = self.transcript.log.broken();
        let why = broken.map_or_else(String::new, |error| format!(" ({error})"));
        let message = format!(
            "`{} plan` ended without saying what it would change{why}: nothing was changed. Has the disk of the job room?",
            tofu.name()
        );
        Err(Failure::new(FailureClass::Config, message))
    }

    /// Ends a run whose plan deletes or replaces more than it may.
    pub(super) fn refuse_deletions(&self) -> Result<(), Outcome> {
        // A plan that did not say it was refused before.
        let planned = self.transcript.facts.planned.map_or(u32::MAX, |planned| {
            // A destroy run drops from the state also what the provider does not find, perhaps in the wrong place.
            let held = self.state.seen.as_ref().map_or(0, |seen| seen.facts.resources);
            let dropped = if self.job.mode == Mode::Destroy { held } else { 0 };
            planned.remove.max(dropped.saturating_sub(planned.forget))
        });
        match self.job.max_deletions {
            Some(allowed) if planned > allowed => {
                let message = format!(
                    "the plan deletes or replaces {planned} resources, and at most {allowed} are \
                     allowed: nothing was changed. If it is the environment's deletion_protection that \
                     forbids them, have an administrator raise it; else deploy with \
                     --max-deletions {planned}"
                );
                let failure = Failure::new(FailureClass::User, message);
                Err(Outcome { refused_deletions: Some(planned), ..failure.into() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Looks at a state that no run has reported, and whose resources the plan has read nevertheless: it was put there by
    /// hand. A run that changes nothing tells of it too, because they would be abandoned with the environment.
    pub(super) async fn look_at_found_state(&mut self, tofu: &Tofu) {
        if self.transcript.facts.knows_resources() {
            self.look_at_state(tofu, false).await;
        }
    }

    /// Looks at the state after an apply, and whenever nothing has looked before.
    pub(super) async fn look_at_state(&mut self, tofu: &Tofu, applied: bool) {
        // A state that was not written has left what was seen before; its storage is away, or refuses.
        if self.state.unwritten.is_some() || (!applied && self.state.seen.is_some()) {
            return;
        }
        let before = self.state.seen.take();
        let place = &self.job.state.place;
        match pull(tofu, place).await {
            Ok((_, seen)) => match self.not_written_by_apply(applied, before.as_ref(), seen.as_ref()) {
                None => self.state.seen = seen,
                // Reported as not known: the next run is refused, because the environment still has what lay there before.
                Some(what) => self.transcript.log.warn(&format!(
                    "the state at `{place}` is not what this run has written: {what}. Something else has written there \
                     meanwhile, or has put a copy in its place, and what this run changed may be in no state: the next \
                     run ends before its plan"
                )),
            },
            Err(failure) => self.transcript.log.warn(&failure.message),
        }
    }

    /// Why the state that lies there after an apply is not what came of the one `before`.
    fn not_written_by_apply(
        &self,
        applied: bool,
        before: Option<&StateSeen>,
        after: Option<&StateSeen>,
    ) -> Option<&'static str> {
        let (before, seen) = (&before.filter(|_| applied)?.facts, after?);
        let after = &seen.facts;
        if !is_version_of(before, after) {
            Some("it was made independently, with another lineage")
        } else if after.serial < before.serial {
            Some("it is older than the one before this run")
        } else if after.serial == before.serial && self.created_more_than(seen) {
            Some("it does not have what this run created")
        } else {
            None
        }
    }

    /// Whether this run has created what the state does not list. The serial alone says nothing: what was deleted by hand
    /// and is created again as it was leaves the state as it was, and OpenTofu raises no serial for that.
    fn created_more_than(&self, seen: &StateSeen) -> bool {
        let is_whole = usize::try_from(seen.facts.resources) == Ok(seen.addresses.len());
        let mut creations = self.transcript.facts.creations.iter();
        // OpenTofu doubles the first sign of a template in the addresses that it says, and not in the state.
        let plain = |address: &str| address.replace("$${", "${").replace("%%{", "%{");
        let is_listed =
            |address: &str| seen.addresses.iter().any(|known| plain(known) == plain(address));
        is_whole && creations.any(|(address, id)| id.is_some() && !is_listed(address))
    }

    /// What is known of the state at the end.
    pub(super) fn state_report(&self) -> Option<StateReportBody> {
        self.state.seen.as_ref().map(|seen| StateReportBody {
            lineage: seen.facts.lineage.clone(),
            serial: seen.facts.serial,
            resources: seen.facts.resources,
            digest: seen.facts.digest.clone(),
            moved: self.state.moved,
            incomplete: self.state.incomplete,
            addresses: seen.addresses.clone(),
        })
    }
}
