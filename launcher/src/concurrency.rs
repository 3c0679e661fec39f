//! The concurrency slots that a new attempt needs, where limits apply to concurrent attempts.

use crate::agents::MAX_CACHED_ORGANIZATIONS;
use crate::resolved_runner::ResolvedRunner;
use crate::{LaunchError, Launcher};
use canyon_dispatch::AgentNeed;
use canyon_domain::concurrency::{ConcurrencyLimit, ConcurrencySlot, HeldSlot, LimitScope};
use canyon_domain::deadline::DEFERRED_CHECK_INTERVAL;
use canyon_domain::deployment::Deployment;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ids::{DeploymentId, OrgUuid, RunnerId};
use canyon_domain::waiting::Hold;
use canyon_store::concurrency::SlotClaim;
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;

/// How long the launcher caches the limits of an organization. An organization without limits costs
/// one small read in that time.
const LIMITS_CACHE_LIFETIME: SignedDuration = SignedDuration::from_secs(5);
/// How long a deployment that waits for a slot waits before the launcher tries again.
pub(crate) const SLOT_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The same, if the launcher stops a check for drift that holds a slot.
const FREED_SLOT_PAUSE: Duration = Duration::from_secs(1);

/// The cached limits of each organization.
#[derive(Debug)]
pub struct KnownLimits(ExpiringCache<OrgUuid, Arc<[ConcurrencyLimit]>>);

impl Default for KnownLimits {
    fn default() -> Self {
        Self(ExpiringCache::new(LIMITS_CACHE_LIFETIME, MAX_CACHED_ORGANIZATIONS))
    }
}

/// The slots that an attempt needs.
pub(crate) enum ConcurrencySlots {
    /// All of them are free.
    Free(Vec<SlotClaim>),
    /// The attempt cannot have them now.
    None {
        /// Why: a limit whose slots are all held, or no agent would take the job.
        hold: Hold,
        /// The same, for people.
        reason: String,
        /// How long to wait before the next try.
        pause: Duration,
        /// A check for drift that is to give its slot to this attempt.
        check: Option<DeploymentId>,
    },
}

impl Launcher {
    /// Finds a free slot of each limit that covers the deployment. The write of the attempt takes
    /// them. An attempt that would only wait for an absent agent gets none, so that it does not
    /// block others.
    pub(crate) async fn concurrency_slots(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        resolved: &ResolvedRunner,
    ) -> Result<ConcurrencySlots, LaunchError> {
        let mut slots = Vec::new();
        let is_check = !deployment.mode.takes_turn();
        for limit in self.limits_for(org, deployment).await? {
            let held = self.table.held_slots(org, &limit.scope).await?;
            let most = if is_check { limit.leaving_one() } else { limit.clone() };
            let Some(slot) = self.free_slot(org, &most, &held).await? else {
                let of_check = held.iter().find(|slot| slot.of_check && !is_check);
                let check = of_check.map(|slot| slot.holder.deployment);
                let reason =
                    if is_check { limit.waiting_reason_of_check() } else { limit.waiting_reason() };
                return Ok(ConcurrencySlots::None {
                    hold: Hold::Limit(limit.scope.clone()),
                    reason,
                    pause: if check.is_some() { FREED_SLOT_PAUSE } else { SLOT_RETRY_PAUSE },
                    check,
                });
            };
            slots.push(slot);
        }
        if !slots.is_empty()
            && let Some(reason) = resolved.no_agent_reason(AgentNeed::Presence).await
        {
            return Ok(ConcurrencySlots::None {
                hold: Hold::Agent,
                reason,
                pause: DEFERRED_CHECK_INTERVAL,
                check: None,
            });
        }
        Ok(ConcurrencySlots::Free(slots))
    }

    /// Why `runner` runs as many jobs as its concurrency limit allows; `None` if it has no limit or a free slot.
    pub(crate) async fn limit_reason(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
    ) -> Result<Option<String>, LaunchError> {
        let scope = LimitScope::Runner(runner.clone());
        let limits = self.limits_of(org).await?;
        let Some(limit) = limits.iter().find(|limit| limit.scope == scope) else { return Ok(None) };
        let held = self.table.held_slots(org, &limit.scope).await?;
        let is_full = self.free_slot(org, limit, &held).await?.is_none();
        Ok(is_full.then(|| limit.waiting_reason()))
    }

    async fn free_slot(
        &self,
        org: OrgUuid,
        limit: &ConcurrencyLimit,
        held: &[HeldSlot],
    ) -> Result<Option<SlotClaim>, LaunchError> {
        // Concurrent callers choose different slots, so that few of them lose a race.
        let hint = self.entropy.id(self.clock.now()).as_u64_pair().1;
        match limit.free_slot(held, hint) {
            Some(slot) => Ok(Some(SlotClaim { slot, former_holder: None })),
            None => self.orphaned_slot(org, limit, held, hint).await,
        }
    }

    /// A slot whose holder is not an open attempt. There should be none, so the launcher logs it.
    async fn orphaned_slot(
        &self,
        org: OrgUuid,
        limit: &ConcurrencyLimit,
        held: &[HeldSlot],
        hint: u64,
    ) -> Result<Option<SlotClaim>, LaunchError> {
        // After a limit was lowered, more slots may be held than exist.
        if usize::try_from(limit.max_jobs).is_ok_and(|max| held.len() > max) {
            return Ok(None);
        }
        for slot in limit.slots_to_check(held, hint) {
            let holder = slot.holder;
            let deployment = self.table.deployment(org, holder.deployment).await?;
            if !holder.is_open(deployment.as_ref()) {
                tracing::warn!(deployment = %holder.deployment, scope = %limit.scope, "reclaims a concurrency slot that its attempt did not release");
                let slot = ConcurrencySlot { scope: limit.scope.clone(), number: slot.number };
                return Ok(Some(SlotClaim { slot, former_holder: Some(holder) }));
            }
        }
        Ok(None)
    }

    /// The limits that cover the deployment.
    async fn limits_for(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Result<Vec<ConcurrencyLimit>, LaunchError> {
        let limits = self.limits_of(org).await?;
        let covering = limits.iter().filter(|limit| limit.scope.covers(deployment));
        let mut limits: Vec<_> = covering.cloned().collect();
        if deployment.mode.takes_turn() {
            return Ok(limits);
        }
        let of_checks = ConcurrencyLimit::of_checks(deployment.runner.clone());
        if limits.iter().all(|limit| limit.scope != of_checks.scope) {
            limits.push(of_checks);
        }
        Ok(limits)
    }

    async fn limits_of(&self, org: OrgUuid) -> Result<Arc<[ConcurrencyLimit]>, LaunchError> {
        let read = || async move {
            let mut limits = self.table.all_limits(org).await?;
            // The organization's limit last: the reason to wait then names the narrower limit.
            limits.sort_by_key(|limit| matches!(limit.scope, LimitScope::Organization));
            Ok(limits.into())
        };
        self.limits.0.get_or_read(org, self.clock.now(), read).await
    }
}
