//! Limits on the number of concurrent attempts: of an organization, by a runner, or in a project.
//!
//! A limit of `n` has slots, numbered from 0. An open attempt holds one slot of each limit that covers it.
//! The transaction that writes the attempt takes the slot, and the one that writes its end releases it. If
//! all slots are held, the launcher checks whether their holders are still open attempts, so that no slot is
//! lost permanently.

use crate::deployment::Deployment;
use crate::drift::MAX_CHECKS_AT_ONCE;
use crate::ids::{DeploymentId, RunnerId};
pub use crate::slot::{ConcurrencySlot, InvalidScope, LimitScope};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The highest limit.
pub const MAX_LIMIT: u32 = 1_000;
/// Number of holders that a waiting reason names.
pub const MAX_NAMED_HOLDERS: usize = 3;
/// Number of holders that one check reads when all slots are held.
const HOLDERS_PER_CHECK: usize = 25;

impl LimitScope {
    /// Whether attempts of the deployment count.
    pub fn covers(&self, deployment: &Deployment) -> bool {
        match self {
            Self::Organization => true,
            Self::Runner(id) => *id == deployment.runner,
            Self::Project(id) => id.contains(&deployment.project),
            Self::Checks(id) => !deployment.mode.takes_turn() && *id == deployment.runner,
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Organization => "the organization".to_owned(),
            Self::Runner(id) => format!("runner `{id}`"),
            Self::Project(id) => format!("project `{id}`"),
            Self::Checks(id) => format!("the checks for drift by runner `{id}`"),
        }
    }
}

/// A concurrency limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimit {
    /// What it applies to.
    pub scope: LimitScope,
    /// Maximum number of open attempts.
    pub max_jobs: u32,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// An attempt that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotHolder {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The attempt.
    pub attempt: u32,
}

impl SlotHolder {
    /// Whether it may hold its slot: the attempt is open.
    pub fn is_open(&self, deployment: Option<&Deployment>) -> bool {
        let open = deployment.and_then(Deployment::open_attempt);
        open.is_some_and(|open| open.number == self.attempt)
    }
}

/// A held slot and its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// The slot's number.
    pub number: u32,
    /// The attempt that holds it.
    pub holder: SlotHolder,
    /// Whether that checks for drift: then it gives way to a deployment.
    pub of_check: bool,
}

impl ConcurrencyLimit {
    /// The limit that holds for the checks for drift by `runner` where none is set.
    pub fn of_checks(runner: RunnerId) -> Self {
        let (scope, updated_at) = (LimitScope::Checks(runner), Timestamp::UNIX_EPOCH);
        Self { scope, max_jobs: MAX_CHECKS_AT_ONCE, updated_at }
    }

    /// The limit for a check: it leaves a slot for a deployment, if there are several.
    #[must_use]
    pub fn leaving_one(&self) -> Self {
        let is_shared = self.max_jobs > 1 && !matches!(self.scope, LimitScope::Checks(_));
        Self { max_jobs: self.max_jobs - u32::from(is_shared), ..self.clone() }
    }

    /// Why a check waits for a slot.
    pub fn waiting_reason_of_check(&self) -> String {
        let reason = self.waiting_reason();
        if self.leaving_one().max_jobs == self.max_jobs {
            return reason;
        }
        format!("{reason}, where a check for drift leaves one free")
    }

    /// A free slot, if `held` are those that are held; `None` if all are held. `hint` spreads concurrent
    /// requests over the free slots.
    pub fn free_slot(&self, held: &[HeldSlot], hint: u64) -> Option<ConcurrencySlot> {
        if u32::try_from(held.len()).unwrap_or(u32::MAX) >= self.max_jobs {
            return None;
        }
        let taken: BTreeSet<u32> = held.iter().map(|slot| slot.number).collect();
        let free: Vec<u32> = (0..self.max_jobs).filter(|number| !taken.contains(number)).collect();
        let count = u64::try_from(free.len()).unwrap_or(1).max(1);
        let chosen = usize::try_from(hint % count).unwrap_or_default();
        let number = free.get(chosen).copied()?;
        Some(ConcurrencySlot { scope: self.scope.clone(), number })
    }

    /// The held slots whose holders one check reads: a few, from an offset that `hint` gives, so that
    /// different checks cover all.
    pub fn slots_to_check<'a>(
        &self,
        held: &'a [HeldSlot],
        hint: u64,
    ) -> impl Iterator<Item = &'a HeldSlot> {
        let count = u64::try_from(held.len()).unwrap_or(1).max(1);
        let from = usize::try_from(hint % count).unwrap_or_default();
        let max_jobs = self.max_jobs;
        let around = held.iter().cycle().skip(from).take(held.len());
        around.filter(move |slot| slot.number < max_jobs).take(HOLDERS_PER_CHECK)
    }

    /// Why a deployment waits for a slot. It does not name the holders: a reader of this may not be allowed to read each of
    /// them.
    pub fn waiting_reason(&self) -> String {
        let slots = match self.max_jobs {
            1 => "the one slot".to_owned(),
            max => format!("one of the {max} slots"),
        };
        format!("waiting for {slots} of {}", self.scope.in_words())
    }
}

/// Who holds the slots of a limit, as words behind [`ConcurrencyLimit::waiting_reason`]: the deployments of `named`, which the
/// reader may read, and how many others.
pub fn held_by(named: &[DeploymentId], others: usize) -> String {
    let mut holders: Vec<_> =
        named.iter().take(MAX_NAMED_HOLDERS).map(ToString::to_string).collect();
    let others = others + named.len().saturating_sub(MAX_NAMED_HOLDERS);
    match (holders.is_empty(), others) {
        (true, 0) => return String::new(),
        (true, 1) => holders.push("another deployment".to_owned()),
        (true, others) => holders.push(format!("{others} deployments")),
        (false, 0) => {}
        (false, others) => return format!(" (held by {} and {others} more)", holders.join(", ")),
    }
    format!(" (held by {})", holders.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn limit(max_jobs: u32) -> ConcurrencyLimit {
        let scope = LimitScope::Project("shop".parse().unwrap());
        ConcurrencyLimit { scope, max_jobs, updated_at: Timestamp::UNIX_EPOCH }
    }

    fn held(number: u32) -> HeldSlot {
        let deployment = DeploymentId(Uuid::from_u128(u128::from(number)));
        HeldSlot { number, holder: SlotHolder { deployment, attempt: 1 }, of_check: false }
    }

    #[test]
    fn a_check_leaves_one_slot_of_several_except_of_a_limit_for_checks() {
        for (scope, max_jobs, left, expected) in [
            (
                "organization",
                8,
                7,
                "waiting for one of the 8 slots of the organization, where a check for drift leaves one free",
            ),
            ("organization", 1, 1, "waiting for the one slot of the organization"),
            (
                "checks:laptop",
                4,
                4,
                "waiting for one of the 4 slots of the checks for drift by runner `laptop`",
            ),
        ] {
            let (scope, updated_at) = (scope.parse().unwrap(), Timestamp::UNIX_EPOCH);
            let limit = ConcurrencyLimit { scope, max_jobs, updated_at };
            assert_eq!(limit.leaving_one().max_jobs, left);
            assert_eq!(limit.waiting_reason_of_check(), expected);
        }
    }

    #[test]
    fn a_scope_reads_back() {
        for text in ["organization", "runner:my_runner", "project:payments/eu", "checks:my_runner"]
        {
            assert_eq!(text.parse::<LimitScope>().unwrap().to_string(), text);
        }
        for wrong in ["", "org", "organization:x", "runner", "runner:", "project:../x", "env:a"] {
            assert!(wrong.parse::<LimitScope>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_reason_to_wait_names_the_limit_and_those_holders_that_its_reader_may_read() {
        assert_eq!(limit(5).waiting_reason(), "waiting for one of the 5 slots of project `shop`");
        assert_eq!(limit(1).waiting_reason(), "waiting for the one slot of project `shop`");
        let all: Vec<_> = (0..5).map(|n| held(n).holder.deployment).collect();
        let [a, b, c, ..] = all[..] else { unreachable!() };
        for (named, others, expected) in [
            (&all[..0], 0, String::new()),
            (&all[..0], 1, " (held by another deployment)".to_owned()),
            (&all[..0], 4, " (held by 4 deployments)".to_owned()),
            (&all[..1], 0, format!(" (held by {a})")),
            (&all[..2], 2, format!(" (held by {a}, {b} and 2 more)")),
            (&all[..], 1, format!(" (held by {a}, {b}, {c} and 3 more)")),
        ] {
            assert_eq!(held_by(named, others), expected);
        }
    }

    proptest! {
        /// For any number of held slots, one check reads a few of them, each once, and each slot is read for
        /// some hint.
        #[test]
        fn every_slot_is_checked_for_some_hint(
            max in 1_u32..60, taken in proptest::collection::btree_set(0_u32..60, 0..60), hint: u64,
        ) {
            let all: Vec<_> = taken.iter().copied().map(held).collect();
            let asked = |hint| -> Vec<u32> {
                limit(max).slots_to_check(&all, hint).map(|slot| slot.number).collect()
            };
            let mut now = asked(hint);
            prop_assert!(now.len() <= HOLDERS_PER_CHECK);
            now.sort_unstable();
            prop_assert!(now.windows(2).all(|two| two[0] < two[1]));
            let ever: BTreeSet<u32> = (0..60).flat_map(asked).collect();
            let within: BTreeSet<u32> = taken.into_iter().filter(|number| *number < max).collect();
            prop_assert_eq!(ever, within);
        }

        /// A slot is given exactly when fewer are held than the limit allows, and it is free.
        #[test]
        fn a_slot_is_given_while_fewer_are_held_than_allowed(
            max in 0_u32..12, taken in proptest::collection::btree_set(0_u32..20, 0..15), hint: u64,
        ) {
            let all: Vec<_> = taken.iter().copied().map(held).collect();
            let slot = limit(max).free_slot(&all, hint);
            prop_assert_eq!(slot.is_some(), taken.len() < usize::try_from(max).unwrap());
            if let Some(slot) = slot {
                prop_assert!(slot.number < max && !taken.contains(&slot.number));
            }
        }
    }
}
