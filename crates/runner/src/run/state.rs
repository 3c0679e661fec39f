//! Checks the state of a run: the run ends before its plan if the state is not the environment's own.

use super::Run;
use crate::facts::StateSize;
use crate::result::Outcome;
use crate::state_file::{self, MOVED_TO, StateSeen};
use crate::tofu::Tofu;
use crate::unreachable;
use canyon_api::attempt::{StateReportBody, UnwrittenStateBody};
use canyon_domain::deployment::Mode;
use canyon_domain::environment_state::{StateFacts, compare};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::StateTask;
use canyon_domain::plan_task::PlanTask;
use canyon_domain::resource_count::Resources;
use canyon_domain::unfinished_run::UnfinishedRun;
use std::fmt::Display;
use std::time::Duration;

/// What a run knows about its state.
#[derive(Debug, Default)]
pub(super) struct StateKnown {
    /// The state when it was last read; an apply makes this stale.
    pub(super) seen: Option<StateSeen>,
    /// Whether this run has moved the state to the runner's storage.
    pub(super) moved: bool,
    /// Whether resources that the apply created may be missing in the state.
    pub(super) incomplete: bool,
    /// What the apply left could not be written.
    pub(super) unwritten: Option<UnwrittenStateBody>,
}

/// The text for a state that must exist and does not.
pub(super) const MISSING: &str = "there is no state, although an earlier run has applied: it was removed, or it is on another machine or in another \
    cluster";

/// The text for a state that is older than the last run: that run could not read what it had written, or has not
/// reported it.
pub(super) const NOT_WRITTEN: &str =
    "it is the state from before the last run, which has written a newer one, here or elsewhere";

/// How long one transfer of a state from or to its storage may take. With
/// [`LOCK_TIMEOUT`](super::locked::LOCK_TIMEOUT) it may wait for a lock before that.
pub(super) const TRANSFER: Duration = Duration::from_mins(5);

/// The failure for an error of the storage, or of the network in between.
pub(super) fn refused_by_storage(message: String) -> Failure {
    let unreachable = unreachable::is_reported_in(&message);
    let class = if unreachable { FailureClass::Unreachable } else { FailureClass::Config };
    Failure::new(class, message)
}

/// Reads the state from the storage that the module's folder names now.
pub(super) async fn pull(
    tofu: &Tofu,
    place: &str,
) -> Result<(Vec<u8>, Option<StateSeen>), Failure> {
    let unreadable = |error: &dyn Display| format!("cannot read the state at `{place}`: {error}");
    let pulled = tofu.answer(&["state", "pull", "-no-color"], TRANSFER).await;
    let bytes = pulled.map_err(|error| refused_by_storage(unreadable(&error)))?;
    let seen = state_file::read(&bytes);
    let seen = seen.map_err(|error| Failure::new(FailureClass::Config, unreadable(&error)))?;
    Ok((bytes, seen))
}

/// The failure for a state that an earlier run has moved, if that run ended before Canyon recorded the new location.
pub(super) fn moved_before(place: &str, to: &str, is_vacant: bool) -> Failure {
    if is_vacant {
        let message = format!(
            "an old copy of a state is at `{place}`, marked as moved to `{to}`, and this environment has no \
             resources any more: nothing was planned or changed. Remove that copy, and deploy again"
        );
        return Failure::new(FailureClass::Config, message);
    }
    let message = format!(
        "the state at `{place}` was moved to `{to}`, and is valid there: nothing was planned or changed. Have the \
         runner keep state in `{to}` (update runner --migrate) and deploy there once, not only plan; then it can \
         move on. If the state that was there is lost, copy this state to there, and have an administrator deploy \
         there once with --accept-state. If that storage itself is lost, remove the mark from this state: see \
         docs/state.md"
    );
    Failure::new(FailureClass::Config, message)
}

/// Whether `found` is the version that was known before a run that must have written a newer one.
pub(super) fn is_not_written(task: &StateTask, found: &StateFacts) -> bool {
    let known = task.expected.as_ref();
    task.must_exist
        && known.is_some_and(|known| is_version_of(known, found) && found.serial == known.serial)
}

fn is_version_of(one: &StateFacts, other: &StateFacts) -> bool {
    one.lineage == other.lineage
}

impl Run {
    /// Compares the state in the storage with the one that the environment has, before the plan. The state of an
    /// environment in which no run ever applied is not read.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `config` if it is another state. The message says what to do.
    pub(super) async fn check_state(&mut self, tofu: &Tofu) -> Result<(), Failure> {
        let task = &self.job.state;
        if task.expected.is_none() && !task.uncertain && !task.vacant && !task.accepted {
            return Ok(());
        }
        let (_, seen) = pull(tofu, &task.location).await?;
        self.refuse_wrong(seen.as_ref())?;
        let log = &mut self.transcript.log;
        match &seen {
            Some(StateSeen { facts: StateFacts { serial, resources, .. }, .. }) => {
                log.step(&format!("the state has serial {serial}, {}", Resources(*resources)));
                let is_old = task.expected.as_ref().is_some_and(|of| of.serial == *serial);
                match &task.unfinished {
                    Some(_) if is_old => log.warn(
                        "an earlier run began to apply and ended without a result, and the state is the one from \
                         before it: if it created anything that is not among the orphans of its deployment, no state \
                         lists it",
                    ),
                    Some(UnfinishedRun { by, unsalvaged: true }) => log.warn(&format!(
                        "the deployment {by} began to apply and ended without a result, and Canyon has not read what its \
                         job left: the state was written since, and may lack what that run created last"
                    )),
                    Some(_) | None => {}
                }
            }
            None if task.vacant || task.accepted => {}
            None => {
                let place = task.location.clone();
                self.warn_of_no_state(&place);
            }
        }
        self.state.seen = seen;
        Ok(())
    }

    /// Warns that there is no state. None is expected, because no run has reported one; but one run has begun to apply.
    pub(super) fn warn_of_no_state(&mut self, place: &str) {
        self.transcript.log.warn(&format!(
            "an earlier run began to apply and left no state at `{place}`: if it created anything, no state lists it"
        ));
    }

    /// Ends the run if the state that was found is not the environment's.
    pub(super) fn refuse_wrong(&self, seen: Option<&StateSeen>) -> Result<(), Failure> {
        let task = &self.job.state;
        let refuse = |what: &dyn Display| {
            let place = &task.location;
            let message = format!(
                "the state at `{place}` is not the one that this environment has: {what}. Nothing was \
                 planned or changed. Restore the state in the storage; or, if the state that is there is right, \
                 an administrator deploys once with --accept-state"
            );
            Failure::new(FailureClass::Config, message)
        };
        // A copy that was restored from where it was kept has a mark with its present location.
        let moved_to = seen.and_then(|seen| seen.moved_to.as_ref());
        if let Some(to) = moved_to.filter(|to| **to != task.location) {
            return Err(moved_before(&task.location, to, task.vacant));
        }
        let found = seen.map(|seen| &seen.facts);
        // A command on the state creates nothing a second time, and imports what is in no state.
        let creates = self.job.mode != Mode::State;
        let lacks = || self.not_arrived(found).or_else(|| self.unread_remains(found));
        if let Some(what) = creates.then(lacks).flatten() {
            let place = &task.location;
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
            let place = &task.location;
            let message = format!(
                "there is a state with {} at `{place}`, and this environment has none. Nothing was planned or changed. \
                 Remove that state, or have the runner keep state elsewhere; or, if it is the environment's, an \
                 administrator deploys once with --accept-state",
                Resources(*others)
            );
            return Err(Failure::new(FailureClass::Config, message));
        }
        compare(task.expected.as_ref(), task.uncertain, found).map_err(|mismatch| refuse(&mismatch))
    }

    /// Why `found` must not be worked on: it is the state from before an unfinished run, and Canyon has not read what that
    /// run left.
    pub(super) fn unread_remains(&self, found: Option<&StateFacts>) -> Option<String> {
        let task = &self.job.state;
        let unfinished = task.unfinished?;
        unfinished.forbids(task.expected.as_ref(), found).then(|| {
            format!(
                "no state was written since the deployment {by} began to apply, which ended without a result: its job is \
                 not proved gone, or what it left could not be read. What it created may be in no state, and would be \
                 created a second time. If the agent or the cluster of that job did not answer, deploy again when it \
                 does: Canyon then reads what the job left. Otherwise look for what it created, import that into the \
                 state or remove it, and have an administrator deploy once with --accept-state",
                by = unfinished.by
            )
        })
    }

    /// Ends a run whose plan has no summary of its changes, or whose module uses the output name that marks states as moved.
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
        // OpenTofu writes the plan first and its lines afterwards. If the disk is full by then, it ends as if it had written
        // them.
        let broken = self.transcript.log.broken();
        let reason = broken.map_or_else(String::new, |error| format!(" ({error})"));
        let message = format!(
            "`{} plan` ended without a summary of its changes{reason}: nothing was changed. Check that the job's disk is not full",
            tofu.name()
        );
        Err(Failure::new(FailureClass::Config, message))
    }

    /// Ends a run whose plan deletes or replaces more resources than allowed. Those that the provider does not find count
    /// too: the apply drops them from the state, and the provider may have looked in the wrong place.
    pub(super) fn refuse_deletions(&self) -> Result<(), Outcome> {
        let facts = &self.transcript.facts;
        // A plan without a summary was refused before.
        let (deleted, vanished) = facts.planned.map_or((u32::MAX, 0), |planned| {
            if self.job.mode != Mode::Destroy {
                return (planned.remove, facts.vanished());
            }
            let held = self.state.seen.as_ref().map_or(0, |seen| seen.facts.resources);
            (planned.remove.max(held.saturating_sub(planned.forget)), 0)
        });
        let count = deleted.saturating_add(vanished);
        let Some(allowed) = self.job.max_deletions.filter(|allowed| count > *allowed) else {
            return Ok(());
        };
        let not_found = if vanished == 0 {
            String::new()
        } else {
            format!(
                ", and {vanished} were not found by their provider and would leave the state (were they deleted \
                 elsewhere, or does the provider look in another region or account?)"
            )
        };
        let message = format!(
            "the plan deletes or replaces {}{not_found}; at most {allowed} may be: nothing was changed. To allow more, \
             raise the limit that forbids it. If it is the deletion_protection of the \
             environment, an administrator does so: canyon update environment {} {} \
             --set=deletion_protection.max_deletions={count}. If it is the request's own, give --max-deletions {count}",
            Resources(deleted),
            self.job.project_id,
            self.job.env_id
        );
        let failure = Failure::new(FailureClass::User, message);
        Err(Outcome { refused_deletions: Some(count), ..failure.into() })
    }

    /// Reads a state that no run has reported, if the plan has read resources from it: it was put there by hand. A run
    /// that changes nothing reports it too, because its resources would be abandoned with the environment.
    pub(super) async fn inspect_found_state(&mut self, tofu: &Tofu) {
        if self.transcript.facts.knows_resources() {
            self.inspect_state(tofu, false).await;
        }
    }

    /// Looks at the state after an apply, and whenever nothing has looked before.
    pub(super) async fn inspect_state(&mut self, tofu: &Tofu, applied: bool) {
        // A state that was not written has left what was seen before; its storage is away, or refuses.
        if self.state.unwritten.is_some() || (!applied && self.state.seen.is_some()) {
            return;
        }
        let before = self.state.seen.take();
        let place = &self.job.state.location;
        match pull(tofu, place).await {
            Ok((_, seen)) => match self.not_written_by_apply(applied, before.as_ref(), seen.as_ref()) {
                None => self.state.seen = seen,
                // Reported as not known. The next run is refused, because the environment still has the state from before.
                Some(what) => self.transcript.log.warn(&format!(
                    "the state at `{place}` is not what this run has written: {what}. Something else has written there \
                     in the meantime, or has replaced it by a copy, and what this run changed may be in no state: the next \
                     run ends before its plan"
                )),
            },
            Err(failure) => self.transcript.log.warn(&failure.message),
        }
    }

    /// Counts the resources of the state that was seen, if this run has planned only a part of them, or nothing: its lines do not
    /// show how many there are.
    pub(super) fn count_by_state(&mut self) {
        let has_planned = !matches!(self.job.plan, Some(PlanTask::Apply { .. }));
        if self.job.bundle.options.is_partial() || !has_planned {
            let seen = self.state.seen.as_ref();
            self.transcript.facts.state =
                seen.map_or(StateSize::Unknown, |seen| StateSize::Counted(seen.facts.resources));
        }
    }

    /// Why the state after an apply does not continue the one `before`.
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

    /// Whether this run has created a resource that the state does not list. The serial alone does not show it: if a resource
    /// was deleted by hand and is created again unchanged, the state stays the same, and OpenTofu raises no serial.
    fn created_more_than(&self, seen: &StateSeen) -> bool {
        let is_whole = usize::try_from(seen.facts.resources) == Ok(seen.addresses.len());
        let mut creations = self.transcript.facts.creations.iter();
        // OpenTofu doubles the first character of a template in the addresses that it prints, but not in the state.
        let plain = |address: &str| address.replace("$${", "${").replace("%%{", "%{");
        let is_listed =
            |address: &str| seen.addresses.iter().any(|known| plain(known) == plain(address));
        is_whole && creations.any(|(address, id)| id.is_some() && !is_listed(address))
    }

    /// The report about the state at the end of the run.
    pub(super) fn state_report(&self) -> Option<StateReportBody> {
        self.state.seen.as_ref().map(|seen| StateReportBody {
            lineage: seen.facts.lineage.clone(),
            serial: seen.facts.serial,
            resources: seen.facts.resources,
            digest: seen.facts.digest.clone(),
            moved: self.state.moved,
            incomplete: self.state.incomplete,
            // The key of an instance may be a secret: the address is masked as in the events.
            addresses: seen.addresses.iter().map(|of| self.transcript.log.masked(of)).collect(),
        })
    }
}
