//! The messages of the remote-runner protocol about each job.

use super::App;
use super::agent_proofs::AgentCaller;
use super::agent_work::key_of;
use crate::app::error::AppError;
use canyon_api::remote_runner::{
    RemoteRunnerMessage, RemoteRunnerMessageCancelJob, RemoteRunnerMessageCheckJobStatus,
    RemoteRunnerMessageCreateJob,
};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, DesiredState};
use canyon_domain::attempt::Outcome;
use canyon_domain::failure::{Failure, FailureClass, shortened};
use canyon_domain::ids::OrgUuid;
use canyon_domain::polled_job::{Manifest, PollMessage, PolledJob};
use canyon_identity::bearer::AttemptRef;
use canyon_identity::master_key::MasterKey;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret as _;

impl App {
    /// The next message about a job, if there is one.
    pub(super) async fn message_of(
        &self,
        caller: &AgentCaller,
        agent: &Agent,
        job: AgentJob,
    ) -> Result<Option<RemoteRunnerMessage>, AppError> {
        if job.holder.is_none() {
            return self.hand_out(caller, agent, job).await;
        }
        if job.check_holder(agent).is_err() {
            return Ok(None);
        }
        self.next_message(caller, job).await
    }

    /// Assigns a job that no agent holds to the poller.
    async fn hand_out(
        &self,
        caller: &AgentCaller,
        agent: &Agent,
        mut job: AgentJob,
    ) -> Result<Option<RemoteRunnerMessage>, AppError> {
        let now = self.now();
        let Some(session) = agent.live_session(now) else { return Ok(None) };
        if !job.is_for(agent) || !agent.has_room_for(&job, now) {
            return Ok(None);
        }
        let holder = match &job.offer {
            Some(offer) => self.table.agent(caller.org, &offer.agent).await?,
            None => None,
        };
        // If another agent holds a valid offer, `assign_to_poller` below refuses.
        job.offer(agent, holder.as_slice(), now);
        let Ok(manifest) =
            job.assign_to_poller(&agent.id, session.number, &session.platform_id, now)
        else {
            return Ok(None);
        };
        if !self.is_open(caller.org, &key_of(&job)).await? {
            return Ok(None);
        }
        // Read the keys before the job is taken: a taken job is handed out only once.
        let keys = self.master_keys.get().await?;
        let manifest = match manifest {
            Some(Ok(manifest)) => manifest,
            Some(Err(reason)) => {
                return self.fail_job(caller, job, FailureClass::Config, &reason).await;
            }
            None => {
                let reason = "it was launched before its runner had a key, for an agent";
                return self.fail_job(caller, job, FailureClass::Lost, reason).await;
            }
        };
        if self.write(caller, &mut job).await? == Saved::Lost {
            return Ok(None);
        }
        Ok(Some(create_message(caller, &keys, &job, manifest)))
    }

    /// Fails a job that cannot be handed out.
    async fn fail_job(
        &self,
        caller: &AgentCaller,
        mut job: AgentJob,
        class: FailureClass,
        reason: &str,
    ) -> Result<Option<RemoteRunnerMessage>, AppError> {
        let message = shortened(format!("the job cannot be handed out: {reason}"));
        job.record_undeliverable(Failure::new(class, message), self.now());
        if self.write(caller, &mut job).await? == Saved::Yes {
            self.job_gone(attempt_of(caller, &job)).await?;
        }
        Ok(None)
    }

    /// The next message about a job that was handed out.
    async fn next_message(
        &self,
        caller: &AgentCaller,
        mut job: AgentJob,
    ) -> Result<Option<RemoteRunnerMessage>, AppError> {
        let (before, now) = (job.clone(), self.now());
        let Some(what) = job.next_message(now) else { return Ok(None) };
        // Read the keys before the message counts as delivered.
        let keys = self.master_keys.get().await?;
        let is_over = job.is_removed()
            || (job.applied == DesiredState::Forget
                && self.has_succeeded(caller.org, &job).await?);
        let saved = if is_over {
            self.table.delete_agent_job(caller.org, &before).await?
        } else {
            self.write(caller, &mut job).await?
        };
        let Some(PolledJob { name: job_id, namespace, .. }) = job.polled.clone() else {
            return Ok(None);
        };
        if saved == Saved::Lost {
            return Ok(None);
        }
        let deployment_token = watch_token(caller, &keys, &job);
        if what == PollMessage::Cancel {
            let cancel = RemoteRunnerMessageCancelJob { job_id, namespace, deployment_token };
            return Ok(Some(RemoteRunnerMessage::CancelJob(cancel)));
        }
        let Some(deployment) = self.table.deployment(caller.org, job.deployment).await? else {
            return Ok(None);
        };
        let open = deployment.open_attempt().filter(|attempt| attempt.number == job.attempt);
        let starts = open.filter(|attempt| attempt.claim.is_none());
        // A pod that has run and stopped does not run again. If the attempt is over, no start is awaited.
        let expires_at = starts.map_or(now, |attempt| {
            attempt.taken_up_at.unwrap_or(attempt.launched_at) + attempt.limits.start()
        });
        let check =
            RemoteRunnerMessageCheckJobStatus { job_id, namespace, deployment_token, expires_at };
        Ok(Some(RemoteRunnerMessage::CheckJobStatus(check)))
    }

    /// Whether the job's runner reported success. Then the job holds no state lock that a proof of its end could break.
    async fn has_succeeded(&self, org: OrgUuid, job: &AgentJob) -> Result<bool, AppError> {
        let deployment = self.table.deployment(org, job.deployment).await?;
        let mut attempts = deployment.iter().flat_map(|deployment| &deployment.attempts);
        let attempt = attempts.find(|attempt| attempt.number == job.attempt);
        let ended = attempt.and_then(|attempt| attempt.ended.as_ref());
        Ok(ended.is_some_and(|ended| ended.outcome == Outcome::Succeeded))
    }

    async fn write(&self, caller: &AgentCaller, job: &mut AgentJob) -> Result<Saved, AppError> {
        job.version += 1;
        Ok(self.table.save_agent_job(caller.org, job, self.now()).await?)
    }
}

fn create_message(
    caller: &AgentCaller,
    keys: &MasterKey,
    job: &AgentJob,
    manifest: Manifest,
) -> RemoteRunnerMessage {
    let code = keys.claim_code(attempt_of(caller, job), job.fence);
    RemoteRunnerMessage::CreateJob(RemoteRunnerMessageCreateJob {
        job_id: manifest.name.clone(),
        namespace: manifest.namespace.clone(),
        configuration: manifest.with_claim_code(code.expose_secret()),
        deployment_token: watch_token(caller, keys, job),
    })
}

fn watch_token(caller: &AgentCaller, keys: &MasterKey, job: &AgentJob) -> String {
    keys.watch_token(attempt_of(caller, job), job.fence).expose_secret().to_owned()
}

fn attempt_of(caller: &AgentCaller, job: &AgentJob) -> AttemptRef {
    AttemptRef { org: caller.org, deployment: job.deployment, number: job.attempt }
}
