//! An agent asks for work.

use super::App;
use super::agent_desk::{News, Told};
use super::agent_proofs::AgentCaller;
use super::shared_waits::NO_PLACE;
use crate::app::error::AppError;
use crate::waits::WaitOwner;
use canyon_api::agent::{HeldJob, JobKey, JobWish, MAX_WAIT, Poll, TailRequest, Work};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, OFFER};
use canyon_domain::ids::{AgentId, OrgUuid, RunnerUuid};
use canyon_store::StoreError;
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often a sign of life is written again when the agent has changed meanwhile.
const MAX_TRIES: u32 = 10;
/// The most that one answer holds of each kind.
const MAX_NEWS: usize = 100;
/// The most pages of 100 that one look reads of the jobs of a runner: taken by the agent, and by nobody.
const MAX_PAGES: u32 = 10;

/// Agents that one look has read, each once; `None` for those that are not there any more.
type Known = HashMap<AgentId, Option<Agent>>;

/// The order of the index, for jobs of several runners.
fn sort(jobs: &mut [AgentJob]) {
    jobs.sort_by_key(|job| (Reverse(job.priority), job.deployment, job.attempt));
}

/// How many jobs the agent would take now.
fn room(agent: &Agent, now: Timestamp) -> usize {
    let takes = agent.live(now).filter(|session| !agent.disabled && !session.draining);
    let room = takes.map_or(0, |session| session.concurrency.saturating_sub(session.running));
    usize::try_from(room).unwrap_or(usize::MAX).min(MAX_NEWS)
}

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
    /// What there is to do for an agent, as soon as there is anything; after the time that it would wait,
    /// nothing. If too many requests of its token or organization wait, the answer comes early and has a pause.
    pub(crate) async fn poll(
        &self,
        caller: &AgentCaller,
        number: u64,
        poll: &Poll,
    ) -> Result<Work, AppError> {
        // Before the first look, so that no hint is missed.
        let waiter = self.agents.hints.listen(caller.org, &caller.agent);
        let mut agent = self.sign_of_life(caller, number, poll).await?;
        let whose = wait_owner(caller, &agent);
        let idle = agent.session.as_ref().is_some_and(|session| session.is_idle(self.now()));
        // A request that waits occupies a function; one that has nothing to do comes again instead.
        let pause = if idle { self.agents.pause } else { Duration::ZERO };
        let wait = if pause.is_zero() { poll.wait_seconds.min(MAX_WAIT) } else { 0 };
        let wanted = Duration::from_secs(wait.into());
        let wanted = caller.principal().map_or(wanted, |by| by.sign_in.bounded(wanted, self.now()));
        let waiting = async |longest: Duration| {
            let pause = if longest < wanted { pause.max(NO_PLACE) } else { pause };
            let end = Instant::now() + longest;
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
        };
        self.bounded_agent_wait(caller.org, whose, wanted, waiting).await
    }

    pub(super) async fn sign_of_life(
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

    /// What there is to do, and what of it is news.
    async fn look_for_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Work, Vec<Told>), AppError> {
        let mut found = Findings::new(org, agent);
        // What it was told of a moment ago comes last, so that what it cannot do hides nothing else.
        let (untold, told) = self.own_work(org, agent).await?;
        for job in untold.iter().chain(&told) {
            found.add_taken(job);
        }
        if room(agent, self.now()) > 0 {
            let (mut open, mut known) = (Vec::new(), Known::new());
            for runner in self.runners_of_agent(org, agent).await? {
                open.extend(self.open_work(org, agent, runner.uuid, &mut known).await?);
            }
            sort(&mut open);
            self.add_offers(org, agent, open, &mut known, &mut found).await?;
        }
        let now = self.now();
        let news = found.told.into_iter().filter(|told| self.agents.is_news(told, now)).collect();
        Ok((found.work, news))
    }

    /// The jobs of a runner that there is something to say of to this agent, whether it has taken them or
    /// nobody has.
    pub(super) async fn work_of_runner(
        &self,
        org: OrgUuid,
        agent: &Agent,
        runner: RunnerUuid,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let (mut work, told) = self.own_work(org, agent).await?;
        work.extend(told);
        work.retain(|job| job.runner == runner);
        if room(agent, self.now()) > 0 {
            work.extend(self.open_work(org, agent, runner, &mut Known::new()).await?);
        }
        sort(&mut work);
        Ok(work)
    }

    /// The jobs that this session has and has something to do for, whether or not it may serve their runners still:
    /// those of which there is news, and those of which it was told a moment ago.
    async fn own_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Vec<AgentJob>, Vec<AgentJob>), StoreError> {
        let (mut untold, mut told) = (Vec::new(), Vec::new());
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.table.agent_work_of(org, &agent.id, after.as_ref()).await?;
            let now = self.now();
            for mut job in page.items {
                if !job.wants_attention() || !self.goes_on_with(org, agent, &mut job).await? {
                    continue;
                }
                let key = key_of(&job);
                let is_news = |what| self.agents.is_news(&told_of(org, agent, key, what), now);
                let list = if news_of(&job).any(is_news) { &mut untold } else { &mut told };
                list.push(job);
            }
            after = page.next;
            if after.is_none() || untold.len() >= MAX_NEWS {
                break;
            }
        }
        Ok((untold, told))
    }

    /// Whether this session has the job, if need be from now on: an earlier one of the agent took it, and the opening
    /// did not tell of it, because the agent serves another runner since.
    async fn goes_on_with(
        &self,
        org: OrgUuid,
        agent: &Agent,
        job: &mut AgentJob,
    ) -> Result<bool, StoreError> {
        if job.check_holder(agent).is_ok() {
            return Ok(true);
        }
        let now = self.now();
        if !job.hand_over(&[], Some(agent), now) {
            return Ok(false);
        }
        job.version += 1;
        Ok(self.table.save_agent_job(org, job, now).await? == Saved::Yes)
    }

    /// The jobs of a runner that nobody has taken and the agent may, but for those that are another's to take
    /// now. Reads on past those, so that they hide nothing else.
    async fn open_work(
        &self,
        org: OrgUuid,
        agent: &Agent,
        runner: RunnerUuid,
        known: &mut Known,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let mut open = Vec::new();
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.table.agent_work(org, runner, after.as_ref()).await?;
            for job in page.items {
                if !job.is_for(agent) || !job.wants_attention() {
                    continue;
                }
                let other = self.offered_to(org, &job, known).await?;
                if !is_of_another(&job, agent, other.as_slice(), self.now()) {
                    open.push(job);
                }
            }
            after = page.next;
            if after.is_none() || open.len() >= MAX_NEWS {
                break;
            }
        }
        Ok(open)
    }

    /// The agent that a job is offered to, if it is there.
    async fn offered_to(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        known: &mut Known,
    ) -> Result<Option<Agent>, StoreError> {
        let Some(offer) = &job.offer else { return Ok(None) };
        if let Some(agent) = known.get(&offer.agent) {
            return Ok(agent.clone());
        }
        let found = self.table.agent(org, &offer.agent).await?;
        known.insert(offer.agent.clone(), found.clone());
        Ok(found)
    }

    /// What is offered to the agent, and, as far as it has room, what is offered to nobody.
    async fn add_offers(
        &self,
        org: OrgUuid,
        agent: &Agent,
        open: Vec<AgentJob>,
        known: &mut Known,
        found: &mut Findings<'_>,
    ) -> Result<(), AppError> {
        let now = self.now();
        let Some(session) = agent.live(now) else { return Ok(()) };
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
                // The launcher has made it, which does not write what it knows of turns.
                had_turn |= session.offered_at.is_none_or(|at| at < offer.until - OFFER);
                found.add(key_of(&job), News::Offer);
                continue;
            }
            if !agent.has_room(job.order.kind, now) {
                continue;
            }
            let holder = self.offered_to(org, &job, known).await?;
            if !job.offer(agent, holder.as_slice(), now) {
                continue;
            }
            job.version += 1;
            if self.table.save_agent_job(org, &job, now).await? == Saved::Yes {
                had_turn = true;
                found.add(key_of(&job), News::Offer);
            }
        }
        if had_turn {
            self.note_offer(org, agent).await?;
        }
        Ok(())
    }

    /// Remembers that it had its turn. Whoever has changed the agent meanwhile knows more.
    async fn note_offer(&self, org: OrgUuid, agent: &Agent) -> Result<(), AppError> {
        let mut agent = agent.clone();
        if let Some(session) = &mut agent.session {
            session.offered_at = Some(self.now());
        }
        agent.version += 1;
        self.table.save_agent(org, &agent).await?;
        Ok(())
    }
}

/// Whether a job is another's to take now. `other` is whom it is offered to, if it is there.
fn is_of_another(job: &AgentJob, agent: &Agent, other: &[Agent], now: Timestamp) -> bool {
    let is_offered = job.offer.as_ref().is_some_and(|offer| offer.agent != agent.id);
    is_offered && !job.clone().offer(agent, other, now)
}

fn told_of(org: OrgUuid, agent: &Agent, job: JobKey, what: News) -> Told {
    Told { org, agent: agent.id.clone(), session: agent.sessions, job, what }
}

/// What there is to tell of a job to the agent that has taken it.
fn news_of(job: &AgentJob) -> impl Iterator<Item = News> {
    let is_new = job.taken.as_ref().is_some_and(|taken| taken.handed_over);
    let wish = (job.wish > job.done).then_some(News::Wish(job.wish));
    let tail = job.tail.as_ref().filter(|tail| tail.answer.is_none());
    let tail = tail.map(|tail| News::Tail(tail.id));
    [is_new.then_some(News::Held), wish, tail].into_iter().flatten()
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
        self.told.push(told_of(self.org, self.agent, job, what));
    }

    /// A job that somebody has taken.
    fn add_taken(&mut self, job: &AgentJob) {
        if job.check_holder(self.agent).is_err() || self.told.len() >= MAX_NEWS {
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
