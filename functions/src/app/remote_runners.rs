//! The published protocol of remote runners, served from the jobs of agents.
//!
//! Whoever polls with the key of a runner is an agent of the runner's name, with one session that never ends by
//! itself. What it is told follows from the jobs that agents take too, so the two kinds may stand side by side.

use super::App;
use super::agent_desk::ServedRunner;
use super::agent_proofs::{AgentCaller, Proof, check_claims, key_of};
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

/// The program that those who poll count as: they say nothing of themselves, and replicas share what they do.
const POLLS: &str = "poll-requests";
/// Whoever polls says of no limit; the runner's and the organization's hold.
const CONCURRENCY: u32 = 10_000;

/// Who polls, for which runner.
pub(crate) struct RemoteRunner {
    caller: AgentCaller,
    runner: ServedRunner,
}

/// The answer to a poll.
pub(crate) enum Polled {
    /// What to do.
    Message(RemoteRunnerMessage),
    /// There was nothing for the whole time.
    Nothing,
    /// There is nothing now, and too many requests wait already for this one to wait for its full time.
    NoPlace,
}

impl RemoteRunner {
    /// The organization.
    pub(crate) fn org_id(&self) -> &OrgId {
        &self.caller.org_id
    }
}

impl App {
    /// Whoever has signed `token`, if that is with the key of this runner.
    ///
    /// # Errors
    ///
    /// 401 with what is wrong with the token. What is signed by another key learns nothing else.
    pub(crate) async fn remote_runner(
        &self,
        org_id: &str,
        runner_id: &str,
        token: &str,
    ) -> Result<RemoteRunner, AppError> {
        let parsed = KeyToken::parse(token).ok_or_else(not_such_a_token)?;
        let foreign = || not_signed_by(org_id, runner_id);
        let org_id: OrgId = org_id.parse().map_err(|_| foreign())?;
        let id: RunnerId = runner_id.parse().map_err(|_| foreign())?;
        let org = self.organization_of_agents(&org_id).await?.ok_or_else(foreign)?;
        let runners = self.served_runners(org, Some(&id)).await?;
        let runner = runners.first().cloned().ok_or_else(foreign)?;
        let key = runner.key.ok_or_else(foreign)?;
        let claims = key.verify::<Value>(&parsed).map_err(|_| foreign())?;
        // Whoever has the key is told what it has signed wrongly.
        let claims: KeyClaims = serde_json::from_value(claims)
            .map_err(|error| refused(format!("a claim of the token cannot be read: {error}")))?;
        check_claims(&claims, id.as_str(), &org_id, self.now().as_second())?;
        let agent: AgentId = id.as_str().parse().map_err(|_| foreign())?;
        let (at, proof) = (self.now(), Proof::Key(token.to_owned()));
        // The runner's key vouches for it, so no limit on strangers concerns it.
        let caller = AgentCaller { org, org_id, agent, at, source: None, proof };
        Ok(RemoteRunner { caller, runner })
    }

    /// The next message for the program that polls. It waits for `wait`, or less if too many requests of the runner's key
    /// or of the organization's agents wait.
    pub(crate) async fn poll_requests(
        &self,
        by: &RemoteRunner,
        wait: Duration,
    ) -> Result<Polled, AppError> {
        let RemoteRunner { caller, runner } = by;
        // Before the first look, so that no hint is missed.
        let waiter = self.agents.hints.listen(caller.org, &caller.agent);
        let number = self.session_of(by).await?;
        let mut agent = self.sign_of_life(caller, number, &Poll::default()).await?;
        let waiting = async |longest: Duration| {
            let end = Instant::now() + longest;
            loop {
                for job in self.work_of_runner(caller.org, &agent, runner.uuid).await? {
                    if let Some(message) = self.message_of(caller, &agent, job).await? {
                        return Ok(Polled::Message(message));
                    }
                }
                let now = Instant::now();
                if now >= end {
                    let is_early = longest < wait;
                    return Ok(if is_early { Polled::NoPlace } else { Polled::Nothing });
                }
                waiter.wait(self.agents.look.min(end - now)).await;
                agent = self.agent_in_session(caller, number).await?;
            }
        };
        let whose = WaitOwner::Runner(caller.org, runner.id.clone());
        self.bounded_agent_wait(caller.org, whose, wait, waiting).await
    }

    /// The one session of those who poll, which begins with their first request.
    async fn session_of(&self, by: &RemoteRunner) -> Result<u64, AppError> {
        let RemoteRunner { caller, runner } = by;
        if runner.kind != RunnerType::KubernetesAgent {
            return Err(not_polled(runner));
        }
        let place = format!("remote-runner/{}", runner.uuid);
        let found = self.table.agent(caller.org, &caller.agent).await?;
        if let Some(agent) = &found
            && let Some(session) = &agent.session
        {
            let is_own = session.program == POLLS && session.place == place;
            let may_go_on = agent.adoption == Adoption::Adopted && key_of(agent) == runner.key;
            if is_own && session.closed_at.is_none() && may_go_on {
                return Ok(session.number);
            }
            // An agent by a token for labels alone makes way at the opening.
            if !is_own && session.is_live(self.now()) && !agent.is_confined_to_labels() {
                return Err(connected(&agent.id));
            }
        }
        // They draw nothing. So that each session of theirs is opened once, its place in the agent's life stands for that.
        let earlier = found.map_or(0, |agent| agent.sessions);
        let opening = OpenSession {
            instance: format!("{POLLS}-{earlier}"),
            version: POLLS.to_owned(),
            protocol: PROTOCOL,
            serves: vec![RunnerType::KubernetesAgent],
            place,
            labels: [].into(),
            runner: Some(runner.id.clone()),
            run_untagged_jobs: None,
            reserved: false,
            standby: false,
            concurrency: CONCURRENCY,
            public_key: runner.key.map(AgentKey::to_pem),
            found: Vec::new(),
        };
        // The runner's key has vouched for it, so it is adopted; if that was changed meanwhile, its next request
        // says why not.
        self.open_session(caller, &opening).await?.session.ok_or_else(AppError::unauthorized)
    }
}

fn refused(message: impl Into<String>) -> AppError {
    AppError::unauthenticated(message)
}

fn not_such_a_token() -> AppError {
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

fn not_polled(runner: &ServedRunner) -> AppError {
    AppError::conflict(format!(
        "runner `{}` is of type `{}`, and this protocol hands out Kubernetes Jobs alone: make it one of type \
         `kubernetes-agent`, or run canyon-agent",
        runner.id, runner.kind
    ))
}

fn connected(id: &AgentId) -> AppError {
    let message = format!(
        "canyon-agent is connected as agent `{id}`, which is the name of this runner too; stop one of the two, or \
         give the agent another name"
    );
    AppError::conflict(message).with_detail("code", "session_superseded")
}
