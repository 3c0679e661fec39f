//! Whether a lock on a state may be broken.
//!
//! OpenTofu locks a state while it works on it. On `kubernetes`, `s3`, `gcs` and `azurerm` the lock
//! outlives a holder that is killed, and no time ends it. OpenTofu writes into it who holds it, as
//! `user@host`, and since when.
//!
//! One rule holds: a lock is broken only with its own id, and with the proof that its holder is
//! dead. The proof is [`Attempt::job_gone_at`]: the platform has said that the job is gone. That an
//! attempt has ended is none, and neither is silence.

use crate::attempt::{Attempt, Outcome};
use crate::deployment::Deployment;
use crate::ids::DeploymentId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How far the clock of a job may be off Canyon's. A lock that was made further outside the life of
/// an attempt is not taken for the attempt's.
pub const CLOCK_SKEW: Duration = Duration::from_mins(2);

/// A lock, as OpenTofu describes the one that is in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLock {
    /// Names the lock where the state is: only with it can the lock be freed.
    pub id: String,
    /// Who holds it: `user@host`.
    pub who: String,
    /// Since when, by the holder's clock.
    pub created: Timestamp,
    /// What for, such as `OperationTypeApply`.
    pub operation: String,
    /// A living process on the holder's host that is no job's and may hold it, if whoever met the
    /// lock is on that host and sees one.
    pub neighbour: Option<u32>,
}

impl StateLock {
    /// The host that its holder runs on, if it says so.
    pub fn host(&self) -> Option<&str> {
        self.who.rsplit_once('@').map(|(_, host)| host).filter(|host| !host.is_empty())
    }
}

/// An attempt that may hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Its deployment.
    pub deployment: DeploymentId,
    /// Its number.
    pub attempt: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of deployment {}", self.attempt, self.deployment)
    }
}

/// What is to be done about a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its holder is dead, and this proves it.
    Break(Proof),
    /// Canyon's own attempt may hold it, whose job is not proved dead yet.
    Wait(Holder),
    /// It is not Canyon's to break.
    Keep(Reason),
}

/// That the holder of a lock is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Who has left the lock.
    pub holder: Holder,
    /// Since when its job is known to be gone.
    pub gone_at: Timestamp,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job of {} is gone since {:.0}", self.holder, self.gone_at)
    }
}

/// Why a lock is not Canyon's to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not say on which host its holder runs.
    NoHost,
    /// No earlier attempt in the environment ran on that host at that time.
    Stranger,
    /// A living process of that host, which is no job's, may hold it.
    Neighbour(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("the lock does not say on which host its holder runs"),
            Self::Stranger => {
                f.write_str("no earlier attempt in this environment ran on that host at that time")
            }
            Self::Neighbour(pid) => write!(f, "process {pid} of that host may hold it"),
        }
    }
}

/// Judges a lock that is in the way of attempt `number` of `asker`. `others` are deployments of the
/// same environment; any others among them do not count.
///
/// If several attempts may have made the lock, all of them must be proved dead.
pub fn judge(lock: &StateLock, asker: &Deployment, number: u32, others: &[Deployment]) -> Verdict {
    let Some(host) = lock.host() else { return Verdict::Keep(Reason::NoHost) };
    if let Some(neighbour) = lock.neighbour {
        return Verdict::Keep(Reason::Neighbour(neighbour));
    }
    let earlier = asker.attempts.iter().filter(|attempt| attempt.number < number);
    let earlier = earlier.map(|attempt| (asker.id, attempt));
    let same = |other: &&Deployment| other.env_uuid == asker.env_uuid && other.id != asker.id;
    let of_others = others.iter().filter(same);
    let of_others =
        of_others.flat_map(|other| other.attempts.iter().map(|attempt| (other.id, attempt)));
    let mut suspects: Vec<_> = earlier
        .chain(of_others)
        .filter(|(_, attempt)| may_have_made(attempt, host, lock.created))
        .map(|(deployment, attempt)| (distance(attempt, lock.created), deployment, attempt))
        .collect();
    // The likeliest first: it is the one that is named.
    suspects.sort_by_key(|(distance, ..)| *distance);
    let holder = |(_, deployment, attempt): &(Duration, DeploymentId, &Attempt)| Holder {
        deployment: *deployment,
        attempt: attempt.number,
    };
    let gone_at = |attempt: &Attempt| attempt.job_gone_at.filter(|_| attempt.ended.is_some());
    if let Some(alive) = suspects.iter().find(|(.., attempt)| gone_at(attempt).is_none()) {
        return Verdict::Wait(holder(alive));
    }
    let proof = suspects
        .first()
        .and_then(|dead| Some(Proof { holder: holder(dead), gone_at: gone_at(dead.2)? }));
    proof.map_or(Verdict::Keep(Reason::Stranger), Verdict::Break)
}

/// Whether a lock of this host and time may be the attempt's. One that nobody claimed never ran
/// OpenTofu; one that succeeded has seen each of its commands free its lock; one that has not ended
/// may make locks until now.
fn may_have_made(attempt: &Attempt, host: &str, created: Timestamp) -> bool {
    let Some(claim) = attempt.claim.as_ref().filter(|claim| claim.host.as_deref() == Some(host))
    else {
        return false;
    };
    let from = claim.at.saturating_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN);
    let until = match &attempt.ended {
        None => Timestamp::MAX,
        Some(ended) if ended.outcome == Outcome::Succeeded => return false,
        Some(ended) => ended.at.saturating_add(CLOCK_SKEW).unwrap_or(Timestamp::MAX),
    };
    (from..=until).contains(&created)
}

/// How far outside the attempt's life a lock was made.
fn distance(attempt: &Attempt, created: Timestamp) -> Duration {
    let begin = attempt.claim.as_ref().map_or(attempt.launched_at, |claim| claim.at);
    let end = attempt.ended.as_ref().map_or(Timestamp::MAX, |ended| ended.at);
    let nearest = created.clamp(begin, end.max(begin));
    created.duration_since(nearest).unsigned_abs()
}

/// A lock that an attempt has met, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetLock {
    /// The lock's id.
    pub id: String,
    /// The attempt whose job must be proved dead first, if the lock is that one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Holder>,
    /// What the platform last said about that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// It was told to break the lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
}

/// Records a verdict on the open attempt of `asker`; while it waits, the launcher is to look at the
/// holder's job now. Returns whether anything has changed that must be written.
pub fn judged(asker: &mut Deployment, lock: &StateLock, verdict: &Verdict, now: Timestamp) -> bool {
    let Some(attempt) = asker.attempts.last_mut().filter(|attempt| attempt.ended.is_none()) else {
        return false;
    };
    let id = lock.id.clone();
    let before = attempt.lock.take();
    let said = before.as_ref().filter(|met| met.id == id).and_then(|met| met.said.clone());
    attempt.lock = match verdict {
        Verdict::Break(_) => Some(MetLock { id, waits_for: None, said: None, broken: true }),
        Verdict::Wait(holder) => {
            Some(MetLock { id, waits_for: Some(*holder), said, broken: false })
        }
        Verdict::Keep(_) => None,
    };
    if let Verdict::Wait(holder) = verdict {
        asker.message = waiting(*holder);
        asker.due_at = Some(now);
        return true;
    }
    let changed = attempt.lock != before;
    if changed {
        asker.message.clear();
    }
    changed
}

/// What a deployment waits for whose lock is not to be broken yet.
pub fn waiting(holder: Holder) -> String {
    format!("{holder} has left the state locked; waiting for the proof that its job is gone")
}

/// Whose job the launcher must look at for the sake of `deployment`, if it is due.
pub fn awaited(deployment: &Deployment, now: Timestamp) -> Option<Holder> {
    let met = deployment.open_attempt()?.lock.as_ref()?;
    met.waits_for.filter(|_| deployment.due_at.is_some_and(|due| due <= now))
}

/// The launcher has looked: the holder's job is proved dead, or the platform said something else.
/// It looks again when the attempt asks again.
pub fn looked(deployment: &mut Deployment, said: Option<String>, next_look: Timestamp) {
    let attempt = deployment.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
    let Some(met) = attempt.and_then(|attempt| attempt.lock.as_mut()) else { return };
    if said.is_none() {
        met.waits_for = None;
    }
    met.said = said;
    deployment.due_at = Some(next_look);
}

#[cfg(test)]
#[path = "state_lock_tests.rs"]
mod tests;
