//! A dispatcher whose calls are read by an agent far away.

use super::AgentPlatform;
use super::arrangement::{aim, arrange};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_dispatch::kubernetes::manifest;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Remains, Started, Steps, StopMode, TailStream,
    Target,
};
use canyon_domain::agent::{Agent, in_turn};
use canyon_domain::agent_job::{AgentJob, JobOrder, Tail, Wish};
use canyon_domain::causes::Causes;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::AgentId;
use canyon_domain::polled_job::Manifest;
use canyon_domain::runner::RunnerType;
use canyon_domain::runner_check::CheckStep;
use canyon_store::StoreError;
use canyon_store::outcome::{Created, Saved};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a word is written again when the job has changed meanwhile.
const MAX_TRIES: u32 = 20;
/// How long a piece of a job's output is waited for.
const TAIL_WAIT: Duration = Duration::from_secs(10);
const TAIL_PAUSE: Duration = Duration::from_millis(200);
/// How many agents are woken for a job that nobody seems to have room for: in vain, where all are busy.
const SOME: usize = 4;

/// The jobs of one runner.
pub(super) struct AgentDispatcher {
    pub(super) platform: AgentPlatform,
    pub(super) target: Arc<Target>,
    /// Who may launch is not known for sure now, so that nothing is given to anybody.
    pub(super) only_watches: bool,
}

/// The table did not do it, or nobody can tell whether it did.
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

    /// Writes what the job has become, and says so to its agent.
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
        if let Some(agent) = job.taken.as_ref().map(|taken| &taken.agent).or(offered) {
            self.hint(agent);
        }
    }

    /// Nobody seems to have room. What is known of agents may be a second old, and what each was offered counts until
    /// it is heard, so one of them may have it by now: it looks for itself.
    fn hint_some(&self, agents: &[Agent]) {
        let kind = self.target.definition.runner_type();
        for agent in in_turn(agents, kind, self.now()).into_iter().take(SOME) {
            self.hint(&agent.id);
        }
    }

    /// The Job for whoever polls by the runner's key. Others make it themselves.
    fn manifest(&self, launch: &Launch) -> Option<Result<Manifest, String>> {
        let configuration = &self.target.definition.configuration;
        let is_kubernetes = configuration.runner_type() == RunnerType::KubernetesAgent;
        let has_key = configuration.agent_settings().is_some_and(|settings| settings.key.is_some());
        let image = self.platform.image.as_deref();
        (is_kubernetes && has_key)
            .then(|| manifest(&self.target, image, launch).map_err(|error| error.failure.message))
    }

    fn order(&self, launch: &Launch, fence: u64) -> AgentJob {
        let (definition, _) = self.target.definition.clone().split_secrets();
        AgentJob {
            deployment: launch.job.deployment,
            attempt: launch.job.attempt,
            fence,
            runner: self.target.runner,
            target: self.agent_target().cloned(),
            only: self.target.agent.clone(),
            order: JobOrder {
                org_id: self.target.org_id.clone(),
                runner_id: self.target.runner_id.clone(),
                kind: definition.runner_type(),
                definition: definition.to_value(),
                project: launch.project.clone(),
                env: launch.env.clone(),
                launched_at: launch.launched_at,
            },
            priority: 0,
            offer: None,
            taken: None,
            wish: Wish::Run,
            done: Wish::Run,
            seen: None,
            tail: None,
            manifest: self.manifest(launch),
            polled: None,
            version: 1,
        }
    }

    /// Writes the order, and offers it at once if somebody has room.
    async fn write_down(&self, launch: &Launch) -> Result<(), StoreError> {
        let (table, org, now) = (&self.platform.table, self.target.org, self.now());
        let deployment = table.deployment(org, launch.job.deployment).await?;
        let open = deployment.as_ref().and_then(|deployment| deployment.open_attempt());
        // What is over by now is not to be started.
        let Some(attempt) = open.filter(|open| open.number == launch.job.attempt) else {
            return Ok(());
        };
        let mut job = self.order(launch, attempt.fence);
        job.priority = deployment.as_ref().map_or(0, |deployment| deployment.priority.rank());
        let agents = self.agents().await?;
        arrange(&mut job, &self.platform.offers, &agents, None, now);
        if table.create_agent_job(org, &job, now).await? == Created::Yes {
            self.hint_owner(&job);
            if job.offer.is_none() {
                self.hint_some(&agents);
            }
        }
        Ok(())
    }

    async fn look(&self, job: &JobRef) -> Result<Observation, StoreError> {
        for _ in 0..MAX_TRIES {
            let Some(mut found) = self.find(job).await? else { return Ok(Observation::Gone(None)) };
            let mut agents = self.agents().await?;
            let outsider = self.outsider(&found, &agents).await?;
            let now = self.now();
            let changed =
                self.rearrange(&mut found, &agents, outsider.as_ref()) | found.look_after(now);
            if changed && self.save(&mut found).await? == Saved::Lost {
                continue;
            }
            agents.extend(outsider);
            return Ok(match found.observation(&agents, now) {
                Observation::Gone(_) if found.wish == Wish::Forget => Observation::Gone(None),
                seen => seen,
            });
        }
        Ok(Observation::Unknown("its record is being changed by others".to_owned()))
    }

    /// Sees that somebody has the job, or is offered it. Returns whether it changed.
    fn rearrange(&self, job: &mut AgentJob, agents: &[Agent], outsider: Option<&Agent>) -> bool {
        if job.taken.is_none() && self.only_watches {
            return false;
        }
        let (target, offers, now) = (self.agent_target(), &self.platform.offers, self.now());
        aim(job, target) | arrange(job, offers, agents, outsider, now)
    }

    /// Nobody looks again at a job that is to be forgotten: if its session is over, another of its place that is there
    /// clears it away. Returns whether it changed.
    async fn hand_over(&self, job: &mut AgentJob) -> Result<bool, StoreError> {
        let Some(taken) = &job.taken else { return Ok(false) };
        let holder = self.platform.table.agent(self.target.org, &taken.agent).await?;
        if holder.as_ref().is_some_and(|holder| taken.is_held_by(holder, self.now())) {
            return Ok(false);
        }
        let agents = self.agents().await?;
        Ok(job.hand_over(&agents, holder.as_ref(), self.now()))
    }

    async fn want(&self, job: &JobRef, wish: Wish) -> Result<Option<AgentJob>, DispatchError> {
        for _ in 0..MAX_TRIES {
            let found = self.find(job).await.map_err(|error| failed(&error))?;
            let Some(mut found) = found else { return Ok(None) };
            let mut changed = found.want(wish);
            if wish == Wish::Forget && found.done < wish {
                changed |= self.hand_over(&mut found).await.map_err(|error| failed(&error))?;
            }
            if !changed
                || self.save(&mut found).await.map_err(|error| failed(&error))? == Saved::Yes
            {
                return Ok(Some(found));
            }
        }
        let message =
            format!("the job of deployment {} is being changed by others", job.deployment);
        Err(DispatchError::unknown(FailureClass::Lost, message))
    }

    /// Asks for a piece of output and waits for it.
    async fn fetch(
        &self,
        job: &JobRef,
        stream: &str,
        offset: u64,
    ) -> Result<Result<Vec<u8>, String>, StoreError> {
        let Some(id) = self.ask_for_tail(job, stream, offset).await? else { return Ok(Ok(vec![])) };
        let end = Instant::now() + TAIL_WAIT;
        while Instant::now() < end {
            tokio::time::sleep(TAIL_PAUSE).await;
            let Some(found) = self.find(job).await? else { return Ok(Ok(vec![])) };
            match found.tail.filter(|tail| tail.id == id) {
                Some(Tail { answer: Some(Ok(bytes)), .. }) => {
                    return Ok(STANDARD.decode(bytes).map_err(|error| error.to_string()));
                }
                Some(Tail { answer: Some(Err(reason)), .. }) => return Ok(Err(reason)),
                Some(Tail { answer: None, .. }) => {}
                None => return Ok(Err("somebody else asks for its output too".to_owned())),
            }
        }
        Ok(Err("its agent did not send the job's output in time".to_owned()))
    }

    /// Writes the request; `None` where there is no output.
    async fn ask_for_tail(
        &self,
        job: &JobRef,
        stream: &str,
        offset: u64,
    ) -> Result<Option<u64>, StoreError> {
        for _ in 0..MAX_TRIES {
            // What is to be forgotten has nothing more to say, whether it is cleared away by now or not.
            let can_answer = |found: &AgentJob| {
                found.taken.is_some() && found.polled.is_none() && found.wish < Wish::Forget
            };
            let found = self.find(job).await?.filter(can_answer);
            let Some(mut found) = found else { return Ok(None) };
            // No other request has this version of the item.
            let id = found.version;
            found.tail = Some(Tail { id, stream: stream.to_owned(), offset, answer: None });
            if self.save(&mut found).await? == Saved::Yes {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Dispatcher for AgentDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        // Whether somebody takes it up is to be seen, and people want to know whom it waits for: so it is
        // looked at now, like one that an earlier call had started.
        let started = Ok(Started::Already(Some(launch.job.deployment.to_string())));
        if self.find(&launch.job).await.map_err(|error| failed(&error))?.is_some() {
            return started;
        }
        self.write_down(launch).await.map_err(|error| failed(&error))?;
        started
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        self.look(job)
            .await
            .unwrap_or_else(|error| Observation::Unknown(Causes(&error).to_string()))
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        let wish = match how {
            StopMode::Graceful => Wish::Stop,
            StopMode::Kill => Wish::Kill,
        };
        self.want(job, wish).await.map(drop)
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

    /// The agent clears it away whenever it is back: nobody need come back for it.
    async fn forget(&self, job: &JobRef) -> Remains {
        let cleared = async {
            let wanted = self.want(job, Wish::Forget).await?;
            // Nobody has it, or nobody has anything to do for it.
            let is_mere_record = |job: &AgentJob| job.taken.is_none() || job.is_cleared_away();
            if let Some(job) = wanted.filter(is_mere_record) {
                let deleted = self.platform.table.delete_agent_job(self.target.org, &job).await;
                deleted.map_err(|error| failed(&error))?;
            }
            Ok::<_, DispatchError>(())
        };
        match cleared.await {
            Ok(()) => Remains::Nothing,
            Err(error) => {
                tracing::warn!(%error, ?job, "cannot ask an agent to clear a job away");
                Remains::Job
            }
        }
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        let found = self.platform.table.agent_jobs(self.target.org, self.target.runner).await;
        let found = found.map_err(|error| failed(&error))?;
        // Those that are to be forgotten already need nobody's further word.
        let name = |job: AgentJob| JobRef {
            deployment: job.deployment,
            attempt: job.attempt,
            handle: Some(job.deployment.to_string()),
        };
        Ok(found.into_iter().filter(|job| job.wish < Wish::Forget).map(name).collect())
    }

    async fn absence(&self) -> Option<String> {
        self.nobody_at_work().await
    }

    async fn check(&self, steps: &Steps) {
        let found = Box::pin(async { self.connected().await.map(|said| ((), said)) });
        steps.take(CheckStep::Agent, found).await;
    }
}
