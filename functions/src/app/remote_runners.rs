//! The published protocol of remote runners, served from the jobs of agents.
//!
//! A program that polls with the key of a runner acts as an agent with the runner's name. It has one session, which
//! does not expire. Its messages are derived from agent jobs, so pollers and canyon-agents can serve the same
//! installation.

use super::App;
use super::agent_proofs::{AgentCaller, Proof, check_claims, key_of};
use super::agent_registry::ServedRunner;
use crate::app::error::AppError;
use crate::waits::WaitOwner;
use canyon_api::agent::{KeyClaims, OpenSession, PROTOCOL, Poll};
use canyon_api::remote_runner::RemoteRunnerMessage;
use canyon_domain::agent::Adoption;
use canyon_domain::ids::{AgentId, OrgId, RunnerId};
use canyon_domain::runner::RunnerType;
use canyon_identity::agent_key::{AgentKey, KeyToken};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The program name of all pollers. Replicas share it, because a poller does not describe itself.
const POLLER_PROGRAM: &str = "poll-requests";
/// The protocol has no concurrency limit of its own, so only those of the runner and the organization apply.
const CONCURRENCY: u32 = 10_000;

/// A poller and the runner that it polls for.
pub(crate) struct RemoteRunner {
    caller: AgentCaller,
    runner: ServedRunner,
}

/// The answer to a poll.
pub(crate) enum PollResult {
    /// The message.
    Message(RemoteRunnerMessage),
    /// No message came within the wait.
    Nothing,
    /// There is no message now, and too many other requests wait, so this one was answered early.
    Throttled,
}

impl RemoteRunner {
    /// The organization.
    pub(crate) fn org_id(&self) -> &OrgId {
        &self.caller.org_id
    }
}

impl App {
    /// The poller that has signed `token`, if the key of this runner verifies the signature.
    ///
    /// # Errors
    ///
    /// 401 with what is wrong with the token. If another key has signed it, the error reveals nothing else.
    pub(crate) async fn remote_runner(
        &self,
        org_id: &str,
        runner_id: &str,
        token: &str,
    ) -> Result<RemoteRunner, AppError> {
        let parsed = KeyToken::parse(token).ok_or_else(malformed_token)?;
        let foreign = || not_signed_by(org_id, runner_id);
        let org_id: OrgId = org_id.parse().map_err(|_| foreign())?;
        let id: RunnerId = runner_id.parse().map_err(|_| foreign())?;
        let org = self.organization_of_agents(&org_id).await?.ok_or_else(foreign)?;
        let runners = self.served_runners(org, Some(&id)).await?;
        let runner = runners.first().cloned().ok_or_else(foreign)?;
        let key = runner.key.ok_or_else(foreign)?;
        let claims = key.verify::<Value>(&parsed).map_err(|_| foreign())?;
        // The caller has proved that it has the key, so the error may say what is wrong with the claims.
        let claims: KeyClaims = serde_json::from_value(claims)
            .map_err(|error| refused(format!("a claim of the token cannot be read: {error}")))?;
        check_claims(&claims, id.as_str(), &org_id, self.now().as_second())?;
        let agent: AgentId = id.as_str().parse().map_err(|_| foreign())?;
        let (at, proof) = (self.now(), Proof::Key(token.to_owned()));
        // The runner's key authenticates the poller, so the limits on unknown callers do not apply.
        let caller = AgentCaller { org, org_id, agent, at, source: None, proof };
        Ok(RemoteRunner { caller, runner })
    }

    /// The next message for a poller. It waits for `wait`, or less if too many requests of the runner's key or of the
    /// organization's agents wait.
    pub(crate) async fn poll_requests(
        &self,
        by: &RemoteRunner,
        wait: Duration,
    ) -> Result<PollResult, AppError> {
        let RemoteRunner { caller, runner } = by;
        // Subscribe before the first read, so that no hint is missed.
        let waiter = self.agents.hints.listen(caller.org, &caller.agent);
        let number = self.session_of(by).await?;
        let mut agent = self.record_heartbeat(caller, number, &Poll::default()).await?;
        let waiting = async |longest: Duration| {
            let end = Instant::now() + longest;
            loop {
                for job in self.work_of_runner(caller.org, &agent, runner.uuid).await? {
                    if let Some(message) = self.message_of(caller, &agent, job).await? {
                        return Ok(PollResult::Message(message));
                    }
                }
                let now = Instant::now();
                if now >= end {
                    let is_early = longest < wait;
                    return Ok(if is_early { PollResult::Throttled } else { PollResult::Nothing });
                }
                waiter.wait(self.agents.read_interval.min(end - now)).await;
                agent = self.agent_in_session(caller, number).await?;
            }
        };
        let whose = WaitOwner::Runner(caller.org, runner.id.clone());
        Box::pin(self.bounded_agent_wait(caller.org, whose, wait, waiting)).await
    }

    /// The one session of all pollers of a runner. Their first request starts it.
    async fn session_of(&self, by: &RemoteRunner) -> Result<u64, AppError> {
        let RemoteRunner { caller, runner } = by;
        if runner.kind != RunnerType::KubernetesAgent {
            return Err(wrong_runner_type(runner));
        }
        let place = format!("remote-runner/{}", runner.uuid);
        let found = self.table.agent(caller.org, &caller.agent).await?;
        if let Some(agent) = &found
            && let Some(session) = &agent.session
        {
            let is_own = session.program == POLLER_PROGRAM && session.platform_id == place;
            let may_go_on = agent.adoption == Adoption::Adopted && key_of(agent) == runner.key;
            if is_own && session.closed_at.is_none() && may_go_on {
                return Ok(session.number);
            }
            // An agent with a token for labels alone loses its name when the session starts.
            if !is_own && session.is_live(self.now()) && !agent.is_confined_to_labels() {
                return Err(agent_connected(&agent.id));
            }
        }
        // A poller draws no random `instance`. The number of earlier sessions replaces it, so that each session
        // starts once.
        let earlier = found.map_or(0, |agent| agent.sessions);
        let opening = OpenSession {
            instance: format!("{POLLER_PROGRAM}-{earlier}"),
            version: POLLER_PROGRAM.to_owned(),
            protocol: PROTOCOL,
            serves: vec![RunnerType::KubernetesAgent],
            platform_id: place,
            labels: [].into(),
            runner: Some(runner.id.clone()),
            run_untagged_jobs: None,
            reserved: false,
            shared: false,
            standby: false,
            concurrency: CONCURRENCY,
            public_key: runner.key.map(AgentKey::to_pem),
            found: Vec::new(),
        };
        // The runner's key has adopted the agent. If an administrator changed that meanwhile, the next request
        // returns the reason.
        self.open_session(caller, &opening).await?.session.ok_or_else(AppError::unauthorized)
    }
}

fn refused(message: impl Into<String>) -> AppError {
    AppError::unauthenticated(message)
}

fn malformed_token() -> AppError {
    refused(
        "this needs `Authorization: Bearer` with a JWT whose header is `alg`: `EdDSA`, `typ`: `JWT` and `kid`, the \
         SHA-256 of the 32 bytes of the public key in hexadecimal, and nothing else",
    )
}

fn not_signed_by(org: &str, runner: &str) -> AppError {
    use crate::quoted::quoted;
    let (org, runner) = (quoted(org), quoted(runner));
    refused(format!(
        "the token is not signed by the `key` of runner `{runner}` of organization `{org}`, if there is one"
    ))
}

fn wrong_runner_type(runner: &ServedRunner) -> AppError {
    AppError::conflict(format!(
        "runner `{}` is of type `{}`, and this protocol hands out Kubernetes Jobs alone: make it one of type \
         `kubernetes-agent`, or run canyon-agent",
        runner.id, runner.kind
    ))
}

fn agent_connected(id: &AgentId) -> AppError {
    let message = format!(
        "canyon-agent is connected as agent `{id}`, which is the name of this runner too; stop one of the two, or \
         give the agent another name"
    );
    AppError::conflict(message).with_detail("code", "session_superseded")
}
