//! A short-lived cache of one process about agents and their runners, so that an idle agent costs few reads.

use super::App;
use super::join_allowances::JoinAllowances;
use crate::agent_hints::AgentHints;
use canyon_api::agent::JobKey;
use canyon_domain::agent::{Adoption, Agent};
use canyon_domain::agent_job::DesiredState;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ids::{AgentId, OrgId, OrgUuid, RunnerId, RunnerUuid};
use canyon_domain::runner::agents::{AgentSettings, AgentTarget, ProfileName};
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_identity::agent_key::AgentKey;
use canyon_store::StoreError;
use canyon_store::runner_profiles::ProfileAgents;
use canyon_store::runners::RunnerRecord;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How long a cached list of runners or runner profiles is used without a new read.
const RUNNERS_LIFE: SignedDuration = SignedDuration::from_secs(5);
/// How long the cached UUID of an organization's name is used without a new read.
const NAMES_LIFE: SignedDuration = SignedDuration::from_mins(1);
/// If an agent has not acted on a notification, it receives the notification again after this time: the first answer
/// may have been lost. An immediate repetition would come before the agent can act.
const REPEAT_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// The most cached entries of each kind.
const MAX_ENTRIES: usize = 10_000;

/// A runner whose jobs agents launch.
#[derive(Clone, Debug)]
pub(crate) struct ServedRunner {
    pub(crate) id: RunnerId,
    pub(crate) uuid: RunnerUuid,
    pub(crate) kind: RunnerType,
    /// Which agents may launch its jobs; `None` for agents that name this runner themselves.
    pub(crate) target: Option<AgentTarget>,
    /// The profile that it names. A profile may select agents for each job, so each job's own target decides.
    pub(crate) profile: Option<ProfileName>,
    /// The public key whose holder is adopted at once as an agent of this runner.
    pub(crate) key: Option<AgentKey>,
    /// Canyon itself launches its jobs, except those for which a deployment chooses an agent.
    is_direct: bool,
}

impl ServedRunner {
    fn of(record: &RunnerRecord) -> Option<Self> {
        let value = serde_json::from_str(&record.definition).ok()?;
        let definition = RunnerDefinition::parse_stored(value).ok()?;
        if !definition.may_have_agent() {
            return None;
        }
        let settings = definition.configuration.agent_settings().cloned();
        let is_direct = settings.is_none();
        let AgentSettings { key, agents: target, profile } = settings.unwrap_or_default();
        let key = key.as_deref().and_then(|key| AgentKey::from_pem(key).ok());
        let (id, uuid) = (record.id.clone(), record.uuid);
        let kind = definition.runner_type();
        Some(Self { id, uuid, kind, target, profile, key, is_direct })
    }
}

/// A notification that an agent received in a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Notification {
    pub(crate) org: OrgUuid,
    pub(crate) agent: AgentId,
    pub(crate) session: u64,
    pub(crate) job: JobKey,
    pub(crate) kind: NotificationKind,
}

/// What a notification says about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NotificationKind {
    Offer,
    Held,
    DesiredState(DesiredState),
    Tail(u64),
}

/// A cached query: the runners of an organization, or only the named one.
type RunnerQuery = (OrgUuid, Option<RunnerId>);

#[derive(Debug)]
struct Caches {
    runners: ExpiringCache<RunnerQuery, Arc<[ServedRunner]>>,
    profiles: ExpiringCache<OrgUuid, Arc<[ProfileAgents]>>,
    names: ExpiringCache<OrgId, OrgUuid>,
    notifications: ExpiringCache<Notification, ()>,
    joins: JoinAllowances,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            runners: ExpiringCache::new(RUNNERS_LIFE, MAX_ENTRIES),
            profiles: ExpiringCache::new(RUNNERS_LIFE, MAX_ENTRIES),
            names: ExpiringCache::new(NAMES_LIFE, MAX_ENTRIES),
            notifications: ExpiringCache::new(REPEAT_INTERVAL, MAX_ENTRIES),
            joins: JoinAllowances::default(),
        }
    }
}

/// The interval between two reads for a waiting agent, if other processes write and send no hints.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The same interval if only this process writes: it is for changes that send no hint. A rejection by an
/// administrator must take effect within 5 s.
const READ_INTERVAL_HINTED: Duration = Duration::from_secs(2);

/// The state that the agents' requests share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentRegistry {
    /// Wakes the waiting requests of agents.
    pub hints: AgentHints,
    /// How long an idle agent pauses between two requests. If it is not zero, idle requests are answered at once.
    pub pause: Duration,
    /// The interval between two reads for a waiting agent.
    pub(crate) read_interval: Duration,
    caches: Arc<Caches>,
}

impl Default for AgentRegistry {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl AgentRegistry {
    /// Asks idle agents to wait for `pause` between two requests.
    pub fn new(pause: Duration) -> Self {
        Self {
            hints: AgentHints::default(),
            pause,
            read_interval: READ_INTERVAL,
            caches: Arc::default(),
        }
    }

    /// For a process that makes all writes itself: its hints announce every change.
    pub fn with_complete_hints() -> Self {
        Self { read_interval: READ_INTERVAL_HINTED, ..Self::default() }
    }

    /// How many agents may join without a count of all of them.
    pub(super) fn joins(&self) -> &JoinAllowances {
        &self.caches.joins
    }

    /// Whether the agent did not receive this notification in the last [`REPEAT_INTERVAL`].
    pub(crate) fn is_new(&self, notification: &Notification, now: Timestamp) -> bool {
        self.caches.notifications.get(notification, now).is_none()
    }

    /// Remembers that the agent receives the notification now.
    pub(crate) fn remember(&self, notification: Notification, now: Timestamp) {
        self.caches.notifications.insert(notification, (), now);
    }
}

impl App {
    /// The UUID of the organization that a request path names, for agents that sign in by key.
    pub(crate) async fn organization_of_agents(
        &self,
        name: &OrgId,
    ) -> Result<Option<OrgUuid>, StoreError> {
        let (names, now) = (&self.agents.caches.names, self.now());
        if let Some(org) = names.get(name, now) {
            return Ok(Some(org));
        }
        let Some(found) = self.table.organization_named(name).await? else { return Ok(None) };
        names.insert(name.clone(), found.uuid, now);
        Ok(Some(found.uuid))
    }

    /// The runners whose jobs this agent may launch.
    pub(crate) async fn runners_of_agent(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<Vec<ServedRunner>, StoreError> {
        let found = self.served_runners(org, agent.runner.as_ref()).await?;
        let may = |runner: &&ServedRunner| {
            if agent.reserved || runner.is_direct {
                return agent.reserved && agent.may_serve_alone(&runner.id, runner.target.as_ref());
            }
            let its_own = agent.runner.as_ref().is_none_or(|own| *own == runner.id);
            let by_profile =
                runner.profile.is_some() && its_own && agent.adoption == Adoption::Adopted;
            by_profile || agent.may_serve(&runner.id, runner.target.as_ref())
        };
        Ok(found.iter().filter(may).cloned().collect())
    }

    /// The runners whose jobs agents launch, or only the named runner.
    pub(crate) async fn served_runners(
        &self,
        org: OrgUuid,
        only: Option<&RunnerId>,
    ) -> Result<Arc<[ServedRunner]>, StoreError> {
        let read = || async move {
            let found = match only {
                Some(id) => self.table.runner(org, id).await?.into_iter().collect(),
                None => self.table.all_runners(org).await?,
            };
            Ok(found.iter().filter_map(ServedRunner::of).collect())
        };
        let (runners, wanted) = (&self.agents.caches.runners, (org, only.cloned()));
        runners.get_or_read(wanted, self.now(), read).await
    }

    /// The agents that each runner profile names.
    pub(super) async fn agents_of_profiles(
        &self,
        org: OrgUuid,
    ) -> Result<Arc<[ProfileAgents]>, StoreError> {
        let read = || async move { Ok(self.table.agents_of_profiles(org).await?.into()) };
        self.agents.caches.profiles.get_or_read(org, self.now(), read).await
    }
}
