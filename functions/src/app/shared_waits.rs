//! How long requests may wait where each of them keeps a whole execution of a function busy.
//!
//! Canyon counts waits in seconds, in the table, because no function knows of the requests that others hold. A caller whose
//! seconds are used up is answered early and asks again; the answer tells an agent after which pause. So the waits of one
//! caller, or of one organization, cannot take the executions that every other request needs.

use super::App;
use crate::waits::WaitOwner;
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::Principal;
use canyon_store::StoreError;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use std::time::{Duration, Instant};

/// As much as 50 requests wait that all wait without end: 25 deployments that `canyon deploy` follows.
const OF_A_CALLER: RateLimit = waiting_always(50);
/// The same for all callers of an organization.
const OF_AN_ORGANIZATION: RateLimit = waiting_always(200);
/// The same for its agents and the programs that poll for its runners. Users and agents do not take each other's seconds.
const OF_ITS_AGENTS: RateLimit = waiting_always(100);
/// The pause of an agent whose request could not wait, before it asks again.
pub(crate) const THROTTLED_PAUSE: Duration = Duration::from_secs(5);
/// The longest wait, in seconds.
const LONGEST: u32 = 25;
/// Seconds that are given back when they were not needed. Fewer are not worth the write.
const WORTH_GIVING_BACK: u32 = 5;

const fn waiting_always(requests: u32) -> RateLimit {
    RateLimit {
        burst: requests * LONGEST,
        interval: Duration::from_micros(1_000_000 / requests as u64),
    }
}

/// What a wait has taken.
#[derive(Debug)]
struct Grant {
    names: [(String, RateLimit); 2],
    seconds: u32,
}

impl App {
    /// Calls `wait` with the time that it may take: `wanted`, less if the caller's token expires before, or none if the caller
    /// has waited too much of late.
    ///
    /// # Errors
    ///
    /// What `wait` fails with, and [`StoreError`] when the table cannot be read or written.
    pub(crate) async fn bounded_wait<T, E: From<StoreError>>(
        &self,
        by: &Principal,
        wanted: Duration,
        wait: impl AsyncFnOnce(Duration) -> Result<T, E>,
    ) -> Result<T, E> {
        let wanted = by.sign_in.bounded(wanted, self.now());
        let own = format!("waits#{}#{}", by.org, WaitOwner::Principal(by.id));
        let names = [(own, OF_A_CALLER), (format!("waits#{}", by.org), OF_AN_ORGANIZATION)];
        self.counted_wait(names, wanted, wait).await
    }

    /// The same for an agent, or for a program that polls for a runner.
    ///
    /// # Errors
    ///
    /// As [`Self::bounded_wait`].
    pub(crate) async fn bounded_agent_wait<T, E: From<StoreError>>(
        &self,
        org: OrgUuid,
        whose: WaitOwner,
        wanted: Duration,
        wait: impl AsyncFnOnce(Duration) -> Result<T, E>,
    ) -> Result<T, E> {
        let own = format!("waits#{org}#{whose}");
        let names = [(own, OF_A_CALLER), (format!("waits#{org}#agents"), OF_ITS_AGENTS)];
        let placed = async |wanted| self.changes.with_agent_slot(whose, wanted, wait).await;
        self.counted_wait(names, wanted, placed).await
    }

    async fn counted_wait<T, E: From<StoreError>>(
        &self,
        names: [(String, RateLimit); 2],
        wanted: Duration,
        wait: impl AsyncFnOnce(Duration) -> Result<T, E>,
    ) -> Result<T, E> {
        let seconds = u32::try_from(wanted.as_secs()).unwrap_or(LONGEST).min(LONGEST);
        if !self.changes.shares_waits() || seconds == 0 {
            return wait(wanted).await;
        }
        let Some(grant) = self.grant(names, seconds).await? else {
            return wait(Duration::ZERO).await;
        };
        let since = Instant::now();
        let answer = wait(wanted).await;
        self.give_back(&grant, since.elapsed()).await?;
        answer
    }

    async fn grant(
        &self,
        names: [(String, RateLimit); 2],
        seconds: u32,
    ) -> Result<Option<Grant>, StoreError> {
        for (place, (name, allowance)) in names.iter().enumerate() {
            let allowed = self.table.allow_units(name, *allowance, seconds, self.now()).await?;
            if let Decision::RetryAfter(_) = allowed {
                for (name, allowance) in &names[..place] {
                    self.table.return_units(name, *allowance, seconds, self.now()).await?;
                }
                return Ok(None);
            }
        }
        Ok(Some(Grant { names, seconds }))
    }

    async fn give_back(&self, grant: &Grant, used: Duration) -> Result<(), StoreError> {
        let used = u32::try_from(used.as_secs() + 1).unwrap_or(u32::MAX);
        let left = grant.seconds.saturating_sub(used);
        if left < WORTH_GIVING_BACK {
            return Ok(());
        }
        for (name, allowance) in &grant.names {
            self.table.return_units(name, *allowance, left, self.now()).await?;
        }
        Ok(())
    }
}
