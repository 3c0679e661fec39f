//! Polls of agents for work.

use super::App;
use super::agent_proofs::AgentCaller;
use super::agent_registry::{Notification, NotificationKind};
use super::shared_waits::THROTTLED_PAUSE;
use crate::app::error::AppError;
use crate::waits::WaitOwner;
use canyon_api::agent::{
    HeldJob, JobDesiredState, JobKey, MAX_WAIT_SECONDS, Poll, TailRequest, Work,
};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, OFFER_TIMEOUT};
use canyon_domain::ids::{AgentId, OrgUuid, RunnerUuid};
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The most entries of each kind in one answer.
const MAX_ENTRIES: usize = 100;
/// The most pages of 100 that one poll reads: of the jobs that the agent holds, and of each runner's open jobs.
const MAX_PAGES: u32 = 10;

/// Agents that one poll has read, each once; `None` for an agent that no longer exists.
type ReadAgents = HashMap<AgentId, Option<Agent>>;

/// Sorts the jobs of several runners as the index does: by priority, then by age.
fn sort(jobs: &mut [AgentJob]) {
    jobs.sort_by_key(|job| (Reverse(job.priority), job.deployment, job.attempt));
}

/// The number of further jobs that the agent accepts now.
fn room(agent: &Agent, now: Timestamp) -> usize {
    let takes = agent.live_session(now).filter(|session| !agent.disabled && !session.draining);
    let room = takes.map_or(0, |session| session.concurrency.saturating_sub(session.running));
    usize::try_from(room).unwrap_or(usize::MAX).min(MAX_ENTRIES)
}

/// The key that identifies the job to its agent.
pub(crate) fn key_of(job: &AgentJob) -> JobKey {
    JobKey { runner: job.runner, deployment: job.deployment, attempt: job.attempt }
}

pub(crate) fn held(job: &AgentJob) -> HeldJob {
    HeldJob {
        job: key_of(job),
        spec: job.spec.clone(),
        handle: job.reported.as_ref().and_then(|seen| seen.handle.clone()),
        desired: job.desired,
    }
}

/// The owner of an agent's waits: its token, the key of its runner, or the agent itself.
fn wait_owner(caller: &AgentCaller, agent: &Agent) -> WaitOwner {
    match (caller.principal(), &agent.runner) {
        (Some(principal), _) => WaitOwner::Principal(principal.id),
        (None, Some(runner)) if agent.by_runner_key => {
            WaitOwner::Runner(caller.org, runner.clone())
        }
        (None, _) => WaitOwner::Agent(caller.org, agent.id.clone()),
    }
}

impl App {
    /// The work for an agent, as soon as there is any; an empty answer after the time that the agent waits.
    /// If too many requests of its token or organization wait, the answer comes early and contains a pause.
    pub(crate) async fn poll(
        &self,
        caller: &AgentCaller,
        number: u64,
        poll: &Poll,
    ) -> Result<Work, AppError> {
        // Subscribe before the first read, so that no hint is missed.
        let waiter = self.agents.hints.listen(caller.org, &caller.agent);
        let mut agent = self.record_heartbeat(caller, number, poll).await?;
        let whose = wait_owner(caller, &agent);
        let idle = agent.session.as_ref().is_some_and(|session| session.is_idle(self.now()));
        // A waiting request occupies a function. So an idle agent is answered at once, and asks again after the pause.
        let pause = if idle { self.agents.pause } else { Duration::ZERO };
        let wait = if pause.is_zero() { poll.wait_seconds.min(MAX_WAIT_SECONDS) } else { 0 };
        let wanted = Duration::from_secs(wait.into());
        let wanted = caller.principal().map_or(wanted, |by| by.sign_in.bounded(wanted, self.now()));
        let waiting = async |longest: Duration| {
            let pause = if longest < wanted { pause.max(THROTTLED_PAUSE) } else { pause };
            let end = Instant::now() + longest;
            loop {
                let (mut work, notifications) = self.find_work(caller.org, &agent).await?;
                let now = Instant::now();
                if !notifications.is_empty() || now >= end {
                    if idle && !work.tails.is_empty() {
                        // The launcher reads output piece by piece, and asks for the next one at each answer.
                        self.record_request(caller.org, &agent).await?;
                    }
                    if notifications.is_empty() {
                        work.pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    }
                    for notification in notifications {
                        self.agents.remember(notification, self.now());
                    }
                    return Ok(work);
                }
                waiter.wait(self.agents.read_interval.min(end - now)).await;
                agent = self.agent_in_session(caller, number).await?;
            }
        };
        self.bounded_agent_wait(caller.org, whose, wanted, waiting).await
    }

    pub(super) async fn record_heartbeat(
        &self,
        caller: &AgentCaller,
        number: u64,
        poll: &Poll,
    ) -> Result<Agent, AppError> {
        for _ in 0..MAX_TRIES {
            let mut agent = self.agent_in_session(caller, number).await?;
            let now = self.now();
            if let Some(session) = &mut agent.session {
                session.last_seen = now;
                session.running = poll.running;
                session.draining = poll.draining;
                if poll.last_error.is_some() {
                    session.last_error.clone_from(&poll.last_error);
                }
            }
            agent.version += 1;
            if self.table.save_agent(caller.org, &agent).await? == Saved::Yes {
                return Ok(agent);
            }
        }
        Err(AppError::contended(&caller.agent))
    }

    /// The work for an agent, and those of its notifications that the agent did not receive recently.
    async fn find_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Work, Vec<Notification>), AppError> {
        let mut found = FoundWork::new(org, agent);
        // Recently notified jobs come last, so that a job that the agent cannot handle does not hide others.
        let (new, recent) = self.held_work(org, agent).await?;
        for job in new.iter().chain(&recent) {
            found.add_taken(job);
        }
        if room(agent, self.now()) > 0 {
            let (mut open, mut known) = (Vec::new(), ReadAgents::new());
            for runner in self.runners_of_agent(org, agent).await? {
                open.extend(self.open_work(org, agent, runner.uuid, &mut known).await?);
            }
            sort(&mut open);
            self.add_offers(org, agent, open, &mut known, &mut found).await?;
        }
        let now = self.now();
        let notifications = found
            .notifications
            .into_iter()
            .filter(|notification| self.agents.is_new(notification, now))
            .collect();
        Ok((found.work, notifications))
    }

    /// The jobs of a runner that need this agent's attention: those that its session holds, and those that no agent
    /// has taken.
    pub(super) async fn work_of_runner(
        &self,
        org: OrgUuid,
        agent: &Agent,
        runner: RunnerUuid,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let (mut work, recent) = self.held_work(org, agent).await?;
        work.extend(recent);
        work.retain(|job| job.runner == runner);
        if room(agent, self.now()) > 0 {
            work.extend(self.open_work(org, agent, runner, &mut ReadAgents::new()).await?);
        }
        sort(&mut work);
        Ok(work)
    }

    /// The jobs that this session holds and that need its attention, even if the agent no longer serves their runners.
    /// The first list has new notifications; the agent received those of the second list recently.
    async fn held_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Vec<AgentJob>, Vec<AgentJob>), StoreError> {
        let (mut new, mut recent) = (Vec::new(), Vec::new());
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.table.agent_work_of(org, &agent.id, after.as_ref()).await?;
            let now = self.now();
            for mut job in page.items {
                if !job.needs_agent() || !self.holds_or_reassigns(org, agent, &mut job).await? {
                    continue;
                }
                let key = key_of(&job);
                let is_new = |kind| self.agents.is_new(&notification(org, agent, key, kind), now);
                let list = if notifications_of(&job).any(is_new) { &mut new } else { &mut recent };
                list.push(job);
            }
            after = page.next;
            if after.is_none() || new.len() >= MAX_ENTRIES {
                break;
            }
        }
        Ok((new, recent))
    }

    /// Whether this session holds the job. A job that an earlier session of the agent took is reassigned to this one:
    /// the answer to the session start left it out, because the agent has served another runner since.
    async fn holds_or_reassigns(
        &self,
        org: OrgUuid,
        agent: &Agent,
        job: &mut AgentJob,
    ) -> Result<bool, StoreError> {
        if job.check_holder(agent).is_ok() {
            return Ok(true);
        }
        let now = self.now();
        if !job.reassign(&[], Some(agent), now) {
            return Ok(false);
        }
        job.version += 1;
        Ok(self.table.save_agent_job(org, job, now).await? == Saved::Yes)
    }

    /// The jobs of a runner that no agent has taken and that this agent may take, except those that are offered to
    /// another agent now. Reads on past those, so that they do not hide other jobs.
    async fn open_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
        runner: RunnerUuid,
        known: &mut ReadAgents,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let mut open = Vec::new();
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.table.agent_work(org, runner, after.as_ref()).await?;
            for job in page.items {
                if !job.is_for(agent) || !job.needs_agent() {
                    continue;
                }
                let other = self.offered_to(org, &job, known).await?;
                if !is_of_another(&job, agent, other.as_slice(), self.now()) {
                    open.push(job);
                }
            }
            after = page.next;
            if after.is_none() || open.len() >= MAX_ENTRIES {
                break;
            }
        }
        Ok(open)
    }

    /// The agent that a job is offered to, if that agent exists.
    async fn offered_to(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        known: &mut ReadAgents,
    ) -> Result<Option<Agent>, StoreError> {
        let Some(offer) = &job.offer else { return Ok(None) };
        if let Some(agent) = known.get(&offer.agent) {
            return Ok(agent.clone());
        }
        let found = self.table.agent(org, &offer.agent).await?;
        known.insert(offer.agent.clone(), found.clone());
        Ok(found)
    }

    /// Adds the jobs that are offered to the agent. While it has room, offers it jobs without a valid offer.
    async fn add_offers(
        &self,
        org: OrgUuid,
        agent: &Agent,
        open: Vec<AgentJob>,
        known: &mut ReadAgents,
        found: &mut FoundWork<'_>,
    ) -> Result<(), AppError> {
        let now = self.now();
        let Some(session) = agent.live_session(now) else { return Ok(()) };
        let room = room(agent, now);
        let mut had_turn = false;
        for mut job in open {
            if found.work.offers.len() >= room {
                break;
            }
            let own = job.offer.as_ref().filter(|offer| {
                offer.agent == agent.id && offer.session == session.number && now < offer.until
            });
            if let Some(offer) = own {
                // The launcher made this offer, and the launcher does not update `offered_at`.
                had_turn |= session.offered_at.is_none_or(|at| at < offer.until - OFFER_TIMEOUT);
                found.add(key_of(&job), NotificationKind::Offer);
                continue;
            }
            if !agent.has_room_for(&job, now) {
                continue;
            }
            let holder = self.offered_to(org, &job, known).await?;
            if !job.offer(agent, holder.as_slice(), now) {
                continue;
            }
            job.version += 1;
            if self.table.save_agent_job(org, &job, now).await? == Saved::Yes {
                had_turn = true;
                found.add(key_of(&job), NotificationKind::Offer);
            }
        }
        if had_turn {
            self.record_request(org, agent).await?;
        }
        Ok(())
    }

    /// Records that Canyon asked something of the agent now, so that it does not count as idle. If the agent was changed
    /// concurrently, the write is skipped.
    async fn record_request(&self, org: OrgUuid, agent: &Agent) -> Result<(), AppError> {
        let mut agent = agent.clone();
        if let Some(session) = &mut agent.session {
            session.offered_at = Some(self.now());
        }
        agent.version += 1;
        self.table.save_agent(org, &agent).await?;
        Ok(())
    }
}

/// Whether a job is offered to another agent now. `other` is the agent that holds the offer, if it exists.
fn is_of_another(job: &AgentJob, agent: &Agent, other: &[Agent], now: Timestamp) -> bool {
    let is_offered = job.offer.as_ref().is_some_and(|offer| offer.agent != agent.id);
    is_offered && !job.clone().offer(agent, other, now)
}

fn notification(org: OrgUuid, agent: &Agent, job: JobKey, kind: NotificationKind) -> Notification {
    Notification { org, agent: agent.id.clone(), session: agent.sessions, job, kind }
}

/// The notifications about a job for the agent that has taken it.
fn notifications_of(job: &AgentJob) -> impl Iterator<Item = NotificationKind> {
    let is_new = job.holder.as_ref().is_some_and(|taken| taken.reassigned);
    let desired =
        (job.desired > job.applied).then_some(NotificationKind::DesiredState(job.desired));
    let tail = job.tail.as_ref().filter(|tail| tail.answer.is_none());
    let tail = tail.map(|tail| NotificationKind::Tail(tail.id));
    [is_new.then_some(NotificationKind::Held), desired, tail].into_iter().flatten()
}

/// The result of one read: the work, and the notifications about it.
struct FoundWork<'a> {
    org: OrgUuid,
    agent: &'a Agent,
    work: Work,
    notifications: Vec<Notification>,
}

impl<'a> FoundWork<'a> {
    fn new(org: OrgUuid, agent: &'a Agent) -> Self {
        Self { org, agent, work: Work::default(), notifications: Vec::new() }
    }

    fn add(&mut self, job: JobKey, kind: NotificationKind) {
        if kind == NotificationKind::Offer {
            self.work.offers.push(job);
        }
        self.notifications.push(notification(self.org, self.agent, job, kind));
    }

    /// Adds a job that an agent has taken.
    fn add_taken(&mut self, job: &AgentJob) {
        if job.check_holder(self.agent).is_err() || self.notifications.len() >= MAX_ENTRIES {
            return;
        }
        let key = key_of(job);
        if job.holder.as_ref().is_some_and(|taken| taken.reassigned) {
            self.work.held.push(held(job));
            self.add(key, NotificationKind::Held);
        }
        if job.desired > job.applied {
            self.work.desired_states.push(JobDesiredState { job: key, desired: job.desired });
            self.add(key, NotificationKind::DesiredState(job.desired));
        }
        if let Some(tail) = job.tail.as_ref().filter(|tail| tail.answer.is_none()) {
            let (stream, offset) = (tail.stream.clone(), tail.offset);
            self.work.tails.push(TailRequest { job: key, id: tail.id, stream, offset });
            self.add(key, NotificationKind::Tail(tail.id));
        }
    }
}
