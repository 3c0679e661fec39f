//! A new session goes on with the jobs of its place, however many there are, and clears away what nobody waits for.

use super::App;
use super::agent_work::{held, key_of};
use crate::app::error::AppError;
use canyon_api::agent::{HeldJob, JobKey};
use canyon_domain::agent::{Agent, Opening};
use canyon_domain::agent_job::{AgentJob, Wish};
use canyon_domain::ids::{AgentId, OrgUuid, RunnerUuid};
use canyon_store::StoreError;
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// How often a job is weighed again when it has changed meanwhile.
const MAX_TRIES: u32 = 20;
/// How many jobs one opening reads or writes at once.
const AT_ONCE: usize = 16;
/// Of how many jobs the answer to an opening tells all: each with its order, which may be long.
const MAX_TOLD: usize = 100;
/// How many further ones it names.
const MAX_NAMED: usize = 20_000;

/// The jobs that an agent goes on with in its new session.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The first of them, of which the answer to the opening tells all.
    pub(super) told: Vec<HeldJob>,
    /// The others, of which the answers to its polls tell.
    pub(super) later: Vec<JobKey>,
}

impl Held {
    /// Of these jobs, with the place of each.
    fn of(jobs: impl Iterator<Item = (usize, AgentJob)>) -> Self {
        let mut answer = Self::default();
        for (place, job) in jobs {
            if place < MAX_TOLD {
                answer.told.push(held(&job));
            } else {
                answer.later.push(key_of(&job));
            }
        }
        answer.later.truncate(MAX_NAMED);
        answer
    }
}

impl App {
    /// The jobs of its place that an agent goes on with in its new session.
    pub(super) async fn held_jobs(
        &self,
        org: OrgUuid,
        agent: &Agent,
        opening: Opening,
    ) -> Result<Held, AppError> {
        let is_told = |_: usize, job: &AgentJob| match opening {
            Opening::New => true,
            // The answer may be lost: a poll tells what others have left since.
            Opening::Again | Opening::Candidate(_) | Opening::Superseded => has_taken(agent, job),
        };
        self.go_on_with_all(org, agent, is_told).await
    }

    /// A session has superseded another one: its agent's jobs are its own from now on. Its opening was answered at
    /// `opened_at` with those that were held then; polls tell of the others.
    pub(super) async fn adopt_jobs(
        &self,
        org: OrgUuid,
        agent: &Agent,
        opened_at: Timestamp,
    ) -> Result<(), AppError> {
        let is_told = |count: usize, job: &AgentJob| {
            // If there are more than one answer holds, it is not known which of them that answer told.
            let was_held = job.taken.as_ref().is_some_and(|taken| taken.at < opened_at);
            count <= MAX_TOLD && was_held && has_taken(agent, job)
        };
        self.go_on_with_all(org, agent, is_told).await.map(drop)
    }

    /// `is_told` says of a job, one of so many, whether an answer to the opening tells all of it.
    async fn go_on_with_all(
        &self,
        org: OrgUuid,
        agent: &Agent,
        is_told: impl Fn(usize, &AgentJob) -> bool,
    ) -> Result<Held, AppError> {
        let (jobs, holders) = self.jobs_of_session(org, agent).await?;
        let (this, count) = (Arc::new(agent.clone()), jobs.len());
        let go_on = |(place, job): (usize, AgentJob)| {
            let (app, agent) = (self.clone(), this.clone());
            let holder = holder_of(&holders, &job).cloned();
            let is_told = place < MAX_TOLD && is_told(count, &job);
            async move {
                let job = app.go_on_with(org, &agent, job, holder, is_told).await;
                job.map(|job| (place, job))
            }
        };
        let mut gone_on = each(jobs.into_iter().enumerate().collect(), go_on).await?;
        gone_on.sort_by_key(|(place, _)| *place);
        Ok(Held::of(gone_on.into_iter().filter_map(|(place, job)| Some((place, job?)))))
    }

    /// The same of a session that supersedes another one with its first request: nothing is written.
    pub(super) async fn jobs_to_adopt(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<Held, AppError> {
        let (jobs, _) = self.jobs_of_session(org, agent).await?;
        Ok(Held::of(jobs.into_iter().enumerate()))
    }

    /// The jobs that an agent goes on with, oldest first, and the agents that hold them now.
    async fn jobs_of_session(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Vec<AgentJob>, HashMap<AgentId, Agent>), AppError> {
        let mut jobs = self.jobs_in_reach(org, agent).await?;
        let (holders, now) = (self.holders(org, agent, &jobs).await?, self.now());
        // So that those that others go on watching are not counted among the first.
        jobs.retain(|job| {
            let holder = holder_of(&holders, job);
            is_own(agent, job) || job.clone().take_over(agent, holder, now)
        });
        Ok((jobs, holders))
    }

    /// The jobs that an agent may go on with, oldest first: also those that it took for runners that name others by now.
    async fn jobs_in_reach(&self, org: OrgUuid, agent: &Agent) -> Result<Vec<AgentJob>, AppError> {
        let served = self.runners_of_agent(org, agent).await?;
        let served: HashSet<RunnerUuid> = served.iter().map(|runner| runner.uuid).collect();
        let kinds = agent.session.as_ref().map(|session| session.serves.as_slice());
        let all = self.served_runners(org, agent.runner.as_ref()).await?;
        let runners = all.iter().filter(|runner| {
            served.contains(&runner.uuid) || kinds.is_some_and(|kinds| kinds.contains(&runner.kind))
        });
        let read = |runner: RunnerUuid| {
            let table = self.table.clone();
            async move { table.agent_jobs(org, runner).await.map_err(AppError::from) }
        };
        let found = each(runners.map(|runner| runner.uuid).collect(), read).await?;
        let may = |job: &AgentJob| {
            may_go_on_with(agent, job) && (served.contains(&job.runner) || has_taken(agent, job))
        };
        let mut jobs: Vec<AgentJob> = found.into_iter().flatten().filter(may).collect();
        jobs.sort_unstable_by_key(|job| (job.deployment, job.attempt));
        Ok(jobs)
    }

    /// Whether the agent holds a job that has not ended, of whichever runner.
    pub(super) async fn holds_a_job(&self, org: OrgUuid, agent: &Agent) -> Result<bool, AppError> {
        let runners = self.served_runners(org, None).await?;
        let read = |runner: RunnerUuid| {
            let table = self.table.clone();
            async move { table.agent_jobs(org, runner).await.map_err(AppError::from) }
        };
        let found = each(runners.iter().map(|runner| runner.uuid).collect(), read).await?;
        let is_held = |job: &AgentJob| has_taken(agent, job) && job.wish != Wish::Forget;
        Ok(found.iter().flatten().any(is_held))
    }

    /// Those other agents that hold any of `jobs`, each read once.
    async fn holders(
        &self,
        org: OrgUuid,
        agent: &Agent,
        jobs: &[AgentJob],
    ) -> Result<HashMap<AgentId, Agent>, AppError> {
        let all = jobs.iter().filter_map(|job| job.taken.as_ref()).map(|taken| &taken.agent);
        let others: HashSet<AgentId> = all.filter(|id| **id != agent.id).cloned().collect();
        let read = |id: AgentId| {
            let table = self.table.clone();
            async move { table.agent(org, &id).await.map_err(AppError::from) }
        };
        let found = each(others.into_iter().collect(), read).await?;
        Ok(found.into_iter().flatten().map(|agent| (agent.id.clone(), agent)).collect())
    }

    /// The job as it is held now, by this session; `None` if it is not this agent's to go on with. What the
    /// answer to the opening does not tell, the answers to its polls do.
    async fn go_on_with(
        &self,
        org: OrgUuid,
        agent: &Agent,
        mut job: AgentJob,
        mut holder: Option<Agent>,
        is_told: bool,
    ) -> Result<Option<AgentJob>, AppError> {
        for _ in 0..MAX_TRIES {
            let (was_own, now) = (is_own(agent, &job), self.now());
            let is_held = was_own
                || (may_go_on_with(agent, &job) && job.take_over(agent, holder.as_ref(), now));
            if !is_held {
                return Ok(None);
            }
            // Whoever polls by the runner's key is told what it is to do, and not what it holds.
            let is_told = is_told || job.polled.is_some();
            let Some(taken) = &mut job.taken else { return Ok(None) };
            if was_own && (is_told || taken.handed_over) {
                return Ok(Some(job));
            }
            taken.handed_over = !is_told;
            job.version += 1;
            if self.table.save_agent_job(org, &job, now).await? == Saved::Yes {
                return Ok(Some(job));
            }
            let found = self.table.agent_job(org, job.runner, job.deployment, job.attempt).await?;
            let Some(again) = found else { return Ok(None) };
            job = again;
            holder = match &job.taken {
                Some(taken) if taken.agent != agent.id => {
                    self.table.agent(org, &taken.agent).await?
                }
                _ => None,
            };
        }
        Err(AppError::contended(job.deployment))
    }

    /// Which of the jobs that an agent finds in its place nobody waits for any more.
    pub(super) async fn strays(
        &self,
        org: OrgUuid,
        agent: &Agent,
        found: &[JobKey],
        held: &Held,
    ) -> Result<Vec<JobKey>, AppError> {
        let told = held.told.iter().map(|held| &held.job);
        let known: HashSet<&JobKey> = told.chain(&held.later).collect();
        // What is another runner's may be another agent's.
        let runners = self.runners_of_agent(org, agent).await?;
        let served: HashSet<RunnerUuid> = runners.iter().map(|runner| runner.uuid).collect();
        let asked = |key: &&JobKey| served.contains(&key.runner) && !known.contains(*key);
        let look = |key: JobKey| {
            let app = self.clone();
            async move {
                let is_stray = app.is_stray(org, &key).await.map_err(AppError::from);
                is_stray.map(|is_stray| is_stray.then_some(key))
            }
        };
        let found = each(found.iter().filter(asked).copied().collect(), look).await?;
        let mut strays: Vec<JobKey> = found.into_iter().flatten().collect();
        strays.sort_unstable();
        Ok(strays)
    }

    async fn is_stray(&self, org: OrgUuid, key: &JobKey) -> Result<bool, StoreError> {
        let job = self.table.agent_job(org, key.runner, key.deployment, key.attempt).await?;
        if job.is_some_and(|job| job.taken.is_some()) {
            return Ok(false);
        }
        // Jobs of deployments that the table does not know are another installation's.
        let deployment = self.table.deployment(org, key.deployment).await?;
        Ok(deployment.is_some() && !self.is_open(org, key).await?)
    }
}

/// The other agent that holds a job, if it is known still.
fn holder_of<'a>(holders: &'a HashMap<AgentId, Agent>, job: &AgentJob) -> Option<&'a Agent> {
    holders.get(&job.taken.as_ref()?.agent)
}

/// Whether this very session holds the job.
fn is_own(agent: &Agent, job: &AgentJob) -> bool {
    job.check_holder(agent).is_ok()
}

/// Whether the agent may go on with a job, if its holder is gone: one of its own, or one of its place that it
/// might have been given. The place alone is what the agent says of itself.
fn may_go_on_with(agent: &Agent, job: &AgentJob) -> bool {
    let (Some(session), Some(taken)) = (&agent.session, &job.taken) else { return false };
    let may_serve = agent.may_serve_alone(&job.order.runner_id, job.target.as_ref())
        && (!agent.reserved || job.only.as_ref() == Some(&agent.id))
        && job.is_requested_for(agent);
    taken.is_by(agent) || (taken.place == session.place && may_serve)
}

/// Whether the agent took the job, in whichever session.
fn has_taken(agent: &Agent, job: &AgentJob) -> bool {
    job.taken.as_ref().is_some_and(|taken| taken.is_by(agent))
}

/// What `work` makes of each of `all`, [`AT_ONCE`] at a time, in the order in which they are done.
async fn each<I, T, F>(all: Vec<I>, work: impl Fn(I) -> F) -> Result<Vec<T>, AppError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, AppError>> + Send + 'static,
{
    let (mut running, mut done) = (JoinSet::new(), Vec::with_capacity(all.len()));
    for one in all {
        if running.len() >= AT_ONCE {
            done.extend(next(&mut running).await?);
        }
        running.spawn(work(one).in_current_span());
    }
    while !running.is_empty() {
        done.extend(next(&mut running).await?);
    }
    Ok(done)
}

/// What ends next of what runs.
async fn next<T: 'static>(
    running: &mut JoinSet<Result<T, AppError>>,
) -> Result<Option<T>, AppError> {
    match running.join_next().await {
        Some(Ok(done)) => done.map(Some),
        // It has panicked, and said so.
        Some(Err(_)) => Err(AppError::internal()),
        None => Ok(None),
    }
}
