//! What one process remembers of agents for a moment, so that an idle one costs little.

use super::App;
use crate::agent_hints::AgentHints;
use canyon_api::agent::JobKey;
use canyon_domain::agent::{Adoption, Agent};
use canyon_domain::agent_job::Wish;
use canyon_domain::ids::{AgentId, OrgId, OrgUuid, RunnerId, RunnerUuid};
use canyon_domain::runner::agents::{AgentSettings, AgentTarget};
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_identity::agent_key::AgentKey;
use canyon_store::StoreError;
use canyon_store::runner_profiles::ProfileAgents;
use canyon_store::runners::RunnerRecord;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one process uses what it has read of runners and runner profiles.
const RUNNERS: SignedDuration = SignedDuration::from_secs(5);
/// How long the name of an organization is taken to be its own.
const NAMES: SignedDuration = SignedDuration::from_mins(1);
/// What was told to an agent is told again after this time, if it has not done it: the answer may have
/// been lost. Not at once, or its next request would be answered before it could.
const TOLD_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// The most that is remembered of each kind; beyond that all is forgotten.
const MAX: usize = 10_000;

/// A runner whose jobs agents launch.
#[derive(Clone, Debug)]
pub(crate) struct ServedRunner {
    pub(crate) id: RunnerId,
    pub(crate) uuid: RunnerUuid,
    pub(crate) kind: RunnerType,
    /// Which agents may; `None` for those that name it themselves.
    pub(crate) target: Option<AgentTarget>,
    /// A profile may say for each job which agents may, so that their own targets decide.
    pub(crate) has_profile: bool,
    /// Whose key makes an agent its own at once.
    pub(crate) key: Option<AgentKey>,
    /// Canyon itself launches its jobs, but for those that somebody has an agent launch.
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
        let (id, uuid, has_profile) = (record.id.clone(), record.uuid, profile.is_some());
        let kind = definition.runner_type();
        Some(Self { id, uuid, kind, target, has_profile, key, is_direct })
    }
}

/// What an agent was told in a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Told {
    pub(crate) org: OrgUuid,
    pub(crate) agent: AgentId,
    pub(crate) session: u64,
    pub(crate) job: JobKey,
    pub(crate) what: News,
}

/// What there is to tell of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    Offer,
    Held,
    Wish(Wish),
    Tail(u64),
}

type Kept<K, V> = Mutex<HashMap<K, (Timestamp, V)>>;
/// The runners of an organization, or one of them.
type Wanted = (OrgUuid, Option<RunnerId>);

#[derive(Debug, Default)]
struct Memory {
    runners: Kept<Wanted, Arc<[ServedRunner]>>,
    profiles: Kept<OrgUuid, Arc<[ProfileAgents]>>,
    names: Kept<OrgId, OrgUuid>,
    told: Kept<Told, ()>,
}

/// Between two looks of an agent that waits, where others write and nobody hints.
const LOOK: Duration = Duration::from_secs(1);
/// The same where this process alone writes: only for what no hint tells. What an administrator refuses is to hold
/// within 5 s.
const LOOK_HINTED: Duration = Duration::from_secs(2);

/// Where agents ask for work. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentDesk {
    /// Hints for those who wait.
    pub hints: AgentHints,
    /// How long an agent is asked to wait between two requests, where short requests are preferred to held ones.
    pub pause: Duration,
    /// Between two looks of one that waits.
    pub(crate) look: Duration,
    memory: Arc<Memory>,
}

fn known<K: Eq + Hash, V: Clone>(
    kept: &Kept<K, V>,
    key: &K,
    life: SignedDuration,
    now: Timestamp,
) -> Option<V> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let (since, value) = kept.get(key)?;
    (now.duration_since(*since) < life).then(|| value.clone())
}

fn keep<K: Eq + Hash, V>(kept: &Kept<K, V>, key: K, value: V, now: Timestamp) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MAX {
        kept.clear();
    }
    kept.insert(key, (now, value));
}

impl Default for AgentDesk {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl AgentDesk {
    /// One that asks idle agents to wait for `pause` between two requests.
    pub fn new(pause: Duration) -> Self {
        Self { hints: AgentHints::default(), pause, look: LOOK, memory: Arc::default() }
    }

    /// One whose hints tell of all that is written, because nobody else writes.
    pub fn hinted() -> Self {
        Self { look: LOOK_HINTED, ..Self::default() }
    }

    /// Whether this was not told a moment ago.
    pub(crate) fn is_news(&self, told: &Told, now: Timestamp) -> bool {
        known(&self.memory.told, told, TOLD_AGAIN, now).is_none()
    }

    /// Remembers what an agent is told now.
    pub(crate) fn tell(&self, told: Told, now: Timestamp) {
        keep(&self.memory.told, told, (), now);
    }
}

impl App {
    /// The organization that a path names, for agents that sign in by their key.
    pub(crate) async fn organization_of_agents(
        &self,
        name: &OrgId,
    ) -> Result<Option<OrgUuid>, StoreError> {
        let (names, now) = (&self.agents.memory.names, self.now());
        if let Some(org) = known(names, name, NAMES, now) {
            return Ok(Some(org));
        }
        let Some(found) = self.table.organization_named(name).await? else { return Ok(None) };
        keep(names, name.clone(), found.uuid, now);
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
            let by_profile = runner.has_profile && its_own && agent.adoption == Adoption::Adopted;
            by_profile || agent.may_serve(&runner.id, runner.target.as_ref())
        };
        Ok(found.iter().filter(may).cloned().collect())
    }

    /// The runners whose jobs agents launch, or only the one that is named.
    pub(crate) async fn served_runners(
        &self,
        org: OrgUuid,
        only: Option<&RunnerId>,
    ) -> Result<Arc<[ServedRunner]>, StoreError> {
        let (runners, now) = (&self.agents.memory.runners, self.now());
        let wanted = (org, only.cloned());
        if let Some(found) = known(runners, &wanted, RUNNERS, now) {
            return Ok(found);
        }
        let found: Arc<[ServedRunner]> = match only {
            Some(id) => {
                self.table.runner(org, id).await?.iter().filter_map(ServedRunner::of).collect()
            }
            None => {
                self.table.all_runners(org).await?.iter().filter_map(ServedRunner::of).collect()
            }
        };
        keep(runners, wanted, found.clone(), now);
        Ok(found)
    }

    /// Which agents each runner profile names.
    pub(super) async fn agents_of_profiles(
        &self,
        org: OrgUuid,
    ) -> Result<Arc<[ProfileAgents]>, StoreError> {
        let (profiles, now) = (&self.agents.memory.profiles, self.now());
        if let Some(found) = known(profiles, &org, RUNNERS, now) {
            return Ok(found);
        }
        let found: Arc<[ProfileAgents]> = self.table.agents_of_profiles(org).await?.into();
        keep(profiles, org, found.clone(), now);
        Ok(found)
    }
}
