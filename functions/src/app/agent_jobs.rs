//! Agents take jobs and report on them.

use super::App;
use super::agent_proofs::AgentCaller;
use super::agent_registry::ServedRunner;
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::agent::{
    JobKey, JobReport, RefusedJob, ReportsTaken, TailAnswer, TailBytes, TakenJob, TakenJobs,
};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, DesiredState, JobRefusal, MAX_TAIL_BYTES};
use canyon_domain::attempt::Attempt;
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::shortened;
use canyon_domain::ids::OrgUuid;
use canyon_identity::bearer::AttemptRef;
use canyon_identity::job_environment::job_environment;
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::deployments::{DeploymentChange, EnvironmentChange};
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret as _;

/// Why a request for one job is rejected.
enum Denied {
    /// The reason, for the agent.
    Job(String),
    /// Canyon itself failed.
    Failed(AppError),
}

impl From<JobRefusal> for Denied {
    fn from(refused: JobRefusal) -> Self {
        Self::Job(refused.to_string())
    }
}

impl<E: Into<AppError>> From<E> for Denied {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn attempt_of(org: OrgUuid, job: &JobKey) -> AttemptRef {
    AttemptRef { org, deployment: job.deployment, number: job.attempt }
}

impl App {
    /// Takes offered jobs for an agent. The agent may start every job in `taken` of the answer.
    pub(crate) async fn take_jobs(
        &self,
        caller: &AgentCaller,
        number: u64,
        jobs: &[JobKey],
    ) -> Result<TakenJobs, AppError> {
        let agent = self.agent_in_session(caller, number).await?;
        let runners = self.runners_of_agent(caller.org, &agent).await?;
        let mut answer = TakenJobs::default();
        for job in jobs {
            match self.take_job(caller, &agent, &runners, job).await {
                Ok(taken) => answer.taken.push(taken),
                Err(Denied::Job(reason)) => answer.refused.push(RefusedJob { job: *job, reason }),
                // The agent must learn of the jobs taken so far. The rest is still offered.
                Err(Denied::Failed(error)) if answer.taken.is_empty() => return Err(error),
                Err(Denied::Failed(_)) => break,
            }
        }
        Ok(answer)
    }

    async fn take_job(
        &self,
        caller: &AgentCaller,
        agent: &Agent,
        runners: &[ServedRunner],
        key: &JobKey,
    ) -> Result<TakenJob, Denied> {
        let Some(session) = agent.session.as_ref().filter(|_| !agent.disabled) else {
            return Err(Denied::Job("the agent is disabled; do not start it".to_owned()));
        };
        if !runners.iter().any(|runner| runner.uuid == key.runner) {
            return Err(JobRefusal::NotOffered.into());
        }
        for _ in 0..MAX_TRIES {
            let found = self.table.agent_job(caller.org, key.runner, key.deployment, key.attempt);
            let Some(mut job) = found.await? else { return Err(JobRefusal::Withdrawn.into()) };
            if !self.is_open(caller.org, key).await? {
                return Err(JobRefusal::Withdrawn.into());
            }
            let (before, now) = (job.clone(), self.now());
            if job.holder.is_some() {
                // A new agent with the name of a forgotten one may have the same session numbers. It is not the holder.
                job.check_holder(agent)?;
            } else if !job.is_for(agent) {
                // The launcher may have made the offer before Canyon recorded the scope of the agent's token.
                return Err(JobRefusal::NotOffered.into());
            }
            job.take(&agent.id, session.number, &session.platform_id, now)?;
            job.confirm_holder();
            if job != before {
                job.version += 1;
                if self.table.save_agent_job(caller.org, &job, now).await? == Saved::Lost {
                    continue;
                }
            }
            let of = attempt_of(caller.org, key);
            let code = self.master_keys.get().await?.claim_code(of, job.fence);
            let environment = job_environment(&self.api_url, &caller.org_id, of, code);
            let plain = |(name, value): (String, secrecy::SecretString)| {
                (name, value.expose_secret().to_owned())
            };
            let environment = environment.into_iter().map(plain).collect();
            return Ok(TakenJob { job: *key, spec: job.spec, environment });
        }
        Err(AppError::contended(key.deployment).into())
    }

    /// Whether the attempt of a job has not ended.
    pub(super) async fn is_open(&self, org: OrgUuid, job: &JobKey) -> Result<bool, StoreError> {
        let deployment = self.table.deployment(org, job.deployment).await?;
        let open = deployment.as_ref().and_then(|deployment| deployment.open_attempt());
        Ok(open.is_some_and(|attempt| attempt.number == job.attempt))
    }

    /// Whether the launcher still needs a job: its attempt is open, or the launcher must read what the job left.
    async fn is_needed(&self, org: OrgUuid, job: &JobKey) -> Result<bool, StoreError> {
        let deployment = self.table.deployment(org, job.deployment).await?;
        let is_needed =
            |attempt: &Attempt| attempt.number == job.attempt && attempt.needs_its_job();
        Ok(deployment.is_some_and(|deployment| deployment.attempts.iter().any(is_needed)))
    }

    /// Records an agent's reports on jobs.
    pub(crate) async fn take_reports(
        &self,
        caller: &AgentCaller,
        number: u64,
        reports: &[JobReport],
    ) -> Result<ReportsTaken, AppError> {
        let agent = self.agent_in_session(caller, number).await?;
        let mut answer = ReportsTaken::default();
        for report in reports {
            match self.take_report(caller.org, &agent, report).await {
                Ok(()) => {}
                Err(Denied::Job(reason)) => {
                    answer.refused.push(RefusedJob { job: report.job, reason });
                }
                // The agent may send each report again.
                Err(Denied::Failed(error)) => return Err(error),
            }
        }
        Ok(answer)
    }

    async fn take_report(
        &self,
        org: OrgUuid,
        agent: &Agent,
        report: &JobReport,
    ) -> Result<(), Denied> {
        let key = &report.job;
        for _ in 0..MAX_TRIES {
            let found = self.table.agent_job(org, key.runner, key.deployment, key.attempt).await?;
            // The job was removed before, and the answer to that report was lost.
            let Some(mut job) = found else { return Ok(()) };
            let (before, now) = (job.clone(), self.now());
            job.check_holder(agent)?;
            job.confirm_holder();
            if let Some(digest) = &report.image_digest {
                self.record_image(org, key, digest).await?;
            }
            if let Some(seen) = report.observation.clone() {
                let handle = report.handle.clone();
                job.report(&agent.id, agent.sessions, bounded(seen), handle, now)?;
                keep_time_if_unchanged(&before, &mut job);
            }
            if matches!(report.observation, Some(Observation::Gone(_)))
                && !self.is_needed(org, key).await?
            {
                // The launcher no longer observes it.
                job.raise_desired_state(DesiredState::Forget);
            }
            if let Some(done) = report.done {
                job.record_applied(&agent.id, agent.sessions, done)?;
            }
            if let Some(tail) = &report.tail {
                answer_tail(&mut job, tail);
            }
            let saved = if job.applied == DesiredState::Forget {
                self.table.delete_agent_job(org, &before).await?
            } else if job == before {
                Saved::Yes
            } else {
                job.version += 1;
                self.table.save_agent_job(org, &job, now).await?
            };
            if saved == Saved::Lost {
                continue;
            }
            if matches!(report.observation, Some(Observation::Gone(_))) {
                // Wakes the launcher now, instead of at its next interval.
                self.job_gone(attempt_of(org, key)).await?;
            }
            return Ok(());
        }
        Err(AppError::contended(key.deployment).into())
    }

    /// Records the image that the job's container runs.
    async fn record_image(
        &self,
        org: OrgUuid,
        job: &JobKey,
        digest: &Commit,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(org, job.deployment).await?;
            let Some(mut deployment) = found else { return Ok(()) };
            if !deployment.record_image_digest(job.attempt, digest.clone()) {
                return Ok(());
            }
            deployment.version += 1;
            let step = DeploymentChange {
                deployment: &deployment,
                environment: EnvironmentChange::Keep,
                next: None,
                wake: Wake::None,
                record: None,
            };
            if self.table.change_deployment(org, &step).await? == Saved::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(job.deployment))
    }
}

/// An unchanged observation keeps the time of the first one.
fn keep_time_if_unchanged(before: &AgentJob, job: &mut AgentJob) {
    if let (Some(before), Some(seen)) = (&before.reported, &mut job.reported)
        && before.observation == seen.observation
        && before.handle == seen.handle
    {
        seen.at = before.at;
    }
}

/// Cuts the platform's texts to the length that an item may hold.
fn bounded(seen: Observation) -> Observation {
    match seen {
        Observation::Unknown(reason) => Observation::Unknown(shortened(reason)),
        // A job that an agent has taken is no longer queued: its time limit to start runs.
        Observation::Waiting(reason) | Observation::Queued(reason) => {
            Observation::Waiting(shortened(reason))
        }
        Observation::Alive => Observation::Alive,
        Observation::Gone(failure) => Observation::Gone(failure.map(|mut failure| {
            failure.message = shortened(failure.message);
            failure
        })),
    }
}

fn answer_tail(job: &mut AgentJob, given: &TailAnswer) {
    let Some(tail) = job.tail.as_mut().filter(|tail| tail.id == given.id && tail.answer.is_none())
    else {
        return;
    };
    tail.answer = Some(match &given.bytes {
        TailBytes::Bytes(text) => match STANDARD.decode(text) {
            Ok(bytes) if bytes.len() <= MAX_TAIL_BYTES => Ok(text.clone()),
            Ok(_) => Err(format!("the agent answered with more than {MAX_TAIL_BYTES} bytes")),
            Err(_) => Err("the agent's answer is not base64".to_owned()),
        },
        TailBytes::Failed(reason) => Err(shortened(reason.clone())),
    });
}
