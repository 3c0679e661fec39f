//! The places that a new attempt needs, where there are limits on how many run at once.

use crate::remembered::Remembered;
use crate::site::Site;
use crate::{LaunchError, Launcher};
use canyon_domain::concurrency::{ConcurrencyLimit, HeldPlace, LimitScope, Place};
use canyon_domain::deadline::HELD_CHECK;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_store::concurrency::Taking;
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;

/// How long the limits of an organization are taken to be what they were: so one without any pays for
/// one small read in that time.
const LIFE: SignedDuration = SignedDuration::from_secs(5);
/// A deployment that waits for a place looks again this much later.
const PLACE_CHECK: Duration = Duration::from_secs(5);

/// The limits of each organization, as they were a moment ago.
#[derive(Debug)]
pub struct KnownLimits(Remembered<ConcurrencyLimit>);

impl Default for KnownLimits {
    fn default() -> Self {
        Self(Remembered::for_a(LIFE))
    }
}

/// The places that an attempt needs.
pub(crate) enum Places {
    /// These, which are free.
    Free(Vec<Taking>),
    /// None is taken now.
    None {
        /// Why: they are not all to be had, or nobody would come for the job that holds them.
        reason: String,
        /// The limit whose places are all held, if that is why.
        limit: Option<LimitScope>,
        /// When to look again.
        pause: Duration,
    },
}

impl Launcher {
    /// Looks for a free place of each limit that covers the deployment. They are taken with the attempt: so not for one
    /// that would only wait, for an agent that is not there, and keep others from running meanwhile.
    pub(crate) async fn places(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        site: &Site,
    ) -> Result<Places, LaunchError> {
        let mut places = Vec::new();
        for limit in
            self.limits_of(org).await?.iter().filter(|limit| limit.scope.covers(deployment))
        {
            let held = self.table.held_places(org, &limit.scope).await?;
            // Those who ask at once ask for different places, so that few of them lose a race.
            let hint = self.entropy.id(self.clock.now()).as_u64_pair().1;
            if let Some(place) = limit.free_place(&held, hint) {
                places.push(Taking { place, instead_of: None });
            } else if let Some(taking) = self.abandoned(org, limit, &held, hint).await? {
                places.push(taking);
            } else {
                let (reason, limit) = (limit.why_waiting(), Some(limit.scope.clone()));
                return Ok(Places::None { reason, limit, pause: PLACE_CHECK });
            }
        }
        if !places.is_empty()
            && let Some(reason) = site.absence().await
        {
            return Ok(Places::None { reason, limit: None, pause: HELD_CHECK });
        }
        Ok(Places::Free(places))
    }

    /// A place whose holder is no open attempt. There should be none, so it is told.
    async fn abandoned(
        &self,
        org: OrgUuid,
        limit: &ConcurrencyLimit,
        held: &[HeldPlace],
        hint: u64,
    ) -> Result<Option<Taking>, LaunchError> {
        // After a limit was lowered, more may be held than there are.
        if usize::try_from(limit.max_jobs).is_ok_and(|max| held.len() > max) {
            return Ok(None);
        }
        for place in limit.asked_after(held, hint) {
            let holder = place.holder;
            let deployment = self.table.deployment(org, holder.deployment).await?;
            if !holder.is_open(deployment.as_ref()) {
                tracing::warn!(deployment = %holder.deployment, scope = %limit.scope, "a place was not given back");
                let place = Place { scope: limit.scope.clone(), number: place.number };
                return Ok(Some(Taking { place, instead_of: Some(holder) }));
            }
        }
        Ok(None)
    }

    async fn limits_of(&self, org: OrgUuid) -> Result<Arc<[ConcurrencyLimit]>, LaunchError> {
        let read = async {
            let mut limits = self.table.all_limits(org).await?;
            // The organization's last: who waits hears of the narrower one.
            limits.sort_by_key(|limit| matches!(limit.scope, LimitScope::Organization));
            Ok(limits)
        };
        self.limits.0.of(org, self.clock.now(), read).await
    }
}
