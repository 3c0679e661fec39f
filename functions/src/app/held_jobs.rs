//! A new session adopts the jobs of its place, and removes orphaned jobs.

use super::App;
use super::agent_work::{held, key_of};
use crate::app::error::AppError;
use canyon_api::agent::{HeldJob, JobKey};
use canyon_domain::agent::{Agent, SessionStart};
use canyon_domain::agent_job::{AgentJob, DesiredState};
use canyon_domain::attempt::{Attempt, Salvage};
use canyon_domain::ids::{AgentId, OrgUuid, RunnerUuid};
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// The most concurrent reads or writes for one session start.
const MAX_CONCURRENT: usize = 16;
/// The most jobs that the answer to a session start describes in full. Each has its launch order, which may be long.
const MAX_DESCRIBED: usize = 100;
/// The most further jobs that the answer only names.
const MAX_NAMED: usize = 20_000;

/// The jobs that an agent holds in its new session.
#[derive(Debug, Default)]
pub(super) struct HeldJobs {
    /// The first jobs, which the answer to the session start describes in full.
    pub(super) described: Vec<HeldJob>,
    /// The other jobs, which later answers to polls describe.
    pub(super) named: Vec<JobKey>,
}

impl HeldJobs {
    /// The jobs, each with its position in the list.
    fn of(jobs: impl Iterator<Item = (usize, AgentJob)>) -> Self {
        let mut answer = Self::default();
        for (position, job) in jobs {
            if position < MAX_DESCRIBED {
                answer.described.push(held(&job));
            } else {
                answer.named.push(key_of(&job));
            }
        }
        answer.named.truncate(MAX_NAMED);
        answer
    }
}

impl App {
    /// Reassigns the jobs of the agent's place to its new session.
    pub(super) async fn held_jobs(
        &self,
        org: OrgUuid,
        agent: &Agent,
        opening: SessionStart,
    ) -> Result<HeldJobs, AppError> {
        let is_described = |_: usize, job: &AgentJob| match opening {
            SessionStart::New => true,
            // The answer may be lost: a poll announces the jobs that other agents have left since.
            SessionStart::Current | SessionStart::Candidate(_) | SessionStart::Superseded => {
                has_taken(agent, job)
            }
        };
        self.reassign_all(org, agent, is_described).await
    }

    /// Reassigns an agent's jobs to the session that has superseded another one. The answer at `opened_at` to its start
    /// described the jobs that the agent held then. Polls announce the others.
    pub(super) async fn adopt_jobs(
        &self,
        org: OrgUuid,
        agent: &Agent,
        opened_at: Timestamp,
    ) -> Result<(), AppError> {
        let is_described = |count: usize, job: &AgentJob| {
            // Beyond the size of one answer, it is unknown which jobs that answer described.
            let was_held = job.holder.as_ref().is_some_and(|taken| taken.at < opened_at);
            count <= MAX_DESCRIBED && was_held && has_taken(agent, job)
        };
        self.reassign_all(org, agent, is_described).await.map(drop)
    }

    /// Reassigns all jobs of a session. `is_described` gets the number of jobs and a job. It returns whether the answer to
    /// the session start describes that job in full.
    async fn reassign_all(
        &self,
        org: OrgUuid,
        agent: &Agent,
        is_described: impl Fn(usize, &AgentJob) -> bool,
    ) -> Result<HeldJobs, AppError> {
        let (jobs, holders) = self.jobs_of_session(org, agent).await?;
        let (this, count) = (Arc::new(agent.clone()), jobs.len());
        let reassign = |(position, job): (usize, AgentJob)| {
            let (app, agent) = (self.clone(), this.clone());
            let holder = holder_of(&holders, &job).cloned();
            let is_described = position < MAX_DESCRIBED && is_described(count, &job);
            async move {
                let job = app.reassign(org, &agent, job, holder, is_described).await;
                job.map(|job| (position, job))
            }
        };
        let mut reassigned =
            map_concurrently(jobs.into_iter().enumerate().collect(), reassign).await?;
        reassigned.sort_by_key(|(position, _)| *position);
        Ok(HeldJobs::of(
            reassigned.into_iter().filter_map(|(position, job)| Some((position, job?))),
        ))
    }

    /// The jobs of a session that supersedes another one with its first request. Nothing is written yet.
    pub(super) async fn jobs_to_adopt(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<HeldJobs, AppError> {
        let (jobs, _) = self.jobs_of_session(org, agent).await?;
        Ok(HeldJobs::of(jobs.into_iter().enumerate()))
    }

    /// The jobs that an agent may adopt, oldest first, and the agents that hold them now.
    async fn jobs_of_session(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(Vec<AgentJob>, HashMap<AgentId, Agent>), AppError> {
        let mut jobs = self.adoptable_jobs(org, agent).await?;
        let (holders, now) = (self.holders(org, agent, &jobs).await?, self.now());
        // Remove the jobs that other agents still watch, so that they do not use up the first positions.
        jobs.retain(|job| {
            let holder = holder_of(&holders, job);
            is_own(agent, job) || job.clone().adopt(agent, holder, now)
        });
        Ok((jobs, holders))
    }

    /// The jobs that an agent may adopt, oldest first. They include jobs of runners that select other agents by now.
    async fn adoptable_jobs(&self, org: OrgUuid, agent: &Agent) -> Result<Vec<AgentJob>, AppError> {
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
        let found = map_concurrently(runners.map(|runner| runner.uuid).collect(), read).await?;
        let may = |job: &AgentJob| {
            may_adopt(agent, job) && (served.contains(&job.runner) || has_taken(agent, job))
        };
        let mut jobs: Vec<AgentJob> = found.into_iter().flatten().filter(may).collect();
        jobs.sort_unstable_by_key(|job| (job.deployment, job.attempt));
        Ok(jobs)
    }

    /// Whether the agent holds a job whose attempt has not ended, or is connected and holds one of which Canyon must still
    /// read what it left. If the agent's machine is lost, that can take for ever.
    pub(super) async fn holds_a_job(&self, org: OrgUuid, agent: &Agent) -> Result<bool, AppError> {
        let is_connected = agent.live_session(self.now()).is_some();
        let needs = |attempt: &Attempt| {
            attempt.ended.is_none() || (is_connected && attempt.salvage == Salvage::Pending)
        };
        let held = self.jobs_held(org).await?;
        for job in held.iter().filter(|job| has_taken(agent, job)) {
            let deployment = self.table.deployment(org, job.deployment).await?;
            let attempts = deployment.iter().flat_map(|found| &found.attempts);
            if attempts.filter(|of| of.number == job.attempt).any(needs) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The jobs of all runners that agents hold and that have not ended.
    pub(super) async fn jobs_held(&self, org: OrgUuid) -> Result<Vec<AgentJob>, AppError> {
        let runners = self.served_runners(org, None).await?;
        let read = |runner: RunnerUuid| {
            let table = self.table.clone();
            async move { table.agent_jobs(org, runner).await.map_err(AppError::from) }
        };
        let found =
            map_concurrently(runners.iter().map(|runner| runner.uuid).collect(), read).await?;
        let is_held = |job: &AgentJob| job.holder.is_some() && job.desired != DesiredState::Forget;
        Ok(found.into_iter().flatten().filter(is_held).collect())
    }

    /// The other agents that hold any of `jobs`, each read once.
    async fn holders(
        &self,
        org: OrgUuid,
        agent: &Agent,
        jobs: &[AgentJob],
    ) -> Result<HashMap<AgentId, Agent>, AppError> {
        let all = jobs.iter().filter_map(|job| job.holder.as_ref()).map(|taken| &taken.agent);
        let others: HashSet<AgentId> = all.filter(|id| **id != agent.id).cloned().collect();
        let read = |id: AgentId| {
            let table = self.table.clone();
            async move { table.agent(org, &id).await.map_err(AppError::from) }
        };
        let found = map_concurrently(others.into_iter().collect(), read).await?;
        Ok(found.into_iter().flatten().map(|agent| (agent.id.clone(), agent)).collect())
    }

    /// Reassigns a job to this session and returns it; `None` if this agent may not adopt it. If `is_described` is false,
    /// the answers to its polls announce the job.
    async fn reassign(
        &self,
        org: OrgUuid,
        agent: &Agent,
        mut job: AgentJob,
        mut holder: Option<Agent>,
        is_described: bool,
    ) -> Result<Option<AgentJob>, AppError> {
        for _ in 0..MAX_TRIES {
            let (was_own, now) = (is_own(agent, &job), self.now());
            let is_held =
                was_own || (may_adopt(agent, &job) && job.adopt(agent, holder.as_ref(), now));
            if !is_held {
                return Ok(None);
            }
            // A poller with the runner's key receives messages, and no list of the jobs that it holds.
            let is_described = is_described || job.polled.is_some();
            let Some(taken) = &mut job.holder else { return Ok(None) };
            if was_own && (is_described || taken.reassigned) {
                return Ok(Some(job));
            }
            taken.reassigned = !is_described;
            job.version += 1;
            if self.table.save_agent_job(org, &job, now).await? == Saved::Yes {
                return Ok(Some(job));
            }
            let found = self.table.agent_job(org, job.runner, job.deployment, job.attempt).await?;
            let Some(again) = found else { return Ok(None) };
            job = again;
            holder = match &job.holder {
                Some(taken) if taken.agent != agent.id => {
                    self.table.agent(org, &taken.agent).await?
                }
                _ => None,
            };
        }
        Err(AppError::contended(job.deployment))
    }

    /// The orphaned jobs among those that an agent finds in its place: their attempts have ended.
    pub(super) async fn orphaned_jobs(
        &self,
        org: OrgUuid,
        agent: &Agent,
        found: &[JobKey],
        held: &HeldJobs,
    ) -> Result<Vec<JobKey>, AppError> {
        let described = held.described.iter().map(|held| &held.job);
        let known: HashSet<&JobKey> = described.chain(&held.named).collect();
        // A job of a runner that this agent does not serve may belong to another agent.
        let runners = self.runners_of_agent(org, agent).await?;
        let served: HashSet<RunnerUuid> = runners.iter().map(|runner| runner.uuid).collect();
        let asked = |key: &&JobKey| served.contains(&key.runner) && !known.contains(*key);
        let check = |key: JobKey| {
            let app = self.clone();
            async move {
                let is_orphaned = app.is_orphaned(org, &key).await.map_err(AppError::from);
                is_orphaned.map(|is_orphaned| is_orphaned.then_some(key))
            }
        };
        let found = map_concurrently(found.iter().filter(asked).copied().collect(), check).await?;
        let mut orphaned: Vec<JobKey> = found.into_iter().flatten().collect();
        orphaned.sort_unstable();
        Ok(orphaned)
    }

    async fn is_orphaned(&self, org: OrgUuid, key: &JobKey) -> Result<bool, StoreError> {
        let job = self.table.agent_job(org, key.runner, key.deployment, key.attempt).await?;
        if job.is_some_and(|job| job.holder.is_some()) {
            return Ok(false);
        }
        // A job whose deployment is not in the table belongs to another installation.
        let deployment = self.table.deployment(org, key.deployment).await?;
        Ok(deployment.is_some() && !self.is_open(org, key).await?)
    }
}

/// The other agent that holds a job, if that agent still exists.
fn holder_of<'a>(holders: &'a HashMap<AgentId, Agent>, job: &AgentJob) -> Option<&'a Agent> {
    holders.get(&job.holder.as_ref()?.agent)
}

/// Whether this session holds the job.
fn is_own(agent: &Agent, job: &AgentJob) -> bool {
    job.check_holder(agent).is_ok()
}

/// Whether the agent may adopt a job if its holder is gone: it took the job itself, or the job runs in its place and
/// the agent may serve its runner. The place alone proves nothing, because the agent chooses it.
fn may_adopt(agent: &Agent, job: &AgentJob) -> bool {
    let (Some(session), Some(taken)) = (&agent.session, &job.holder) else { return false };
    let may_serve = agent.may_serve_alone(&job.spec.runner_id, job.target.as_ref())
        && (!agent.reserved || job.only_agent.as_ref() == Some(&agent.id))
        && job.is_requested_for(agent);
    taken.was_taken_by(agent) || (taken.platform_id == session.platform_id && may_serve)
}

/// Whether the agent took the job, in any session.
pub(super) fn has_taken(agent: &Agent, job: &AgentJob) -> bool {
    job.holder.as_ref().is_some_and(|taken| taken.was_taken_by(agent))
}

/// Runs `work` for each of `all`, [`MAX_CONCURRENT`] at a time. The results are in the order of completion.
async fn map_concurrently<I, T, F>(all: Vec<I>, work: impl Fn(I) -> F) -> Result<Vec<T>, AppError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, AppError>> + Send + 'static,
{
    let (mut running, mut done) = (JoinSet::new(), Vec::with_capacity(all.len()));
    for one in all {
        if running.len() >= MAX_CONCURRENT {
            done.extend(next_done(&mut running).await?);
        }
        running.spawn(work(one).in_current_span());
    }
    while !running.is_empty() {
        done.extend(next_done(&mut running).await?);
    }
    Ok(done)
}

/// The result of the next task that completes.
async fn next_done<T: 'static>(
    running: &mut JoinSet<Result<T, AppError>>,
) -> Result<Option<T>, AppError> {
    match running.join_next().await {
        Some(Ok(done)) => done.map(Some),
        // The task has panicked, and the panic handler has logged it.
        Some(Err(_)) => Err(AppError::internal()),
        None => Ok(None),
    }
}
