//! A dispatcher that writes its requests into the table, where a remote agent polls for them.

use super::AgentPlatform;
use super::assignment::{assign, update_target};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_dispatch::kubernetes::manifest;
use canyon_dispatch::{
    AgentNeed, CheckReports, DispatchError, Dispatcher, JobRef, Launch, RemovalOutcome, Started,
    StopMode, TailStream, Target,
};
use canyon_domain::agent::{Agent, in_offer_order};
use canyon_domain::agent_job::{AgentJob, DesiredState, JobSpec, TailRequest};
use canyon_domain::causes::Causes;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::AgentId;
use canyon_domain::polled_job::Manifest;
use canyon_domain::runner::RunnerType;
use canyon_domain::runner_check::CheckStep;
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Saved};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long [`Dispatcher::tail`] waits for a chunk of a job's output.
const TAIL_WAIT: Duration = Duration::from_secs(10);
const TAIL_PAUSE: Duration = Duration::from_millis(200);
/// How many agents are notified of a job if none seems to have room. If all are busy, the
/// notification has no effect.
const MAX_HINTED: usize = 4;

/// The jobs of one runner.
pub(super) struct AgentDispatcher {
    pub(super) platform: AgentPlatform,
    pub(super) target: Arc<Target>,
    /// The runner's definition is not usable now, so which agents may launch is not certain: no job is offered.
    pub(super) only_observes: bool,
}

/// A failure of the table. Whether the write took effect is unknown.
fn failed(error: &StoreError) -> DispatchError {
    DispatchError::unknown(FailureClass::Lost, Causes(error).to_string())
}

impl AgentDispatcher {
    pub(super) fn now(&self) -> Timestamp {
        self.platform.clock.now()
    }

    async fn find(&self, job: &JobRef) -> Result<Option<AgentJob>, StoreError> {
        let (org, runner) = (self.target.org, self.target.runner);
        self.platform.table.agent_job(org, runner, job.deployment, job.attempt).await
    }

    fn hint(&self, agent: &AgentId) {
        (self.platform.hint)(self.target.org, agent);
    }

    /// Writes the job's new state and notifies its agent.
    async fn save(&self, job: &mut AgentJob) -> Result<Saved, StoreError> {
        job.version += 1;
        let saved = self.platform.table.save_agent_job(self.target.org, job, self.now()).await?;
        if saved == Saved::Yes {
            self.hint_owner(job);
        }
        Ok(saved)
    }

    fn hint_owner(&self, job: &AgentJob) {
        let offered = job.offer.as_ref().map(|offer| &offer.agent);
        if let Some(agent) = job.holder.as_ref().map(|taken| &taken.agent).or(offered) {
            self.hint(agent);
        }
    }

    /// Notifies some agents of a job, although none seems to have room. The launcher's data about
    /// agents may be a second old, and its offers count as load until the agent polls: so one of
    /// these agents may have room by now.
    fn hint_some(&self, agents: &[Agent]) {
        let kind = self.target.definition.runner_type();
        for agent in in_offer_order(agents, kind, self.now()).into_iter().take(MAX_HINTED) {
            self.hint(&agent.id);
        }
    }

    /// The Kubernetes Job for a remote runner, which polls with the runner's key. Agents make the
    /// Job themselves.
    fn manifest(&self, launch: &Launch) -> Option<Result<Manifest, String>> {
        let configuration = &self.target.definition.configuration;
        let is_kubernetes = configuration.runner_type() == RunnerType::KubernetesAgent;
        let has_key = configuration.agent_settings().is_some_and(|settings| settings.key.is_some());
        let image = self.platform.image.as_deref();
        (is_kubernetes && has_key)
            .then(|| manifest(&self.target, image, launch).map_err(|error| error.failure.message))
    }

    fn new_record(&self, launch: &Launch, fence: u64) -> AgentJob {
        let (definition, _) = self.target.definition.clone().split_secrets();
        let chosen = self.target.agent.as_ref();
        AgentJob {
            deployment: launch.job.deployment,
            attempt: launch.job.attempt,
            fence,
            runner: self.target.runner,
            target: self.agent_target().cloned(),
            only_agent: chosen.map(|chosen| chosen.id.clone()),
            only_for: chosen.map(|chosen| chosen.by),
            spec: JobSpec {
                org_id: self.target.org_id.clone(),
                runner_id: self.target.runner_id.clone(),
                kind: definition.runner_type(),
                definition: definition.to_value(),
                project: launch.project.clone(),
                env: launch.env.clone(),
                launched_at: launch.launched_at,
                container: launch.container.clone(),
            },
            priority: 0,
            offer: None,
            holder: None,
            desired: DesiredState::Run,
            applied: DesiredState::Run,
            reported: None,
            tail: None,
            manifest: self.manifest(launch),
            polled: None,
            version: 1,
        }
    }

    /// Writes the job's record and offers the job at once if an agent has room.
    async fn create_record(&self, launch: &Launch) -> Result<(), StoreError> {
        let (table, org, now) = (&self.platform.table, self.target.org, self.now());
        let deployment = table.deployment(org, launch.job.deployment).await?;
        let open = deployment.as_ref().and_then(|deployment| deployment.open_attempt());
        // An attempt that has ended is not started.
        let Some(attempt) = open.filter(|open| open.number == launch.job.attempt) else {
            return Ok(());
        };
        let mut job = self.new_record(launch, attempt.fence);
        job.priority = deployment.as_ref().map_or(0, |deployment| deployment.priority.rank());
        let agents = self.agents().await?;
        assign(&mut job, &self.platform.offers, &agents, None, now);
        if table.create_agent_job(org, &job, now).await? == Created::Yes {
            self.hint_owner(&job);
            if job.offer.is_none() {
                self.hint_some(&agents);
            }
        }
        Ok(())
    }

    async fn try_observe(&self, job: &JobRef) -> Result<Observation, StoreError> {
        for _ in 0..MAX_TRIES {
            let Some(mut found) = self.find(job).await? else { return Ok(Observation::Gone(None)) };
            let mut agents = self.agents().await?;
            let outsider = self.outsider(&found, &agents).await?;
            let now = self.now();
            let changed = self.assign_or_offer(&mut found, &agents, outsider.as_ref())
                | found.request_check(now);
            if changed && self.save(&mut found).await? == Saved::Lost {
                continue;
            }
            agents.extend(outsider);
            return Ok(match found.observation(&agents, now) {
                Observation::Gone(_) if found.desired == DesiredState::Forget => {
                    Observation::Gone(None)
                }
                seen => seen,
            });
        }
        Ok(Observation::Unknown("its record is being changed by other requests".to_owned()))
    }

    /// Assigns or offers the job to an agent. Returns whether the job changed.
    fn assign_or_offer(
        &self,
        job: &mut AgentJob,
        agents: &[Agent],
        outsider: Option<&Agent>,
    ) -> bool {
        if job.holder.is_none() && self.only_observes {
            return false;
        }
        let (target, offers, now) = (self.agent_target(), &self.platform.offers, self.now());
        update_target(job, target) | assign(job, offers, agents, outsider, now)
    }

    /// Reassigns a job in state `Forget` whose agent's session has ended to another agent of the
    /// same place, which removes the job. The launcher does not observe such a job again. Returns
    /// whether the job changed.
    async fn reassign_for_removal(&self, job: &mut AgentJob) -> Result<bool, StoreError> {
        let Some(taken) = &job.holder else { return Ok(false) };
        let holder = self.platform.table.agent(self.target.org, &taken.agent).await?;
        if holder.as_ref().is_some_and(|holder| taken.is_held_by(holder, self.now())) {
            return Ok(false);
        }
        let agents = self.agents().await?;
        Ok(job.reassign(&agents, holder.as_ref(), self.now()))
    }

    async fn set_desired_state(
        &self,
        job: &JobRef,
        desired: DesiredState,
    ) -> Result<Option<AgentJob>, DispatchError> {
        for _ in 0..MAX_TRIES {
            let found = self.find(job).await.map_err(|error| failed(&error))?;
            let Some(mut found) = found else { return Ok(None) };
            let mut changed = found.raise_desired_state(desired);
            if desired == DesiredState::Forget && found.applied < desired {
                changed |=
                    self.reassign_for_removal(&mut found).await.map_err(|error| failed(&error))?;
            }
            if !changed
                || self.save(&mut found).await.map_err(|error| failed(&error))? == Saved::Yes
            {
                return Ok(Some(found));
            }
        }
        let message = format!(
            "the record of deployment {}'s job is being changed by other requests",
            job.deployment
        );
        Err(DispatchError::unknown(FailureClass::Lost, message))
    }

    /// Asks the agent for a chunk of the job's output and waits for it.
    async fn fetch(
        &self,
        job: &JobRef,
        stream: &str,
        offset: u64,
    ) -> Result<Result<Vec<u8>, String>, StoreError> {
        let id = match self.request_tail(job, stream, offset).await? {
            Requested::Tail(id) => id,
            Requested::NoOutput => return Ok(Ok(vec![])),
            Requested::Contended => {
                return Ok(Err("other requests keep changing the record of the job".to_owned()));
            }
        };
        let end = Instant::now() + TAIL_WAIT;
        while Instant::now() < end {
            tokio::time::sleep(TAIL_PAUSE).await;
            let Some(found) = self.find(job).await? else { return Ok(Ok(vec![])) };
            match found.tail.filter(|tail| tail.id == id) {
                Some(TailRequest { answer: Some(Ok(bytes)), .. }) => {
                    return Ok(STANDARD.decode(bytes).map_err(|error| error.to_string()));
                }
                Some(TailRequest { answer: Some(Err(reason)), .. }) => return Ok(Err(reason)),
                Some(TailRequest { answer: None, .. }) => {}
                None => {
                    return Ok(Err("another request asked for the job's output too".to_owned()));
                }
            }
        }
        Ok(Err("its agent did not send the job's output in time".to_owned()))
    }

    /// Writes the request into the job's record.
    async fn request_tail(
        &self,
        job: &JobRef,
        stream: &str,
        offset: u64,
    ) -> Result<Requested, StoreError> {
        for _ in 0..MAX_TRIES {
            // A job in state `Forget` has no output, whether or not the agent has removed it yet.
            let can_answer = |found: &AgentJob| {
                found.holder.is_some()
                    && found.polled.is_none()
                    && found.desired < DesiredState::Forget
            };
            let found = self.find(job).await?.filter(can_answer);
            let Some(mut found) = found else { return Ok(Requested::NoOutput) };
            // The version of the item identifies the request: no other write has the same one.
            let id = found.version;
            found.tail = Some(TailRequest { id, stream: stream.to_owned(), offset, answer: None });
            if self.save(&mut found).await? == Saved::Yes {
                return Ok(Requested::Tail(id));
            }
        }
        Ok(Requested::Contended)
    }
}

/// The outcome of a request for a job's output.
enum Requested {
    /// The agent is asked; its answer has this id.
    Tail(u64),
    /// The job has no output.
    NoOutput,
    /// Each write lost a race.
    Contended,
}

#[async_trait]
impl Dispatcher for AgentDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        // Report the job as found rather than started: then the launcher observes it at once, and the
        // deployment shows which agents it waits for.
        let started = Ok(Started::Already(Some(launch.job.deployment.to_string())));
        if self.find(&launch.job).await.map_err(|error| failed(&error))?.is_some() {
            return started;
        }
        self.create_record(launch).await.map_err(|error| failed(&error))?;
        started
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        self.try_observe(job)
            .await
            .unwrap_or_else(|error| Observation::Unknown(Causes(&error).to_string()))
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        let desired = match how {
            StopMode::Graceful => DesiredState::Stop,
            StopMode::Kill => DesiredState::Kill,
        };
        self.set_desired_state(job, desired).await.map(drop)
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        let stream = match stream {
            TailStream::Log => "log",
            TailStream::Events => "events",
        };
        let fetched = self.fetch(job, stream, offset).await.map_err(|error| failed(&error))?;
        fetched.map_err(|reason| DispatchError::unknown(FailureClass::Lost, reason))
    }

    /// The agent removes the job when it polls again, so the launcher need not retry.
    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        let cleared = async {
            let wanted = self.set_desired_state(job, DesiredState::Forget).await?;
            // No agent holds the job, or its holder has nothing left to do for it.
            let is_mere_record = |job: &AgentJob| job.holder.is_none() || job.is_removed();
            if let Some(job) = wanted.filter(is_mere_record) {
                let deleted = self.platform.table.delete_agent_job(self.target.org, &job).await;
                deleted.map_err(|error| failed(&error))?;
            }
            Ok::<_, DispatchError>(())
        };
        match cleared.await {
            Ok(()) => RemovalOutcome::Removed,
            Err(error) => {
                tracing::warn!(%error, ?job, "cannot ask an agent to clear a job away");
                RemovalOutcome::JobAlive
            }
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        let found = self.platform.table.agent_jobs(self.target.org, self.target.runner).await;
        let found = found.map_err(|error| failed(&error))?;
        // For jobs in state `Forget` the launcher has nothing left to do.
        let name = |job: AgentJob| JobRef {
            deployment: job.deployment,
            attempt: job.attempt,
            handle: Some(job.deployment.to_string()),
        };
        Ok(found.into_iter().filter(|job| job.desired < DesiredState::Forget).map(name).collect())
    }

    async fn no_agent_reason(&self, need: AgentNeed) -> Option<String> {
        self.missing_agents(need).await
    }

    async fn check(&self, reports: &CheckReports) {
        let found = Box::pin(async { self.connected().await.map(|message| ((), message)) });
        reports.run_step(CheckStep::Agent, found).await;
    }
}
