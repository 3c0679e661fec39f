//! Decides whether Canyon may break the lock on an OpenTofu state.
//!
//! OpenTofu locks a state while it works on it. On `kubernetes`, `s3`, `gcs` and `azurerm` the lock outlives
//! a process that is killed, and never expires. OpenTofu writes the lock's owner into it, as `user@host`, and
//! the time of the lock.
//!
//! One rule holds: Canyon breaks a lock only with its own id, and with the proof that its owner is dead. The
//! proof is [`Attempt::job_gone_at`]: the platform has reported that the job is gone. Neither the end of an
//! attempt nor silence is a proof.

use crate::attempt::{Attempt, Outcome, Salvage};
pub use crate::blocking_lock::{BlockingLock, LockOwner};
use crate::deadline::ended_without_proof;
use crate::deployment::Deployment;
use crate::ids::DeploymentId;
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;

/// Maximum difference between the clocks of a job and of Canyon. A lock that was made further outside the
/// lifetime of an attempt does not count as the attempt's.
pub const CLOCK_SKEW: Duration = Duration::from_mins(2);

/// A lock, as OpenTofu describes it when it finds the state locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLock {
    /// The id of the lock in the state storage: only with it can the lock be freed.
    pub id: String,
    /// The owner: `user@host`.
    pub who: String,
    /// When it was made, by the owner's clock.
    pub created: Timestamp,
    /// The operation, such as `OperationTypeApply`.
    pub operation: String,
    /// A live process that may own the lock and belongs to no job. Set if the runner that found the lock is
    /// on the owner's host and sees such a process.
    pub host_process: Option<u32>,
}

impl StateLock {
    /// The owner's user and host, if the lock names the host. The user's name may be empty.
    fn owner(&self) -> Option<(&str, &str)> {
        self.who.rsplit_once('@').filter(|(_, host)| !host.is_empty())
    }
}

/// The decision about a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockDecision {
    /// Break it: its owner is proved dead.
    Break(Proof),
    /// Wait: an attempt of Canyon may own it, and its job is not proved dead yet, or Canyon must still read what it left.
    Wait(LockOwner),
    /// Keep it: Canyon may not break it.
    Keep(KeepReason),
}

/// The proof that the owner of a lock is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The attempt that left the lock.
    pub holder: LockOwner,
    /// When its job was proved gone.
    pub gone_at: Timestamp,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job of {} is gone since {:.0}", self.holder, self.gone_at)
    }
}

/// Why Canyon may not break a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// The lock does not name its owner's host.
    NoHost,
    /// No earlier attempt in the environment ran on that host at that time: the owner is unknown.
    UnknownOwner,
    /// A live process of that host that belongs to no job may own it.
    HostProcess(u32),
    /// The owner could not write its state, and Canyon has read that after the asker had compared the state: it must
    /// compare again.
    Unwritten(DeploymentId),
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("the lock does not say on which host its holder runs"),
            Self::UnknownOwner => {
                f.write_str("no earlier attempt in this environment ran on that host at that time")
            }
            Self::HostProcess(pid) => write!(f, "process {pid} of that host may hold it"),
            Self::Unwritten(deployment) => write!(
                f,
                "its holder is dead, and the deployment {deployment} could not write its state. Do not free the lock by \
                 hand, but deploy again: Canyon then says what is to be done"
            ),
        }
    }
}

/// Decides about a lock that blocks attempt `number` of `asker`. `others` are deployments of the same
/// environment; deployments of other environments among them are ignored.
///
/// If several attempts may have made the lock, all of them must be proved dead.
pub fn decide(
    lock: &StateLock,
    asker: &Deployment,
    number: u32,
    others: &[Deployment],
) -> LockDecision {
    let Some(owner) = lock.owner() else { return LockDecision::Keep(KeepReason::NoHost) };
    if let Some(pid) = lock.host_process {
        return LockDecision::Keep(KeepReason::HostProcess(pid));
    }
    let earlier = asker.attempts.iter().filter(|attempt| attempt.number < number);
    let earlier = earlier.map(|attempt| (asker.id, attempt));
    let same = |other: &&Deployment| other.env_uuid == asker.env_uuid && other.id != asker.id;
    let of_others = others.iter().filter(same);
    let of_others =
        of_others.flat_map(|other| other.attempts.iter().map(|attempt| (other.id, attempt)));
    let mut suspects: Vec<_> = earlier
        .chain(of_others)
        .filter(|(_, attempt)| may_have_made(attempt, owner, lock.created))
        .map(|(deployment, attempt)| (distance(attempt, lock.created), deployment, attempt))
        .collect();
    // The most likely owner comes first: the decision names it.
    suspects.sort_by_key(|(distance, ..)| *distance);
    let holder = |(_, deployment, attempt): &(Duration, DeploymentId, &Attempt)| LockOwner {
        deployment: *deployment,
        attempt: attempt.number,
    };
    let gone_at = |attempt: &Attempt| attempt.job_gone_at.filter(|_| attempt.ended.is_some());
    if let Some(alive) = suspects.iter().find(|(.., attempt)| gone_at(attempt).is_none()) {
        return LockDecision::Wait(holder(alive));
    }
    let unread = suspects.iter().find(|(.., attempt)| attempt.salvage == Salvage::Pending);
    if let Some(unread) = unread.filter(|_| !asker.accept_state) {
        return LockDecision::Wait(holder(unread));
    }
    // The asker has compared the state since its claim.
    let own = asker.attempts.iter().find(|attempt| attempt.number == number);
    let compared_at = own.and_then(|attempt| attempt.claim.as_ref()).map(|claim| claim.at);
    let unwritten = suspects.iter().find(|(.., attempt)| {
        // The environment has known of it since the attempt's end, or since what it left was read: an administrator who
        // accepts the state has been told of it, however late the job is proved gone. Without that, the asker's claim may
        // have read the environment before the write of what was salvaged ended.
        let known_at = if asker.accept_state {
            attempt.salvaged_at
        } else {
            let known_at = attempt.salvaged_at;
            let known_at = known_at.map(|at| at.saturating_add(CLOCK_SKEW).unwrap_or(at));
            gone_at(attempt).max(known_at)
        };
        attempt.unwritten.is_some() && compared_at <= known_at
    });
    if let Some((_, deployment, _)) = unwritten {
        return LockDecision::Keep(KeepReason::Unwritten(*deployment));
    }
    let proof = suspects
        .first()
        .and_then(|dead| Some(Proof { holder: holder(dead), gone_at: gone_at(dead.2)? }));
    proof.map_or(LockDecision::Keep(KeepReason::UnknownOwner), LockDecision::Break)
}

/// Whether the attempt may have made a lock of this user and host, at this time. On a machine where jobs are processes,
/// other users have locks of their own, and the runner may not see their processes. An attempt without a claim never ran
/// OpenTofu; in one that succeeded, each command has freed its lock; one that has not ended, or that ended
/// although its job may still have lived, may still make locks.
fn may_have_made(attempt: &Attempt, (user, host): (&str, &str), created: Timestamp) -> bool {
    let Some(claim) = &attempt.claim else { return false };
    let is_of_user = claim.user.as_deref().is_none_or(|claimed| claimed == user);
    if claim.host.as_deref() != Some(host) || !is_of_user {
        return false;
    }
    let from = claim.at.saturating_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN);
    let until = match &attempt.ended {
        None => Timestamp::MAX,
        Some(ended) if ended.outcome == Outcome::Succeeded => return false,
        Some(ended) => {
            let last = if ended_without_proof(attempt, ended.at) {
                attempt.job_gone_at.unwrap_or(Timestamp::MAX)
            } else {
                ended.at
            };
            last.saturating_add(CLOCK_SKEW).unwrap_or(Timestamp::MAX)
        }
    };
    (from..=until).contains(&created)
}

/// How far outside the attempt's lifetime the lock was made.
fn distance(attempt: &Attempt, created: Timestamp) -> Duration {
    let begin = attempt.claim.as_ref().map_or(attempt.launched_at, |claim| claim.at);
    let end = attempt.ended.as_ref().map_or(Timestamp::MAX, |ended| ended.at);
    let nearest = created.clamp(begin, end.max(begin));
    created.duration_since(nearest).unsigned_abs()
}

/// Records a decision on the open attempt of `asker`; for [`LockDecision::Wait`], makes the launcher check the
/// owner's job now. Returns whether the deployment must be written.
pub fn record_decision(
    asker: &mut Deployment,
    lock: &StateLock,
    decision: &LockDecision,
    now: Timestamp,
) -> bool {
    let Some(attempt) = asker.attempts.last_mut().filter(|attempt| attempt.ended.is_none()) else {
        return false;
    };
    let id = lock.id.clone();
    let before = attempt.lock.take();
    let said =
        before.as_ref().filter(|met| met.id == id).and_then(|met| met.platform_report.clone());
    attempt.lock = match decision {
        LockDecision::Break(_) => {
            Some(BlockingLock { id, waits_for: None, platform_report: None, broken: true })
        }
        LockDecision::Wait(holder) => Some(BlockingLock {
            id,
            waits_for: Some(*holder),
            platform_report: said,
            broken: false,
        }),
        LockDecision::Keep(_) => None,
    };
    if let LockDecision::Wait(holder) = decision {
        asker.message = waiting_message(*holder);
        asker.due_at = Some(now);
        return true;
    }
    let changed = attempt.lock != before;
    if changed {
        asker.message.clear();
    }
    changed
}

/// The status message of a deployment that waits for such a proof.
pub fn waiting_message(holder: LockOwner) -> String {
    format!("{holder} has left the state locked; waiting for the proof that its job is gone")
}

/// The attempt whose job the launcher must check for `deployment`, if that is due.
pub fn awaited_job(deployment: &Deployment, now: Timestamp) -> Option<LockOwner> {
    let met = deployment.open_attempt()?.lock.as_ref()?;
    met.waits_for.filter(|_| deployment.due_at.is_some_and(|due| due <= now))
}

/// The launcher has checked the owner's job: it is proved dead (`platform_report` is `None`), or the platform reported
/// something else. The next check follows when the attempt asks again.
pub fn record_check(deployment: &mut Deployment, said: Option<String>, next_look: Timestamp) {
    let attempt = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
    let Some(met) = attempt.and_then(|attempt| attempt.lock.as_mut()) else { return };
    if said.is_none() {
        met.waits_for = None;
    }
    met.platform_report = said;
    deployment.due_at = Some(next_look);
}

#[cfg(test)]
#[path = "state_lock_tests.rs"]
mod tests;
