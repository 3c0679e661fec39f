//! An agent asks for work.

use super::App;
use super::agent_desk::{News, Told};
use super::agent_proofs::AgentCaller;
use crate::http::error::ApiError;
use canyon_api::agent::{HeldJob, JobKey, JobWish, MAX_WAIT, Poll, TailRequest, Work};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::AgentJob;
use canyon_domain::ids::OrgUuid;
use canyon_store::outcome::Saved;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often a sign of life is written again when the agent has changed meanwhile.
const MAX_TRIES: u32 = 10;
/// The most that one answer holds of each kind.
const MAX_NEWS: usize = 100;

/// Names the job to its agent.
pub(crate) fn key_of(job: &AgentJob) -> JobKey {
    JobKey { runner: job.runner, deployment: job.deployment, attempt: job.attempt }
}

pub(crate) fn held(job: &AgentJob) -> HeldJob {
    HeldJob {
        job: key_of(job),
        order: job.order.clone(),
        handle: job.seen.as_ref().and_then(|seen| seen.handle.clone()),
        wish: job.wish,
    }
}

impl App {
    /// What there is to do for an agent, as soon as there is anything; after the time that it would wait,
    /// nothing.
    pub(crate) async fn poll(
        &self,
        caller: &AgentCaller,
        number: u64,
        poll: &Poll,
    ) -> Result<Work, ApiError> {
        // Before the first look, so that no hint is missed.
        let waiter = self.agents.hints.listen(caller.org, &caller.agent);
        let mut agent = self.sign_of_life(caller, number, poll).await?;
        let idle = agent.session.as_ref().is_some_and(|session| session.is_idle(self.now()));
        // A request that waits occupies a function; one that has nothing to do comes again instead.
        let pause = if idle { self.agents.pause } else { Duration::ZERO };
        let wait = if pause.is_zero() { poll.wait_seconds.min(MAX_WAIT) } else { 0 };
        let end = Instant::now() + Duration::from_secs(wait.into());
        loop {
            let (mut work, news) = self.look_for_work(caller.org, &agent).await?;
            let now = Instant::now();
            if !news.is_empty() || now >= end {
                if news.is_empty() {
                    work.pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                }
                for told in news {
                    self.agents.tell(told, self.now());
                }
                return Ok(work);
            }
            waiter.wait(self.agents.look.min(end - now)).await;
            agent = self.agent_in_session(caller, number).await?;
        }
    }

    pub(super) async fn sign_of_life(
        &self,
        caller: &AgentCaller,
        number: u64,
        poll: &Poll,
    ) -> Result<Agent, ApiError> {
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
        Err(ApiError::contended(&caller.agent))
    }

    /// What there is to do, and what of it is news.
    async fn look_for_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Work, Vec<Told>), ApiError> {
        let mut open = Vec::new();
        let mut found = Findings::new(org, agent);
        for runner in self.runners_of_agent(org, agent).await? {
            for job in self.table.agent_work(org, runner.uuid).await? {
                if job.taken.is_some() {
                    found.add_taken(&job);
                } else if job.is_for(agent) {
                    open.push(job);
                }
            }
        }
        // In the index's order, over all of its runners.
        open.sort_by_key(|job| (Reverse(job.priority), job.deployment, job.attempt));
        self.add_offers(org, agent, open, &mut found).await?;
        let now = self.now();
        let news = found.told.into_iter().filter(|told| self.agents.is_news(told, now)).collect();
        Ok((found.work, news))
    }

    /// What is offered to the agent, and, as far as it has room, what is offered to nobody.
    async fn add_offers(
        &self,
        org: OrgUuid,
        agent: &Agent,
        open: Vec<AgentJob>,
        found: &mut Findings<'_>,
    ) -> Result<(), ApiError> {
        let now = self.now();
        let Some(session) = agent.live(now) else { return Ok(()) };
        let room = session.concurrency.saturating_sub(session.running);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_NEWS);
        let mut others = HashMap::new();
        let mut offered = false;
        for mut job in open {
            if found.work.offers.len() >= room {
                break;
            }
            let own = job.offer.as_ref().is_some_and(|offer| {
                offer.agent == agent.id && offer.session == session.number && now < offer.until
            });
            if own {
                found.add(key_of(&job), News::Offer);
                continue;
            }
            if !agent.has_room(job.order.kind, now) {
                continue;
            }
            if let Some(offer) = &job.offer
                && !others.contains_key(&offer.agent)
                && let Some(other) = self.table.agent(org, &offer.agent).await?
            {
                others.insert(offer.agent.clone(), other);
            }
            let holder = job.offer.as_ref().and_then(|offer| others.get(&offer.agent));
            if !job.offer(agent, holder.map_or(&[], std::slice::from_ref), now) {
                continue;
            }
            job.version += 1;
            if self.table.save_agent_job(org, &job, now).await? == Saved::Yes {
                offered = true;
                found.add(key_of(&job), News::Offer);
            }
        }
        if offered {
            self.note_offer(org, agent).await?;
        }
        Ok(())
    }

    /// Remembers that it had its turn. Whoever has changed the agent meanwhile knows more.
    async fn note_offer(&self, org: OrgUuid, agent: &Agent) -> Result<(), ApiError> {
        let mut agent = agent.clone();
        if let Some(session) = &mut agent.session {
            session.offered_at = Some(self.now());
        }
        agent.version += 1;
        self.table.save_agent(org, &agent).await?;
        Ok(())
    }
}

/// What a look has found.
struct Findings<'a> {
    org: OrgUuid,
    agent: &'a Agent,
    work: Work,
    told: Vec<Told>,
}

impl<'a> Findings<'a> {
    fn new(org: OrgUuid, agent: &'a Agent) -> Self {
        Self { org, agent, work: Work::default(), told: Vec::new() }
    }

    fn add(&mut self, job: JobKey, what: News) {
        if what == News::Offer {
            self.work.offers.push(job);
        }
        let (org, agent) = (self.org, self.agent.id.clone());
        self.told.push(Told { org, agent, session: self.agent.sessions, job, what });
    }

    /// A job that somebody has taken.
    fn add_taken(&mut self, job: &AgentJob) {
        if job.check_holder(&self.agent.id, self.agent.sessions).is_err()
            || self.told.len() >= MAX_NEWS
        {
            return;
        }
        let key = key_of(job);
        if job.taken.as_ref().is_some_and(|taken| taken.handed_over) {
            self.work.held.push(held(job));
            self.add(key, News::Held);
        }
        if job.wish > job.done {
            self.work.wishes.push(JobWish { job: key, wish: job.wish });
            self.add(key, News::Wish(job.wish));
        }
        if let Some(tail) = job.tail.as_ref().filter(|tail| tail.answer.is_none()) {
            let (stream, offset) = (tail.stream.clone(), tail.offset);
            self.work.tails.push(TailRequest { job: key, id: tail.id, stream, offset });
            self.add(key, News::Tail(tail.id));
        }
    }
}
