//! How an agent authenticates each of its requests.

use super::App;
use super::agent_enrollment::scope_of;
use crate::app::error::AppError;
use crate::app::network_address::NetworkAddress;
use canyon_api::agent::{KEY_AUDIENCE, KEY_TOKEN_LIFETIME_SECONDS, KeyClaims};
use canyon_domain::agent::{Adoption, Agent, AgentIdentity, Session};
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::{AgentId, OrgId, OrgUuid, RunnerId};
use canyon_domain::principal::{Principal, Role};
use canyon_identity::agent_key::{AgentKey, KeyToken};
use canyon_store::contention::MAX_TRIES;
use jiff::Timestamp;
use std::sync::Arc;

/// The tolerated clock difference of an agent, in seconds. The agent can read the time from the `Date` header.
const SKEW: u64 = 60;
/// Seconds that the clock may advance within a request.
const TICK: i64 = 5;

/// The caller of an agent's request, and its proof.
#[derive(Clone, Debug)]
pub(crate) struct AgentCaller {
    pub(crate) org: OrgUuid,
    pub(crate) org_id: OrgId,
    /// The agent that the path names.
    pub(crate) agent: AgentId,
    /// When the request arrived. The proof must have been valid then, however long the request waits.
    pub(crate) at: Timestamp,
    /// The network address that the request came from.
    pub(crate) source: Option<NetworkAddress>,
    pub(crate) proof: Proof,
}

/// The proof of identity in a request.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// A token of Canyon, which was valid when the request arrived.
    Token(SecretHash, Arc<Principal>),
    /// A token that the agent has signed. It is not yet verified.
    Key(String),
}

/// A request to the path of an agent. [`Self::caller`] reports a missing organization only after the body was
/// validated: an earlier refusal would reveal to an unknown caller which organizations exist.
#[derive(Clone, Debug)]
pub(crate) enum AgentRequest {
    /// To an organization that exists.
    Known(AgentCaller),
    /// To an organization that does not exist, with a token that a key has signed.
    Unknown(SignedRequest),
}

impl AgentRequest {
    /// The caller.
    ///
    /// # Errors
    ///
    /// 401 if the organization does not exist, the same as for an agent that it does not know.
    pub(crate) fn caller(&self) -> Result<&AgentCaller, AppError> {
        match self {
            Self::Known(caller) => Ok(caller),
            Self::Unknown(_) => Err(AppError::unauthorized()),
        }
    }
}

/// The expected claims of a token that a key has signed.
#[derive(Clone, Debug)]
pub(crate) struct SignedRequest {
    pub(crate) org_id: OrgId,
    pub(crate) agent: AgentId,
    pub(crate) at: Timestamp,
    pub(crate) token: String,
}

impl SignedRequest {
    /// Returns the same refusals as for an agent of an existing organization.
    pub(super) fn check(&self, key: Option<AgentKey>) -> Result<(), AppError> {
        check_signed(&self.token, key, &self.agent, &self.org_id, self.at).map(drop)
    }
}

impl AgentCaller {
    /// The proved identity of the caller: the principal of its token, or this key.
    pub(crate) fn identity(&self, key: Option<AgentKey>) -> Result<AgentIdentity, AppError> {
        let token = match &self.proof {
            Proof::Token(_, principal) => {
                return Ok(AgentIdentity::Token { principal: principal.id });
            }
            Proof::Key(token) => token,
        };
        let key = check_signed(token, key, &self.agent, &self.org_id, self.at)?;
        Ok(AgentIdentity::Key { public_key: key.to_pem() })
    }

    /// The name of the caller's network address.
    pub(crate) fn asks_from(&self) -> String {
        self.source.map_or_else(|| "unknown".to_owned(), |source| source.to_string())
    }

    /// The principal of its token.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        match &self.proof {
            Proof::Token(_, principal) => Some(principal),
            Proof::Key(_) => None,
        }
    }
}

/// The key, if it has signed the token and the claims name this agent.
fn check_signed(
    token: &str,
    key: Option<AgentKey>,
    agent: &AgentId,
    org_id: &OrgId,
    at: Timestamp,
) -> Result<AgentKey, AppError> {
    let key = key.ok_or_else(AppError::unauthorized)?;
    let claims = KeyToken::parse(token).and_then(|token| key.verify::<KeyClaims>(&token).ok());
    let claims = claims.ok_or_else(AppError::unauthorized)?;
    check_claims(&claims, agent.as_str(), org_id, at.as_second())?;
    Ok(key)
}

/// Checks the claims. Only a holder of the key reaches this check, so the error may say what is wrong.
pub(super) fn check_claims(
    claims: &KeyClaims,
    subject: &str,
    org: &OrgId,
    now: i64,
) -> Result<(), AppError> {
    let audience = format!("{KEY_AUDIENCE}{org}");
    for (name, claimed, wanted) in
        [("sub", claims.sub.as_str(), subject), ("aud", claims.aud.as_str(), audience.as_str())]
    {
        if claimed != wanted {
            let message = format!("the token's claim `{name}` must be `{wanted}`");
            return Err(AppError::unauthenticated(message));
        }
    }
    check_times(claims, now)
}

/// Checks the times of a token; see [`check_claims`].
fn check_times(claims: &KeyClaims, now: i64) -> Result<(), AppError> {
    let off = claims.iat.saturating_sub(now);
    let left = claims.exp.saturating_sub(now);
    if off.unsigned_abs() <= SKEW && (1..=KEY_TOKEN_LIFETIME_SECONDS + TICK).contains(&left) {
        return Ok(());
    }
    let shown = |second| Timestamp::from_second(second).map_or("?".to_owned(), |at| at.to_string());
    let message = format!(
        "the token was made at {} for {} s, and it is {} here: a token of an agent is good for at most \
         {KEY_TOKEN_LIFETIME_SECONDS} s. Set the clock of the agent's machine, or take the time from the header \
         `Date` of this answer",
        shown(claims.iat),
        claims.exp.saturating_sub(claims.iat),
        shown(now),
    );
    Err(AppError::unauthenticated(message).with_detail("code", "clock"))
}

/// The agent's key, if it signs in by one.
pub(crate) fn key_of(agent: &Agent) -> Option<AgentKey> {
    match &agent.identity {
        AgentIdentity::Key { public_key } => AgentKey::from_pem(public_key).ok(),
        AgentIdentity::Token { .. } => None,
    }
}

impl App {
    /// The current agent, if the caller has proved to be it, it may work, and `number` is its newest session. If that
    /// session was started while another one was open, its first request supersedes the other.
    pub(crate) async fn agent_in_session(
        &self,
        caller: &AgentCaller,
        number: u64,
    ) -> Result<Agent, AppError> {
        for _ in 0..MAX_TRIES {
            let mut agent = self.proved_agent(caller).await?;
            let is_open =
                |session: &&Session| session.number == number && session.closed_at.is_none();
            if let Some(session) = agent.session.as_ref().filter(is_open) {
                let Some(opened_at) = session.adopts_jobs else { return Ok(agent) };
                self.adopt_jobs(caller.org, &agent, opened_at).await?;
                if let Some(session) = &mut agent.session {
                    session.adopts_jobs = None;
                }
            } else if !agent.confirm(number, self.now()) {
                return Err(superseded(&agent.id, number));
            }
            agent.version += 1;
            // Whether this write or a concurrent one succeeded, the next read decides.
            self.table.save_agent(caller.org, &agent).await?;
        }
        Err(AppError::contended(&caller.agent))
    }

    /// The current agent, if the caller has proved to be it and it may work.
    pub(super) async fn proved_agent(&self, caller: &AgentCaller) -> Result<Agent, AppError> {
        self.check_token(caller).await?;
        let Some(mut agent) = self.table.agent(caller.org, &caller.agent).await? else {
            return Err(unknown(caller));
        };
        let is_by_key = matches!(caller.proof, Proof::Key(_));
        if agent.adoption == Adoption::Pending && is_by_key {
            // The same answer as for an agent that Canyon does not know: see `App::answer_session_start`.
            return Err(AppError::unauthorized());
        }
        if caller.identity(key_of(&agent))? != agent.identity {
            return Err(another(&agent.id));
        }
        if self.has_lost_its_key(caller.org, &agent).await? {
            return Err(key_replaced(&agent));
        }
        if agent.adoption == Adoption::Rejected {
            return Err(rejected(&agent.id));
        }
        if agent.lacks_token_scope() {
            // The next write of the agent records what its token is for.
            agent.by_token = scope_of(&self.token_of(caller).await?);
        }
        Ok(agent)
    }

    /// Whether the runner key by which alone the agent was adopted was replaced since.
    pub(super) async fn has_lost_its_key(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<bool, AppError> {
        if !agent.by_runner_key {
            return Ok(false);
        }
        let (runners, key) =
            (self.served_runners(org, agent.runner.as_ref()).await?, key_of(agent));
        Ok(runners.iter().any(|runner| runner.key != key))
    }

    /// Checks the token again: it may be revoked while its agent waits.
    async fn check_token(&self, caller: &AgentCaller) -> Result<(), AppError> {
        if let Proof::Token(hash, _) = &caller.proof {
            let principal = self.authenticate(hash.clone()).await?;
            principal
                .filter(|known| known.role == Role::Agent)
                .ok_or_else(AppError::unauthorized)?;
        }
        Ok(())
    }
}

/// The refusal for a caller without proof. It does not reveal which agents exist.
fn unknown(caller: &AgentCaller) -> AppError {
    match &caller.proof {
        Proof::Key(_) => AppError::unauthorized(),
        Proof::Token(..) => AppError::not_found("agent", &caller.agent),
    }
}

/// Another agent has this name.
pub(crate) fn another(id: &AgentId) -> AppError {
    let message = format!(
        "another agent is called `{id}`: it signs in by another key or token. Give this one another name, \
         or forget that one: canyon forget agent {id}"
    );
    AppError::conflict(message).with_detail("code", "another_agent")
}

/// An administrator has rejected the agent.
pub(crate) fn rejected(id: &AgentId) -> AppError {
    let message =
        format!("agent `{id}` was rejected; an admin may change that: canyon adopt agent {id}");
    AppError::denied(message).with_detail("code", "rejected")
}

/// The runner key that adopted the agent was replaced.
pub(crate) fn key_replaced(agent: &Agent) -> AppError {
    let (id, runner) = (&agent.id, agent.runner.as_ref().map_or("", RunnerId::as_str));
    let message = format!(
        "the `key` of runner `{runner}` was replaced, and agent `{id}` was adopted by the former one: start it with \
         the new key, or adopt it: canyon adopt agent {id}"
    );
    AppError::denied(message).with_detail("code", "rejected")
}

fn superseded(id: &AgentId, number: u64) -> AppError {
    let message = format!(
        "session {number} of agent `{id}` is over: another process of that name has opened a newer one, or \
         this one has left. Leave its jobs alone, and open a session if this process should go on"
    );
    AppError::conflict(message)
        .with_detail("code", "session_superseded")
        .with_detail("standby", true)
}
