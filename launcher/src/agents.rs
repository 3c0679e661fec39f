//! Jobs that agents launch. The launcher writes the desired state of each job into the table, and
//! the agents poll for it.
//!
//! The launcher never calls an agent. See docs/decisions/0030.

mod assignment;
mod candidates;
mod dispatcher;
mod local_or_agent;
mod offers;

pub use local_or_agent::LocalOrAgent;

use canyon_dispatch::{Dispatcher, Platform, Target};
use canyon_domain::agent::Agent;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ids::{AgentId, OrgUuid};
use canyon_domain::ports::Clock;
use canyon_domain::runner::{LaunchedBy, RunnerType};
use canyon_store::Table;
use dispatcher::AgentDispatcher;
use jiff::SignedDuration;
use offers::Offers;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// How long the launcher caches an organization's agents. It is short compared with the lease of an
/// agent's session.
const AGENTS_CACHE_LIFETIME: SignedDuration = SignedDuration::from_secs(1);
/// The most organizations whose agents or limits the launcher caches.
pub(crate) const MAX_CACHED_ORGANIZATIONS: usize = 1_000;

/// Notifies an agent that there may be work for it.
pub type Hint = Arc<dyn Fn(OrgUuid, &AgentId) + Send + Sync>;

/// The platform of jobs that agents launch.
#[derive(Clone)]
pub struct AgentPlatform {
    table: Table,
    clock: Arc<dyn Clock>,
    hint: Hint,
    known: Arc<ExpiringCache<OrgUuid, Arc<[Agent]>>>,
    offers: Arc<Offers>,
    /// Runner image for the Jobs of remote runners, if the runner names none.
    image: Option<String>,
}

impl fmt::Debug for AgentPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentPlatform")
    }
}

impl AgentPlatform {
    /// Creates the platform over `table`. The platform calls `hint` after each write that an agent
    /// should see. `image` is the runner image of jobs whose runner names none.
    pub fn new(table: &Table, clock: &Arc<dyn Clock>, hint: Hint, image: Option<&str>) -> Self {
        Self {
            table: table.clone(),
            clock: clock.clone(),
            hint,
            known: Arc::new(ExpiringCache::new(AGENTS_CACHE_LIFETIME, MAX_CACHED_ORGANIZATIONS)),
            offers: Arc::default(),
            image: image.map(str::to_owned),
        }
    }
}

impl Platform for AgentPlatform {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        let (platform, target) = (self.clone(), target.clone());
        Arc::new(AgentDispatcher { platform, target, only_observes: false })
    }

    fn watcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        let (platform, target) = (self.clone(), target.clone());
        Arc::new(AgentDispatcher { platform, target, only_observes: true })
    }
}

/// The platforms of all runner types whose jobs agents launch. `here` launches the jobs of type
/// `local` that need no agent.
pub fn platforms(
    table: &Table,
    clock: &Arc<dyn Clock>,
    hint: Hint,
    image: Option<&str>,
    here: Option<Arc<dyn Platform>>,
) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let agents = AgentPlatform::new(table, clock, hint, image);
    let local = Arc::new(LocalOrAgent { agents: agents.clone(), here });
    let platform = |kind: &RunnerType| -> Option<Arc<dyn Platform>> {
        match kind.launched_by() {
            LaunchedBy::Canyon => None,
            LaunchedBy::Agent => Some(Arc::new(agents.clone())),
            LaunchedBy::CanyonOrAgent => Some(local.clone()),
        }
    };
    RunnerType::ALL.iter().filter_map(|kind| Some((*kind, platform(kind)?))).collect()
}
